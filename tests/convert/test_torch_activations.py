"""Activations of torch that lbnn has by other names or by their function."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.convert.activations import ACTIVATIONS


class Bump(nn.Module):
    """Someone's own."""

    def forward(self, x):
        return torch.exp(-x * x)


EXAMPLES = {
    "Mish": nn.Mish(),
    "Tanhshrink": nn.Tanhshrink(),
    "LogSigmoid": nn.LogSigmoid(),
    "Softshrink": nn.Softshrink(0.7),
    "Softshrink of 0": nn.Softshrink(0.0),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_plain_function_and_the_moments_are_those_of_torch(name):
    """Far beyond any table too; moments against quadrature."""
    layer, x = lbnn.from_torch(EXAMPLES[name]), torch.linspace(-60.0, 40.0, 2001, dtype=torch.float64)[:, None]
    torch.testing.assert_close(layer(x), EXAMPLES[name](x), rtol=1e-5, atol=1e-4)
    z = torch.linspace(-8.0, 8.0, 4001, dtype=torch.float64)
    mass = torch.exp(-0.5 * z * z) / torch.exp(-0.5 * z * z).sum()
    mean = torch.linspace(-7.0, 7.0, 29, dtype=torch.float64)[:, None]
    for sigma in (0.05, 0.5, 2.0, 10.0):
        found = EXAMPLES[name](mean + sigma * z)
        true = found @ mass
        sd = ((found - true[:, None]) ** 2 @ mass).sqrt()
        got = layer(Moments(mean, torch.full_like(mean, sigma**2)))
        torch.testing.assert_close(got.mean.flatten(), true, rtol=0.0, atol=3e-4 * sigma)
        torch.testing.assert_close(got.std.flatten(), sd, rtol=0.0, atol=1e-3 * sigma)


def test_every_activation_that_is_known_is_tested():
    assert set(map(type, EXAMPLES.values())) == set(ACTIVATIONS)


def test_a_function_stands_for_a_class():
    net = nn.Sequential(nn.Linear(3, 4), Bump(), nn.Linear(4, 2), nn.Softsign())
    given = {Bump: lambda x: torch.exp(-x * x), nn.Softsign: bnn.Pointwise(F.softsign, range=(-32, 32), cells=256)}
    converted, x = lbnn.from_torch(net, sigma=1e-6, pointwise=given), torch.randn(9, 3)
    assert isinstance(converted[1], bnn.Pointwise) and converted[3].error() == given[nn.Softsign].error()
    torch.testing.assert_close(converted(x).mean, net(x), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("given", [3.0, nn.ReLU])
def test_what_is_no_function_is_refused(given):
    with pytest.raises(LbnnError, match="pointwise takes a function or a Pointwise for Bump"):
        lbnn.from_torch(nn.Sequential(Bump()), pointwise={Bump: given})
