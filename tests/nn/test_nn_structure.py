"""Layers that move values without computing on each."""

import pytest
import torch

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn


def test_concatenation_takes_known_values_too():
    x = Moments(torch.ones(2, 3), torch.ones(2, 3))
    out = lbnn.cat([x, torch.zeros(2, 1)])
    torch.testing.assert_close(out.mean, torch.tensor([[1.0, 1, 1, 0]] * 2))
    torch.testing.assert_close(out.var, torch.tensor([[1.0, 1, 1, 0]] * 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.Add()(torch.zeros(1, 2), torch.zeros(1, 3)), "differ"),
        (lambda: bnn.Add()(*[torch.zeros(1, 2)] * 3), "^Add takes 2 values at a time, got 3$"),
        (lambda: bnn.ReLU()(*[torch.zeros(1, 2)] * 2), "^ReLU takes 1 value at a time, got 2$"),
        (lambda: bnn.Concat(0), "dim must be at least 1"),
    ],
)
def test_a_combination_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()
