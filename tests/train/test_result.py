"""The history of a training, read by columns."""

import dataclasses

from lbnn.train.result import Epoch, FitResult

EPOCHS = (Epoch(1, 3.0, 2.0, 10.0, 0.1, 2.5), Epoch(2, 2.0, 1.5, 5.0, 0.1), Epoch(3, 1.0, 0.6, 4.0, 0.1, 0.7))
RESULT = FitResult(EPOCHS, best_epoch=3, best_validation=0.7, stopped_early=False, seconds=1.0)


def test_columns_are_in_the_order_of_epochs_and_validation_names_its_own():
    assert (RESULT.loss, RESULT.nll, RESULT.kl) == ([3.0, 2.0, 1.0], [2.0, 1.5, 0.6], [10.0, 5.0, 4.0])
    assert RESULT.validation == [(1, 2.5), (3, 0.7)]


def test_two_trainings_are_equal_however_long_they_took():
    assert dataclasses.replace(RESULT, seconds=9.0) == RESULT != dataclasses.replace(RESULT, best_epoch=1)
