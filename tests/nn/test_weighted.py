"""Layers with Gaussian weights: their shapes, and what they refuse."""

import pytest
import torch

from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.nn.weighted import per_axis


@pytest.mark.parametrize("padding", ["same", 2, (2,)])
def test_padding_of_the_same_size_is_half_the_span_of_the_kernel(padding):
    layer = bnn.Conv1d(1, 2, 3, padding=padding, dilation=2)
    assert layer.padding == (2,)
    assert layer(torch.randn(1, 1, 7)).mean.shape == (1, 2, 7)


def test_one_number_stands_for_all_axes():
    assert per_axis(3, 2) == per_axis((3, 3), 2) == (3, 3)
    with pytest.raises(LbnnError, match="expected one number or 2"):
        per_axis((1, 2, 3), 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.Linear(3, 2, sigma=-1.0), "sigma must be a positive number"),
        (lambda: bnn.Conv2d(3, 4, 3, padding_mode="reflect"), "padding_mode 'reflect'"),
        (lambda: bnn.Conv2d(3, 4, 2, padding="same"), "padding='same' needs"),
        (lambda: bnn.Conv2d(3, 4, 3, groups=2), "can't be divided into 2 groups"),
    ],
)
def test_a_weighted_layer_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()
