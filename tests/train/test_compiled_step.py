"""The compiled step: the same training as the ordinary one, and clear words where it can't be."""

from functools import partial

import pytest
import torch

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.train import compiled
from lbnn.train.losses import gaussian_nll
from trainings import fit, line, network, weights


@pytest.fixture(autouse=True)
def traced_only(monkeypatch):
    """What torch traces, run operator by operator: the C++ of the compiler is torch's own affair and takes a minute."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))


def normalised():
    torch.manual_seed(3)
    layers = [bnn.Linear(1, 4), bnn.BatchNorm(4), bnn.LeakyReLU(), bnn.Linear(4, 1, bias=False)]
    return bnn.Sequential(*layers).double()


def data():
    return tuple(part.double() for part in line(20))


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (partial(network, dtype=torch.float64), {"batch_size": 8}),  # 20 rows: the last batch has 4 and is not compiled
        (normalised, {"clip_norm": 0.05, "loss": lambda out, y: 2 * gaussian_nll(out, y, "none", check=False)}),
    ],
    ids=["short batch", "all there is"],
)
def test_it_trains_as_the_ordinary_step(make, options):
    models = [make(), make()]
    one, two = (fit(m, data(), epochs=8, compile=c, **options) for m, c in zip(models, (False, True), strict=True))
    assert two.loss == pytest.approx(one.loss, rel=1e-9)
    assert [e.kl for e in two.epochs] == pytest.approx([e.kl for e in one.epochs], rel=1e-9)
    for a, b in zip(*map(weights, models), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


def classifier():
    torch.manual_seed(4)
    layers = [bnn.Linear(1, 4, sigma=0.1), bnn.LeakyReLU(), bnn.Linear(4, 3, sigma=0.1), bnn.SoftmaxHead()]
    return bnn.Sequential(*layers).double()


def test_it_trains_a_network_with_a_head_as_the_ordinary_step():
    x, y = data()
    pair = x, (y[:, 0] > y.median()).long() + (x[:, 0] > 0.3).long()
    models = [classifier(), classifier()]
    one, two = (fit(m, pair, epochs=8, compile=c, batch_size=8) for m, c in zip(models, (False, True), strict=True))
    assert two.loss == pytest.approx(one.loss, rel=1e-9)
    for a, b in zip(*map(weights, models), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)
    assert models[1](x).probability.sum(-1).tolist() == pytest.approx([1.0] * len(x))


@pytest.mark.parametrize("most", [0.5, 5.0, 100.0, None])
def test_gradients_are_clipped_as_torch_clips_them_and_small_ones_stay(most):
    gradients = [torch.tensor([3.0, -1.0], dtype=torch.float64), torch.tensor([[4.0]], dtype=torch.float64)]
    parts = [torch.zeros_like(g, requires_grad=True) for g in gradients]
    for part, gradient in zip(parts, gradients, strict=True):
        part.grad = gradient.clone()
    if most is not None:
        torch.nn.utils.clip_grad_norm_(parts, most)
    torch.testing.assert_close(compiled.clipped(gradients, most), [part.grad for part in parts], rtol=1e-12, atol=0.0)


def test_a_loss_that_is_no_number_is_found():
    with pytest.raises(LbnnError, match=r"the loss is .* in epoch"):
        fit(network(), line(), epochs=9, lr=1e30, compile=True)


@pytest.mark.parametrize(
    "options", [{"prior": "spike_slab"}, {"optimizer": lambda groups: torch.optim.SGD(groups, lr=0.1)}]
)
def test_what_it_does_not_know_is_refused(options):
    with pytest.raises(LbnnError, match="compile=True needs the Gaussian prior, the default optimizer"):
        fit(network(), line(), epochs=1, compile=True, **options)


def test_it_asks_for_a_compiler(monkeypatch):
    monkeypatch.setattr(compiled.shutil, "which", lambda name: None)
    with pytest.raises(LbnnError, match=r"needs a C\+\+ compiler"):
        fit(network(), line(), epochs=1, compile=True)
