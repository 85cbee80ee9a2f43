"""The Gaussian NLL against scipy's density and against an average over drawn targets."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.losses import expected_gaussian_nll, gaussian_nll

MEAN = torch.tensor([[0.0, 1.0], [-3.0, 0.5], [100.0, 0.0]], dtype=torch.float64)
VAR = torch.tensor([[1.0, 0.01], [1e-8, 4.0], [1e6, 1e-3]], dtype=torch.float64)
TARGET = torch.tensor([[0.3, 1.2], [-3.0001, -7.0], [0.0, 0.0]], dtype=torch.float64)


def test_it_is_minus_the_log_density():
    expected = -stats.norm.logpdf(TARGET.numpy(), MEAN.numpy(), VAR.sqrt().numpy())
    nll = gaussian_nll(Moments(MEAN, VAR), TARGET, "none")
    torch.testing.assert_close(nll, torch.from_numpy(expected), rtol=1e-13, atol=0)


def test_reductions():
    each = gaussian_nll(Moments(MEAN, VAR), TARGET, "none")
    assert gaussian_nll(Moments(MEAN, VAR), TARGET) == each.mean()
    assert gaussian_nll(Moments(MEAN, VAR), TARGET, "sum") == each.sum()


def test_its_gradients_are_those_of_finite_differences():
    mean, var = MEAN[:2].clone().requires_grad_(), torch.tensor([[1.0, 0.4], [0.7, 4.0]]).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda m, v: gaussian_nll(Moments(m, v), TARGET[:2]), (mean, var))


def test_the_expected_nll_is_the_average_over_targets_within_four_standard_errors():
    mean, var = torch.tensor(0.3).double(), torch.tensor(0.5).double()
    true_mean, true_var = torch.tensor(-0.2).double(), torch.tensor(1.7).double()
    draws = true_mean + true_var.sqrt() * torch.randn(200_000, generator=torch.Generator().manual_seed(0)).double()
    nll = gaussian_nll(Moments(mean.expand_as(draws), var.expand_as(draws)), draws, "none")
    expected = expected_gaussian_nll(Moments(mean, var), true_mean, true_var)
    assert abs(nll.mean() - expected) < 4 * nll.std() / math.sqrt(len(nll))


def test_the_expected_nll_is_smallest_at_the_truth_where_it_is_the_entropy():
    truth = Moments(torch.tensor([0.5]), torch.tensor([0.01]))
    entropy = math.log(0.1) + (math.log(2 * math.pi) + 1) / 2
    best = expected_gaussian_nll(truth, *truth).item()
    assert best == pytest.approx(entropy, rel=1e-6)
    for wrong in (Moments(truth.mean + 0.01, truth.var), Moments(truth.mean, 1.1 * truth.var)):
        assert expected_gaussian_nll(wrong, *truth).item() > best


@pytest.mark.parametrize("y, log_predictive, expected_log", [(0.0, 0.1012, -0.4345), (0.6, None, None)])
def test_the_papers_expected_log_likelihood_is_the_log_of_the_predictive(y, log_predictive, expected_log):
    """Weights that give f ~ N(0, 0.09), observed with noise 0.04: integrals over f by Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    density = stats.norm.pdf(y, 0.3 * nodes, 0.2)
    weights = weights / weights.sum()
    of_the_predictive, expectation = math.log(weights @ density), weights @ np.log(density)
    given = -gaussian_nll(Moments(torch.zeros(1).double(), torch.full((1,), 0.13).double()), torch.tensor([y]).double())
    assert given.item() == pytest.approx(of_the_predictive, abs=1e-6)
    assert expectation < of_the_predictive - 0.1
    if log_predictive is not None:
        assert (of_the_predictive, expectation) == pytest.approx((log_predictive, expected_log), abs=1e-4)


@pytest.mark.parametrize(
    "mean, var, target, message",
    [
        ([0.0], [-1e-3], [0.0], "variance is negative"),
        ([0.0], [0.0], [0.0], "variance is zero"),
        ([0.0], [float("nan")], [0.0], "predicted variance holds NaN"),
        ([float("inf")], [1.0], [0.0], "predicted mean holds NaN or infinity"),
        ([0.0], [1.0], [float("nan")], "target holds NaN"),
        ([[0.0], [1.0]], [[1.0], [1.0]], [0.0, 1.0], r"shape \(2, 1\) but the target \(2,\)"),
        ([0.0, 1.0], [1.0], [0.0, 1.0], r"mean has shape \(2,\) but the variance \(1,\)"),
    ],
)
def test_nonsense_gets_a_clear_error(mean, var, target, message):
    with pytest.raises(LbnnError, match=message):
        gaussian_nll(Moments(torch.tensor(mean), torch.tensor(var)), torch.tensor(target))


def test_an_unknown_reduction_gets_a_clear_error():
    with pytest.raises(LbnnError, match="unknown reduction 'median'; known: mean, sum, none"):
        gaussian_nll(Moments(MEAN, VAR), TARGET, "median")


def test_without_value_checks_it_runs_under_vmap():
    batched = torch.func.vmap(lambda m, v, t: gaussian_nll(Moments(m, v), t, check=False))
    each = gaussian_nll(Moments(MEAN, VAR), TARGET, "none")
    torch.testing.assert_close(batched(MEAN, VAR, TARGET), each.mean(1))
