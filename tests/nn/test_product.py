"""Products of values: gates in every backend, known factors, and what is refused."""

import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.measure.backends import BACKENDS
from lbnn.measure.parity import FLOAT32_TOLERANCE, errors, expect
from lbnn.measure.samples import draw_samples
from lbnn.model.file import read_model


class Gated(nn.Module):
    """Channels scaled by what a branch computes, then by their input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gate = bnn.Conv2d(2, 3, 3, padding=1), bnn.Conv2d(2, 3, 1)
        self.pool, self.same = bnn.AdaptiveAvgPool2d(1), bnn.Conv2d(2, 3, 1)
        self.end = bnn.Linear(5, 2)

    def forward(self, x):
        gate = self.gate(self.pool(x))
        return self.end(gate * self.conv(x) * self.same(x))


class KnownFactor(nn.Module):
    """A known value beside a random one, in both orders and sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.pool, self.product = bnn.Conv2d(2, 2, 1), bnn.AdaptiveAvgPool2d(1), bnn.Multiply()

    def forward(self, x):
        return self.product(self.gate(self.pool(x)), x) + self.gate(x) * self.pool(x)


@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("network", [Gated, KnownFactor])
def test_gates_agree_everywhere(network, backend, random):
    torch.manual_seed(0)
    model = read_model(network(), (2, 4, 5))
    samples = draw_samples(model, 14, seed=0, input_variance=random)
    found = BACKENDS[backend].run(model, samples)
    expected = expect(model.graph, samples)
    for error, allowed in zip(errors(found, expected.result), expected.allowed(FLOAT32_TOLERANCE), strict=True):
        assert (error <= allowed).all()


def test_operator_and_layer_give_the_same_as_samples():
    generator = torch.Generator().manual_seed(0)
    x, y = (
        Moments(torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 2.0]])),
        Moments(torch.tensor([[3.0, 0.1]]), torch.ones(1, 2)),
    )
    drawn = [m + v.sqrt() * torch.randn(2_000_000, 2, generator=generator) for m, v in (x, y)]
    product = drawn[0] * drawn[1]
    for out in (x * y, bnn.Multiply()(x, y)):
        torch.testing.assert_close(out.mean[0], product.mean(0), rtol=0.01, atol=0.01)
        torch.testing.assert_close(out.var[0], product.var(0), rtol=0.01, atol=0.01)
    torch.testing.assert_close(tuple(bnn.Multiply()(x, y.mean)), tuple(x * y.mean))


def test_a_value_times_itself_is_refused_and_a_known_one_is_not():
    x = Moments(torch.ones(1, 2), torch.ones(1, 2))
    for square in (lambda: x * x, lambda: bnn.Multiply()(x, x)):
        with pytest.raises(LbnnError, match="times itself"):
            square()
    assert torch.equal(bnn.Multiply()(x.mean, x.mean), x.mean)


@pytest.mark.parametrize("shape", [(2, 3), (1, 4), (2, 1, 1)])
def test_shapes_that_do_not_fit_are_refused(shape):
    with pytest.raises(LbnnError, match="single value for each channel"):
        bnn.Multiply()(Moments(*[torch.ones(1, 2, 4)] * 2), torch.ones(1, *shape))


def test_a_saved_product_comes_back(tmp_path):
    torch.manual_seed(0)
    net = Gated()
    lbnn.save(net, tmp_path / "gated.pt", input_shape=(2, 4, 5))
    x = torch.randn(3, 2, 4, 5)
    torch.testing.assert_close(tuple(lbnn.load(tmp_path / "gated.pt")(x)), tuple(net(x)))
