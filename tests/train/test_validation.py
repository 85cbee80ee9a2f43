"""Which epoch is best, and when to stop."""

import pytest
from torch.utils.data import DataLoader, TensorDataset

from lbnn.train.losses import gaussian_nll
from trainings import fit, line, network, same, weights


def scripted(values):
    """A validation that returns given numbers."""
    numbers = iter(values)
    return lambda model: next(numbers)


def test_the_weights_of_the_best_epoch_are_put_back():
    model, seen = network(), []
    result = fit(
        model,
        line(),
        epochs=4,
        validation=scripted([3.0, 1.0, 2.0, 1.5]),
        on_epoch=lambda epoch: seen.append(weights(model)),
    )
    assert (result.best_epoch, result.best_validation) == (2, 1.0)
    assert result.validation == [(1, 3.0), (2, 1.0), (3, 2.0), (4, 1.5)]
    assert same(weights(model), seen[1]) and not same(seen[1], seen[3])
    assert not model.training


def test_without_validation_the_last_weights_stay():
    model, seen = network(), []
    result = fit(model, line(), epochs=3, on_epoch=lambda epoch: seen.append(weights(model)))
    assert (result.best_epoch, result.best_validation, result.validation) == (3, None, [])
    assert same(weights(model), seen[2])


def test_patience_stops_after_so_many_validations_without_improvement():
    result = fit(network(), line(), epochs=10, patience=2, validation=scripted([3.0, 1.0, 2.0, 0.5, 0.6, 0.5]))
    assert (len(result.loss), result.best_epoch, result.stopped_early) == (6, 4, True)


def test_validate_every_skips_epochs_but_never_the_last():
    result = fit(network(), line(), epochs=7, validate_every=3, validation=line(8))
    assert [epoch for epoch, _ in result.validation] == [3, 6, 7]


@pytest.mark.parametrize("form", ["pair", "loader"])
def test_validation_is_the_mean_nll_of_the_model(form):
    x, y = line(20_000, seed=5)
    validation = (x, y) if form == "pair" else DataLoader(TensorDataset(x, y), 3000)
    model = network()
    result = fit(model, line(), epochs=1, validation=validation)
    assert result.best_validation == pytest.approx(gaussian_nll(model(x), y).item(), rel=1e-5)


def test_the_model_trains_in_training_mode_and_is_validated_in_evaluation_mode():
    model, modes = network(), []
    loss = lambda moments, y: modes.append(model.training) or gaussian_nll(moments, y, "none")
    fit(model, line(), epochs=2, loss=loss, validation=line(4))
    assert modes == [True, False, True, False]
