"""Metrics against numerical integration of their definitions and against simulation."""

import json
import math

import pytest
import torch
from scipy import integrate, stats

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train import metrics

MEAN = torch.tensor([0.0, 1.0, -3.0, 100.0], dtype=torch.float64)
VAR = torch.tensor([1.0, 0.01, 4.0, 1e4], dtype=torch.float64)
TARGET = torch.tensor([0.3, 1.3, -12.0, 100.0], dtype=torch.float64)
PREDICTED = Moments(MEAN, VAR)


def simulated(count: int, scale: float = 1.0, shift: float = 0.0) -> tuple[Moments, torch.Tensor]:
    """Predictions and targets drawn from them, with the true spread `scale` times the predicted one."""
    generator = torch.Generator().manual_seed(11)
    mean, noise = torch.randn(2, count, generator=generator, dtype=torch.float64)
    std = 0.1 + torch.rand(count, generator=generator, dtype=torch.float64)
    return Moments(mean, std**2), mean + std * (scale * noise + shift)


def test_nll_and_rmse_are_their_definitions():
    nll = -stats.norm.logpdf(TARGET.numpy(), MEAN.numpy(), VAR.sqrt().numpy()).mean()
    assert metrics.nll(PREDICTED, TARGET) == pytest.approx(nll, rel=1e-12)
    assert metrics.rmse(PREDICTED, TARGET) == pytest.approx(math.sqrt((0.3**2 + 0.3**2 + 81.0) / 4), rel=1e-12)


@pytest.mark.parametrize("i", range(4))
def test_crps_is_the_integral_of_the_squared_distance_of_distributions(i):
    """Integral of (F(t) - 1[t >= y])^2 dt."""
    m, s, y = MEAN[i].item(), VAR[i].sqrt().item(), TARGET[i].item()
    low, high = min(m, y) - 12 * s, max(m, y) + 12 * s
    below = integrate.quad(lambda t: stats.norm.cdf(t, m, s) ** 2, low, y, points=[m] if low < m < y else None)[0]
    above = integrate.quad(lambda t: stats.norm.sf(t, m, s) ** 2, y, high, points=[m] if y < m < high else None)[0]
    one = Moments(MEAN[i : i + 1], VAR[i : i + 1])
    assert metrics.crps(one, TARGET[i : i + 1]) == pytest.approx(below + above, rel=1e-7)


def test_crps_tends_to_the_absolute_error_as_the_spread_vanishes():
    sharp = Moments(torch.tensor([2.0]), torch.tensor([1e-12]))
    assert metrics.crps(sharp, torch.tensor([5.0])) == pytest.approx(3.0, rel=1e-5)


def test_sharpness_is_the_mean_standard_deviation():
    assert metrics.sharpness(PREDICTED) == pytest.approx((1 + 0.1 + 2 + 100) / 4, rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 2.0, 0.5])
def test_coverage_is_the_probability_of_the_interval(scale):
    """Targets `scale` times too wide: P(|Z| < z_p / scale), within four binomial standard errors."""
    n = 40_000
    for p, observed in metrics.coverage(*simulated(n, scale)).items():
        expected = 2 * stats.norm.cdf(stats.norm.ppf(0.5 + p / 2) / scale) - 1
        assert abs(observed - expected) < 4 * math.sqrt(expected * (1 - expected) / n)


@pytest.mark.parametrize("scale, shift", [(1.0, 0.0), (2.0, 0.0), (1.0, 0.5)])
def test_the_calibration_curve_is_the_distribution_of_the_quantiles(scale, shift):
    n = 40_000
    for p, observed in metrics.calibration_curve(*simulated(n, scale, shift)).items():
        expected = stats.norm.cdf((stats.norm.ppf(p) - shift) / scale)
        assert abs(observed - expected) < 4.5 * math.sqrt(expected * (1 - expected) / n)  # 99 levels


def test_the_calibration_error_is_near_zero_for_calibrated_predictions_only():
    levels = torch.tensor(metrics.CURVE_LEVELS)
    shifted = (stats.norm.cdf(stats.norm.ppf(levels) - 0.5) - levels.numpy()).__abs__().mean()
    assert metrics.calibration_error(*simulated(40_000)) < 0.005
    assert metrics.calibration_error(*simulated(40_000, shift=0.5)) == pytest.approx(shifted, abs=0.005)


def test_a_mean_that_is_always_far_too_low_has_calibration_error_one_half():
    error = metrics.calibration_error(Moments(torch.zeros(5), torch.ones(5)), torch.full((5,), 99.0))
    assert error == pytest.approx(0.5)


def test_the_summary_holds_every_metric_prints_and_is_plain_data():
    s = metrics.summary(PREDICTED, TARGET)
    assert (s.count, s.nll, s.crps) == (4, metrics.nll(PREDICTED, TARGET), metrics.crps(PREDICTED, TARGET))
    assert (s.rmse, s.sharpness) == (metrics.rmse(PREDICTED, TARGET), metrics.sharpness(PREDICTED))
    assert s.coverage == metrics.coverage(PREDICTED, TARGET)
    assert s.calibration_error == metrics.calibration_error(PREDICTED, TARGET)
    assert json.loads(json.dumps(s.as_dict()))["rmse"] == s.rmse
    assert f"NLL (nats)           {s.nll:9.4f}" in str(s) and "coverage of 95%" in str(s)


def test_float32_predictions_are_scored_in_float64():
    single = Moments(MEAN.float(), VAR.float())
    assert metrics.nll(single, TARGET.float()) == pytest.approx(metrics.nll(PREDICTED, TARGET), rel=1e-5)


@pytest.mark.parametrize("metric", [metrics.nll, metrics.rmse, metrics.crps, metrics.coverage, metrics.summary])
@pytest.mark.parametrize(
    "predicted, target, message",
    [
        (Moments(torch.zeros(3, 1), torch.ones(3, 1)), torch.zeros(3), "reshape the target"),
        (Moments(torch.zeros(3), -torch.ones(3)), torch.zeros(3), "variance is negative"),
        (Moments(torch.zeros(3), torch.ones(3)), torch.full((3,), math.nan), "target holds NaN"),
        (Moments(torch.zeros(0), torch.ones(0)), torch.zeros(0), "nothing to score"),
    ],
)
def test_nonsense_gets_a_clear_error(metric, predicted, target, message):
    with pytest.raises(LbnnError, match=message):
        metric(predicted, target)


@pytest.mark.parametrize("levels", [[], [0.0], [0.5, 95.0]])
def test_levels_must_be_probabilities(levels):
    with pytest.raises(LbnnError, match="probabilities between 0 and 1"):
        metrics.coverage(PREDICTED, TARGET, levels)
