"""Calibrated classes: sets hold what they say whatever the model is worth, alarms are few, T is the best there is."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.heads import class_moments
from lbnn.train.class_calibration import (
    CLASS_KEY,
    FEWEST_FOR_TEMPERATURE,
    best_temperature,
    calibrate_classes,
    cooled,
    read_class_calibration,
)
from lbnn.train.class_metrics import log_loss

SPLITS = 25


def overconfident(rng, rows, times=4.0, count=4):
    """Logits that are `times` as large as those the classes are drawn by, with variances of no meaning."""
    mean = rng.normal(size=(rows, count)) * 1.5
    chance = np.exp(mean) / np.exp(mean).sum(1, keepdims=True)
    target = (chance.cumsum(1) > rng.uniform(size=(rows, 1))).argmax(1)
    logits = Moments(torch.tensor(times * mean), torch.tensor(rng.uniform(0, 2, (rows, count))))
    return class_moments(logits, "softmax"), torch.tensor(target)


def applied(found, predicted):
    """The same rows with the temperature."""
    return class_moments(cooled(predicted.logits, found.temperature), "softmax")


@pytest.mark.parametrize("rows", [60, 199, 400])
def test_over_many_splits_sets_hold_their_level_and_alarms_are_as_rare_as_they_should_be(rows):
    rng = np.random.default_rng(rows)
    held, alarms = [], []
    for seed in range(SPLITS):
        found = calibrate_classes(*overconfident(rng, rows), "softmax", 0.9, 0.1, seed)
        predicted, target = overconfident(rng, 1500)
        after = applied(found, predicted)
        held.append(found.sets(after.probability)[torch.arange(len(target)), target].double().mean().item())
        alarms.append((after.entropy > found.unsure_entropy).double().mean().item())
    count = rows - rows // 2  # of these the threshold is an order statistic: mean coverage is k / (n + 1) exactly
    expected = math.ceil((count + 1) * 0.9 - 1e-9) / (count + 1)
    error = 4 * math.sqrt((0.09 / (count + 2) + 0.09 / 1500) / SPLITS)
    assert abs(np.mean(held) - expected) < error and abs(1 - np.mean(alarms) - expected) < error


def test_a_temperature_divides_the_logits_whatever_their_distribution():
    rng, logits = np.random.default_rng(0), Moments(torch.tensor([6.0, -1.0]), torch.tensor([18.0, 0.5]))
    drawn = logits.mean.numpy() + np.sqrt(logits.var.numpy()) * rng.normal(size=(200_000, 2))
    cold = cooled(logits, 3.0)
    assert cold.mean.tolist() == pytest.approx((drawn / 3).mean(0), abs=0.02)
    assert cold.var.tolist() == pytest.approx((drawn / 3).var(0), rel=0.02)


def test_the_temperature_finds_what_the_logits_were_multiplied_by():
    rng = np.random.default_rng(0)
    predicted, target = overconfident(rng, 4000)
    known = Moments(predicted.logits.mean, torch.zeros_like(predicted.logits.var))
    assert best_temperature(known, target, "softmax_fast") == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize("times", [0.3, 1.0, 5.0])
def test_no_other_temperature_has_a_lower_nll(times):
    predicted, target = overconfident(np.random.default_rng(2), 500, times)
    best = best_temperature(predicted.logits, target, "softmax")
    costs = [
        log_loss(class_moments(cooled(predicted.logits, best * factor), "softmax"), target)
        + 0.5 * math.log(best * factor) ** 2 / 500
        for factor in (0.9, 0.98, 1.0, 1.02, 1.1)
    ]
    assert min(costs) == costs[2]


def test_rows_without_a_mistake_do_not_make_a_model_certain():
    mean = torch.eye(2, dtype=torch.double).repeat(10, 1) * 4
    found = best_temperature(Moments(mean, torch.zeros_like(mean)), mean.argmax(1), "softmax_fast")
    assert 0.3 < found < 1.0


def test_the_threshold_is_an_order_statistic_of_the_rows_that_did_not_give_the_temperature():
    predicted, target = overconfident(np.random.default_rng(1), 80)
    found = calibrate_classes(predicted, target, "softmax", 0.8, seed=5)
    rest = np.random.default_rng(5).permutation(80)[40:]
    chances = applied(found, predicted).probability[rest, target[rest]].sort().values
    assert found.rows == 40 and found.threshold == pytest.approx(chances[math.floor(41 * 0.2 + 1e-9) - 1].item())
    assert int((chances >= found.threshold - 1e-12).sum()) == 33  # ceil(41 * 0.8)


def test_a_class_at_the_threshold_belongs_to_the_set():
    found = calibrate_classes(*overconfident(np.random.default_rng(1), 80), "softmax")
    assert replace(found, threshold=0.5).sets(torch.tensor([[0.5, 0.3, 0.2]])).tolist() == [[True, False, False]]


@pytest.mark.parametrize(
    ("rows", "level", "alarms", "message"),
    [
        (2 * FEWEST_FOR_TEMPERATURE - 1, 0.5, 0.5, "at least 40 calibration rows, got 39"),
        (100, 0.99, 0.5, "sets of 0.99 needs at least 99 calibration rows, got 50"),
        (100, 0.9, 0.01, "0.01 of false alarms needs at least 99"),
        (100, 1.5, 0.1, "choose a share between 0 and 1"),
    ],
)
def test_too_few_rows_are_refused(rows, level, alarms, message):
    predicted, target = overconfident(np.random.default_rng(0), rows)
    with pytest.raises(LbnnError, match=message):
        calibrate_classes(predicted, target, "softmax", level, alarms)


def test_a_single_label_is_calibrated_as_two_classes():
    rng = np.random.default_rng(3)
    logit = torch.tensor(rng.normal(size=(400, 1)) * 6)
    target = torch.tensor((rng.uniform(size=400) < 1 / (1 + np.exp(-logit.numpy()[:, 0] / 3))).astype(np.int64))
    predicted = class_moments(Moments(logit, torch.zeros_like(logit)), "sigmoid")
    assert calibrate_classes(predicted, target, "sigmoid").temperature == pytest.approx(3.0, rel=0.3)


def test_it_goes_through_a_model_file_as_plain_data():
    found = calibrate_classes(*overconfident(np.random.default_rng(0), 100), "softmax")
    kept = found.as_metadata()
    assert read_class_calibration(kept) == found and kept["unsure_entropy"] == found.unsure_entropy
    assert read_class_calibration({}) is None and isinstance(kept[CLASS_KEY]["nll"], list)
    assert found.nll[1] < found.nll[0]
    for wrong in ({"level": 0.9}, 3, {**kept[CLASS_KEY], "threshold": "x"}, {**kept[CLASS_KEY], "nll": [1]}):
        with pytest.raises(LbnnError, match="calibrate it again"):
            read_class_calibration({CLASS_KEY: wrong})


def test_numbers_that_are_no_classes_are_refused():
    predicted, target = overconfident(np.random.default_rng(0), 100)
    with pytest.raises(LbnnError, match="NaN"):
        calibrate_classes(
            Classes(*(part * math.nan for part in tuple(predicted)[:4]), predicted.logits), target, "softmax"
        )
