"""Standardisation and batch normalisation of random values."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lbnn import LbnnError, Moments
from lbnn import nn as bnn


@pytest.mark.parametrize("spread", [0.01, 0.3, 10.0])
@pytest.mark.parametrize("shape", [(7, 3), (5, 3, 4), (4, 3, 2, 3)])
def test_batch_norm_while_training_is_that_of_two_known_values_with_the_same_moments(shape, spread):
    """mean - sd and mean + sd, equally likely, have the mean and the variance: torch's own layer is the oracle."""
    layer = bnn.BatchNorm(3, eps=1e-3, momentum=0.25).double()
    with torch.no_grad():
        layer.weight.uniform_(-2.0, 2.0), layer.bias.normal_()
    x = Moments(*(2.0 * torch.randn(shape).double() + 1.0, spread * torch.rand(shape).double()))
    points = torch.cat([x.mean - x.std, x.mean + x.std])
    low, high = F.batch_norm(points, None, None, layer.weight, layer.bias, training=True, eps=1e-3).chunk(2)
    out = layer(x)
    torch.testing.assert_close(out.mean, (low + high) / 2)
    torch.testing.assert_close(out.std, (high - low).abs() / 2)
    var, mean = torch.var_mean(points, [0, *range(2, len(shape))], correction=0)
    torch.testing.assert_close(layer.running_mean, 0.25 * mean)
    count = x.mean.numel() // 3
    more = torch.var(x.mean, [0, *range(2, len(shape))], correction=0) / (count - 1)
    torch.testing.assert_close(layer.running_var, 0.75 + 0.25 * (var + more))


@pytest.mark.parametrize("shape", [(7, 3), (5, 3, 4), (4, 3, 2, 3)])
def test_batch_norm_of_known_values_learns_what_torch_s_own_does(shape):
    layer, own = (
        bnn.BatchNorm(3, momentum=0.2),
        (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(3, momentum=0.2),
    )
    for seed in range(3):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3 + 1
        torch.testing.assert_close(layer(x), own(x))
    torch.testing.assert_close(layer.running_mean, own.running_mean)
    torch.testing.assert_close(layer.running_var, own.running_var)
    torch.testing.assert_close(layer.eval()(x), own.eval()(x))


def test_batch_norm_learns_statistics_with_which_eval_agrees():
    """Up to the unbiased variance, 320 values in place of 319."""
    layer = bnn.BatchNorm(2, momentum=1.0)
    x = Moments(torch.randn(64, 2, 5), torch.rand(64, 2, 5))
    trained = layer(x)
    torch.testing.assert_close(tuple(layer.eval()(x)), tuple(trained), rtol=1 / 319, atol=1e-3)


def test_batch_norm_of_one_random_value_takes_its_variance():
    layer = bnn.BatchNorm(2, momentum=1.0)
    layer(Moments(torch.ones(1, 2), torch.full((1, 2), 4.0)))
    assert layer.running_mean.tolist() == [1.0, 1.0] and layer.running_var.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_refuses_channels_that_it_does_not_have(training):
    with pytest.raises(LbnnError, match=r"parameters \[\(3,\)\] do not fit input \(2,\)"):
        bnn.BatchNorm(3).train(training)(torch.ones(4, 2))


def test_an_affine_map_without_a_shift_only_scales():
    x = Moments(torch.randn(4, 2), torch.rand(4, 2))
    torch.testing.assert_close(tuple(bnn.Affine(-3.0)(x)), (-3.0 * x.mean, 9.0 * x.var))


def test_standardize_and_its_inverse_are_the_identity():
    layer = bnn.Standardize(torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5]))
    x = Moments(torch.randn(4, 2), torch.rand(4, 2))
    standard = layer(x)
    torch.testing.assert_close(standard.mean, (x.mean - torch.tensor([1.0, -2.0])) / torch.tensor([3.0, 0.5]))
    torch.testing.assert_close(tuple(layer.inverse()(standard)), tuple(x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.Standardize([0.0], [0.0]), "std must be positive"),
    ],
)
def test_a_scale_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()
