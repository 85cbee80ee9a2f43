"""Standardisation and batch normalisation of random values."""

import pytest
import torch

from lbnn import LbnnError, Moments
from lbnn import nn as bnn


def test_batch_norm_normalises_the_random_values_themselves():
    layer = bnn.BatchNorm(3)
    x = Moments(torch.randn(4000, 3) * 2 + 1, torch.rand(4000, 3))
    out = layer(x)
    samples = out.mean + out.std * torch.randn(4000, 3)
    torch.testing.assert_close(samples.mean(0), torch.zeros(3), atol=0.08, rtol=0)
    torch.testing.assert_close(samples.var(0), torch.ones(3), atol=0.12, rtol=0)
    torch.testing.assert_close(layer.running_mean, 0.1 * x.mean.mean(0))


def test_batch_norm_learns_statistics_with_which_eval_agrees():
    layer = bnn.BatchNorm(2, momentum=1.0)
    x = Moments(torch.randn(64, 2, 5), torch.rand(64, 2, 5))
    trained = layer(x)
    torch.testing.assert_close(layer.eval()(x), trained, rtol=1e-5, atol=1e-6)


def test_standardize_and_its_inverse_are_the_identity():
    layer = bnn.Standardize(torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5]))
    x = Moments(torch.randn(4, 2), torch.rand(4, 2))
    standard = layer(x)
    torch.testing.assert_close(standard.mean, (x.mean - torch.tensor([1.0, -2.0])) / torch.tensor([3.0, 0.5]))
    torch.testing.assert_close(layer.inverse()(standard), x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.Standardize([0.0], [0.0]), "std must be positive"),
    ],
)
def test_a_scale_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()
