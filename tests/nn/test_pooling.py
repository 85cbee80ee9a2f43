"""Average pooling of moments."""

import pytest
import torch

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn


def test_global_average_pooling_divides_the_variance_by_the_number_of_elements():
    x = Moments(torch.full((1, 2, 3, 4), 5.0), torch.full((1, 2, 3, 4), 6.0))
    out = bnn.AdaptiveAvgPool2d(1)(x)
    torch.testing.assert_close(tuple(out), (torch.full((1, 2, 1, 1), 5.0), torch.full((1, 2, 1, 1), 0.5)))


@pytest.mark.parametrize("pool", [bnn.AdaptiveAvgPool2d(1, correlated=True), bnn.AvgPool2d((3, 4), correlated=True)])
def test_elements_that_move_together_keep_the_mean_of_their_deviations(pool):
    var = torch.tensor([1.0, 4.0, 9.0]).repeat_interleave(4).reshape(1, 1, 3, 4)
    torch.testing.assert_close(pool(Moments(torch.ones_like(var), var)).var, torch.full((1, 1, 1, 1), 4.0))
    assert "correlated=True" in repr(pool)


def test_a_saved_pool_keeps_its_rule(tmp_path):
    x = Moments(torch.randn(3, 2, 6), torch.rand(3, 2, 6))
    for pool in (bnn.AvgPool1d(2), bnn.AvgPool1d(2, correlated=True), bnn.AdaptiveAvgPool1d(1, correlated=True)):
        model = bnn.Sequential(bnn.Conv1d(2, 2, 1), pool)
        lbnn.save(model, tmp_path / "model.pt", (2, 6))
        torch.testing.assert_close(tuple(lbnn.load(tmp_path / "model.pt")(x)), tuple(model(x)))


def test_with_one_weight_for_all_elements_the_rule_is_exact():
    """A convolution of one weight moves all its outputs together: weight sampling agrees with `correlated`, alone."""
    torch.manual_seed(0)
    x, generator = torch.rand(2, 1, 4, 4), torch.Generator().manual_seed(0)
    ratio = {}
    for correlated in (False, True):
        model = bnn.Sequential(bnn.Conv2d(1, 1, 1, bias=False, sigma=0.5), bnn.AdaptiveAvgPool2d(1, correlated))
        ratio[correlated] = lbnn.montecarlo.monte_carlo(model, x, 4000, generator).sd_ratio
    assert abs(ratio[True] - 1.0) < 0.05
    assert ratio[False] < 0.35


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.AdaptiveAvgPool2d(2), "output_size must be 1"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()
