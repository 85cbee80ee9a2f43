"""Conformal intervals cover what they say whatever the model is worth; limits raise no more alarms than they say."""

import math

import numpy as np
import pytest
import torch

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.calibration import calibrate, read_calibration


def wrong_model(rng, rows):
    """Predictions whose sigma is off by a factor and whose errors have heavy tails: nothing a Gaussian would cover."""
    sd = np.exp(rng.normal(size=(rows, 2)))
    errors = sd * rng.standard_t(3, size=(rows, 2)) * np.array([0.3, 2.5])
    mean = rng.normal(size=(rows, 2))
    moments = Moments(torch.tensor(mean), torch.tensor(sd**2))
    return moments, torch.tensor(mean + errors)


@pytest.mark.parametrize("rows", [100, 150, 400])
def test_over_20_splits_the_interval_covers_its_level_on_average(rows):
    rng = np.random.default_rng(rows)
    shares, alarms = [], []
    for _ in range(20):
        found = calibrate(*wrong_model(rng, rows), level=0.9, false_alarms=0.1)
        moments, y = wrong_model(rng, 4000)
        low, high = found.interval(moments)
        shares.append(((low <= y) & (y <= high)).double().mean(dim=0).numpy())
        alarms.append((moments.std > torch.tensor(found.unsure_sd)).double().mean(dim=0).numpy())
    assert np.all(np.abs(np.mean(shares, axis=0) - 0.9) < 0.02)
    assert np.all(np.abs(np.mean(alarms, axis=0) - 0.1) < 0.02)


def test_the_factor_is_the_order_statistic_of_the_scores():
    sd = torch.ones(19, 1, dtype=torch.double)
    y = torch.arange(1, 20, dtype=torch.double)[:, None]
    found = calibrate(Moments(torch.zeros_like(y), sd), y, level=0.9)
    assert found.factor == (18.0,)  # ceil(20 * 0.9)
    assert found.variance_scale == (float(np.mean(np.arange(1, 20) ** 2)),)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_fewest_rows_are_enough_and_one_less_is_refused(level):
    fewest = math.ceil(round(1 / (1 - level), 9)) - 1
    moments, y = wrong_model(np.random.default_rng(0), max(fewest, 19))
    assert calibrate(moments, y, level, false_alarms=0.05).rows == max(fewest, 19)
    few = Moments(moments.mean[: fewest - 1], moments.var[: fewest - 1])
    with pytest.raises(LbnnError, match=f"at least {fewest} calibration rows"):
        calibrate(few, y[: fewest - 1], level, false_alarms=0.5)


def test_an_output_that_is_too_unsure_makes_the_row_unsure():
    moments, y = wrong_model(np.random.default_rng(1), 60)
    found = calibrate(moments, y)
    limits = torch.tensor(found.unsure_sd) ** 2
    rows = torch.stack([limits, limits * torch.tensor([1.01, 1.0]), limits * torch.tensor([1.0, 1.01])])
    assert found.is_unsure(Moments(torch.zeros_like(rows), rows * 0.999999)).tolist() == [False, True, True]


def test_a_calibration_comes_back_from_metadata():
    found = calibrate(*wrong_model(np.random.default_rng(2), 60))
    assert read_calibration({"calibration": found.as_dict()}, 2) == found
    assert read_calibration({}, 2) is None


@pytest.mark.parametrize(
    "change",
    [
        {"factor": [1.0]},
        {"factor": [1.0, -1.0]},
        {"factor": [1.0, math.nan]},
        {"factor": [1.0, 1e39]},
        {"factor": "12"},
        {"unsure_sd": [1.0, "1"]},
        {"rows": None},
        {"level": True},
    ],
)
def test_a_forged_calibration_is_refused(change):
    good = calibrate(*wrong_model(np.random.default_rng(2), 60)).as_dict()
    with pytest.raises(LbnnError, match="calibrate it again"):
        read_calibration({"calibration": {**good, **change}}, 2)


@pytest.mark.parametrize("given", [[], "text", 3, {"level": 0.9}])
def test_a_calibration_of_another_form_is_refused(given):
    with pytest.raises(LbnnError, match="calibrate it again"):
        read_calibration({"calibration": given}, 1)
