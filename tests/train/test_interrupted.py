"""Ctrl-C while `fit` works, at any moment: the best weights so far are put back, and the result says so."""

import sys

import pytest

from lbnn.train import descent, fit
from lbnn.train.validation import Best
from trainings import fit as run
from trainings import line, network, same, weights

SCORES = [1.0, 2.0, 0.5]
LOOP = {function.__code__ for function in (fit._watch, fit._epochs, Best.see)}


def of_an_epoch(code) -> bool:
    """Code that is over when the last epoch is."""
    return code in LOOP or code.co_filename == descent.__file__


class Interrupted:
    """Ctrl-C before the n-th line of the epochs."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame, event, arg):
        if not of_an_epoch(frame.f_code):
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return self


def interrupted_training(number: int):
    """The model, its weights at each validation, the result or None, and how many lines were left."""
    model, seen, ctrl_c = network(), [], Interrupted(number)

    def score(candidate):
        seen.append(weights(candidate))
        return SCORES[len(seen) - 1]

    before = sys.gettrace()
    sys.settrace(ctrl_c)
    try:
        result = run(model, line(), epochs=len(SCORES), batch_size=12, validation=score)
    except KeyboardInterrupt:
        result = None
    finally:
        sys.settrace(before)
    return model, seen, result, ctrl_c.left


def test_ctrl_c_at_any_line_leaves_the_weights_of_the_best_epoch():
    *_, left = interrupted_training(10**6)
    lines = 10**6 - left
    outcomes = []
    for number in range(1, lines + 1, 5):
        model, seen, result, _ = interrupted_training(number)
        outcomes.append(result is not None)
        if result is None:
            continue
        assert result.interrupted and not model.training
        held = result.best_epoch if result.best_validation is not None else None
        assert held is None or same(weights(model), seen[held - 1]), number
        assert held is None or SCORES[held - 1] == result.best_validation, number
        ended = [epoch.validation for epoch in result.epochs]
        assert result.best_validation in (min(ended), min(ended[:-1], default=None)), number
    assert lines > 100 and outcomes == sorted(outcomes) and set(outcomes) == {True, False}


def test_a_training_that_is_left_alone_was_not_interrupted():
    result = run(network(), line(), epochs=2)
    assert not result.interrupted and not result.stopped_early


def test_ctrl_c_in_the_first_epoch_is_what_it_is_elsewhere():
    def refuse(moments, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(network(), line(), epochs=2, loss=refuse)


def test_without_validation_the_last_weights_stay():
    def stop(epoch):
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    result = run(network(), line(), epochs=5, on_epoch=stop)
    assert (result.interrupted, result.stopped_early, result.best_epoch, len(result.epochs)) == (True, True, 2, 2)
