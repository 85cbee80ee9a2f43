"""fit as a whole: what it learns, that it repeats, and what it refuses."""

import copy
import math
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.losses import gaussian_nll
from trainings import SOURCES, fit, line, network, same, weights


def test_a_network_with_a_learned_variance_learns_function_and_noise():
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(1, 8), bnn.LeakyReLU(), bnn.Linear(8, 2), bnn.VarianceHead())
    result = fit(model, line(2000), epochs=20, batch_size=100, lr=0.03, validation=line(4000, seed=2))
    ideal = math.log(0.1) + (math.log(2 * math.pi) + 1) / 2
    assert ideal - 0.05 < result.best_validation < ideal + 0.1


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_seed_gives_the_same_history_and_weights(source):
    runs = []
    for seed, noise in ((3, 0), (3, 1), (4, 2)):
        data, options = SOURCES[source]()
        model = network()
        torch.manual_seed(noise)  # the caller's random state must not matter
        runs.append((fit(model, data, epochs=3, seed=seed, **options), weights(model)))
    assert runs[0][0] == runs[1][0] and same(runs[0][1], runs[1][1])
    assert runs[0][0].loss != runs[2][0].loss


@pytest.mark.parametrize("source", SOURCES)
def test_the_callers_random_state_is_left_alone(source):
    data, options = SOURCES[source]()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    model = copy.deepcopy(MODEL)
    fit(model, data, epochs=1, **options)
    assert torch.equal(torch.get_rng_state(), before)


MODEL = network()


def test_the_callback_stops_the_training():
    result = fit(network(), line(), epochs=10, on_epoch=lambda epoch: epoch.epoch == 3)
    assert len(result.loss) == 3 and result.stopped_early


@pytest.mark.parametrize(
    "wrap",
    [partial(torch.compile, backend="aot_eager", fullgraph=True), torch.nn.DataParallel],
    ids=["compiled", "parallel"],
)
def test_a_wrapped_model_trains_as_the_plain_one(wrap):
    model, twin = network(), network()
    wrapped = wrap(model)
    options = dict(epochs=3, validation=line(8))
    assert fit(wrapped, line(), **options).loss == pytest.approx(fit(twin, line(), **options).loss, rel=1e-5)
    for a, b in zip(weights(model), weights(twin), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


class Zero(torch.nn.Module):
    """A model whose output variance is whatever it is told."""

    def __init__(self, var: float) -> None:
        super().__init__()
        self.layer, self.var = bnn.Linear(1, 1), var

    def forward(self, x):
        out = self.layer(x)
        return Moments(out.mean, 0.0 * out.var + self.var)


X, Y = line()
NAN = torch.full_like(X, math.nan)


@pytest.mark.parametrize(
    "model, data, options, message",
    [
        (network(), (NAN, Y), {}, r"inputs hold NaN or infinity \(first in row 0\)"),
        (network(), (X, torch.cat([Y[:5], NAN[:1], Y[6:]])), {}, r"targets hold NaN or infinity \(first in row 5\)"),
        (network(), DataLoader(TensorDataset(X, NAN), 4), {}, "targets hold NaN"),
        (network(), lambda generator: (NAN, Y), {}, "inputs hold NaN"),
        (network(), (Moments(X, NAN), Y), {}, "input variances hold NaN"),
        (network(), (X, Y), {"validation": (X, NAN)}, "targets hold NaN"),
        (network(), (X, Y), {"validation": lambda model: math.nan}, "validation NLL is NaN"),
        (network(), (X, Y[:-1]), {}, "same number of rows"),
        (network(), (X[:0], Y[:0]), {}, "at least one"),
        (network(), (X, Y[:, 0]), {}, "reshape the target to match"),
        (network(), X, {}, "data must be a pair"),
        (network(), (X.numpy(), Y.numpy()), {}, "use torch.as_tensor"),
        (network(), lambda generator: X, {}, "the result of the sampler must be a pair"),
        (network(), lambda generator: (X, Y), {"batch_size": 4}, "the sampler decides"),
        (network(), DataLoader(TensorDataset(X, Y)), {"batch_size": 4}, "the DataLoader decides"),
        (network(), (X, Y), {"batch_size": 0}, "batch_size must be at least 1"),
        (network(), (X, Y), {"epochs": 0}, "epochs must be at least 1"),
        (network(), (X, Y), {"patience": 3}, "patience needs a validation set"),
        (network(), (X, Y), {"prior": "horseshoe"}, "unknown prior 'horseshoe'; known: spike_slab, gaussian"),
        (network(), (X, Y), {"kl_weight": "cosine"}, "unknown KL weight 'cosine'"),
        (network(), (X, Y), {"kl_weight": -1.0}, "finite and not negative"),
        (network(), (X, Y), {"loss": gaussian_nll}, "unreduced"),
        (network(), (X, Y), {"lr": 1e30, "epochs": 9}, "the loss is .* in epoch .*lower the learning rate"),
        (Zero(-1.0), (X, Y), {}, "predicted variance is negative"),
        (Zero(0.0), (X, Y), {}, "predicted variance is zero"),
        (torch.nn.Linear(1, 1), (X, Y), {}, "must return Moments, not Tensor"),
        (torch.nn.ReLU(), (X, Y), {}, "no parameters to train"),
    ],
)
def test_nonsense_gets_a_clear_error(model, data, options, message):
    with pytest.raises(LbnnError, match=message):
        fit(model, data, **{"epochs": 1, **options})
