"""Activations: which operator each is, and what it refuses."""

import pytest
import torch

from lbnn import LbnnError, Moments
from lbnn import nn as bnn


def test_relu_is_a_leaky_relu_of_slope_zero():
    x = Moments(torch.randn(4, 3), torch.rand(4, 3))
    torch.testing.assert_close(tuple(bnn.ReLU()(x)), tuple(bnn.LeakyReLU(0.0)(x)))
    assert bnn.ReLU().attrs() == {"negative_slope": 0.0}


def test_a_clamp_makes_it_the_operator_of_the_paper():
    assert (bnn.LeakyReLU(0.1).op_name(), bnn.LeakyReLU(0.1, clamp=3).op_name()) == ("leaky_relu", "leaky_relu_clamped")
    assert bnn.LeakyReLU(0.1, clamp=3).attrs() == {"negative_slope": 0.1, "clamp": 3.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.LeakyReLU(2.0), "negative_slope must be from 0 to 1"),
        (lambda: bnn.LeakyReLU(0.1, clamp=0.0), "clamp must be positive"),
    ],
)
def test_an_activation_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()
