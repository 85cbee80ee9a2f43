"""Arithmetic on Moments."""

import torch

from lbnn import Moments


def test_arithmetic_on_moments_is_that_of_independent_variables():
    x, y = Moments(torch.tensor([1.0]), torch.tensor([2.0])), Moments(torch.tensor([5.0]), torch.tensor([3.0]))
    assert (x + y, x - y) == (Moments(6.0, 5.0), Moments(-4.0, 5.0))
    assert (x + 1.0, 1.0 - x, 3 * x, x / 2, -x) == (
        Moments(2.0, 2.0), Moments(0.0, 2.0), Moments(3.0, 18.0), Moments(0.5, 0.5), Moments(-1.0, 2.0)
    )  # fmt: skip
