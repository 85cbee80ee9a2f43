"""Training from a data file: calibrated on data it never saw, in raw units, and the same for the same seed."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes

import lbnn
from lbnn.base.moments import Moments
from lbnn.model.file import read_model
from lbnn.train import metrics, regression
from lbnn.train.datafile import read_table
from lbnn.train.table import Column, Table


def diabetes():
    data = load_diabetes()
    columns = tuple(Column(name) for name in data.feature_names)
    return Table(data.data.astype(np.float32), data.target.astype(np.float32)[:, None], columns, ("progression",))


def heteroscedastic(rows=1000):
    """The noise grows from 0.1 to 0.7 with the distance of a from 0."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (rows, 2))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + (0.1 + 0.3 * np.abs(x[:, 0])) * rng.normal(size=rows)
    return Table(x.astype(np.float32), y.astype(np.float32)[:, None], (Column("a"), Column("b")), ("y",))


def raw_units(rows=120):
    """A column of pressures in pascal and one of small currents in ampere; the target in kelvin."""
    rng = np.random.default_rng(1)
    pressure, current = rng.normal(101_325, 800, rows), rng.uniform(1e-6, 9e-6, rows)
    y = 290 + (pressure - 101_325) / 200 + 4e5 * current + rng.normal(size=rows)
    x = np.stack([pressure, current], axis=1).astype(np.float32)
    return Table(x, y.astype(np.float32)[:, None], (Column("pressure"), Column("current")), ("kelvin",))


@cache
def trainings(data, epochs, splits):
    """The same data split in different ways, a model for each."""
    return [regression.train_regression(data(), epochs=epochs, seed=seed) for seed in range(splits)]


@pytest.mark.parametrize("plan", [(diabetes, 30, 4), (heteroscedastic, 70, 3)], ids=["diabetes", "heteroscedastic"])
def test_the_95_percent_interval_covers_92_to_98_percent_of_unseen_rows(plan):
    """Over several splits together: one test set of 66 rows alone would scatter by 2.7 %."""
    tests = trainings(*plan)
    predicted = Moments(*(torch.cat([getattr(t.test, part) for t in tests]) for part in ("mean", "var")))
    covered = metrics.coverage(predicted, torch.cat([t.target for t in tests]), [0.68, 0.95])
    assert 0.92 <= covered[0.95] <= 0.98
    assert 0.58 <= covered[0.68] <= 0.78


def test_noise_is_learned_where_it_is():
    trained = trainings(heteroscedastic, 70, 3)[0]
    quiet, noisy = (
        regression.predict_in_parts(trained.model, torch.tensor([[0.0, 0.0], [1.8, 0.0]])).std.flatten().tolist()
    )
    assert 2.0 < noisy / quiet < 9.0  # truly 0.64 / 0.1


def test_the_model_takes_and_gives_raw_units():
    trained = regression.train_regression(raw_units(), epochs=40)
    assert trained.scores.rmse < 2.5  # the spread of the target is 4.2, its noise 1
    assert 280 < float(trained.test.mean.mean()) < 300


def test_the_same_seed_gives_the_same_model_and_the_global_state_is_left_alone():
    state = torch.random.get_rng_state()
    one, two = (regression.train_regression(raw_units(60), hidden=(4,), epochs=3, seed=5) for _ in range(2))
    assert torch.equal(one.test.mean, two.test.mean) and one.history == two.history
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("rows", [10, 11, 100])
def test_every_row_is_in_one_part_and_no_part_is_empty(rows):
    parts = regression.split(heteroscedastic(rows), seed=3)
    assert all(map(len, parts))
    assert sorted(np.concatenate([part.x for part in parts])[:, 0]) == sorted(heteroscedastic(rows).x[:, 0])


@pytest.mark.parametrize("shape", [(2, 16), (1, 8, 8), (3, 5), (1, 3, 2)])
def test_windows_and_images_get_convolutions(shape, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, (40, *shape))
    np.savez(tmp_path / "d.npz", x=x, y=x.mean(axis=tuple(range(1, x.ndim))))
    trained = regression.train_regression(read_table(tmp_path / "d.npz", None), hidden=(4, 4), epochs=2)
    graph = read_model(lbnn.save(trained.model, tmp_path / "m.pt", input_shape=shape)).graph
    assert [node.op for node in graph.nodes].count("conv") == 2
    assert graph.values[graph.output].shape == (1,)


@pytest.mark.parametrize("metadata", [{}, {"columns": 3}, {"columns": [1]}, {"columns": [{"name": "a"}]}])
def test_a_model_from_elsewhere_has_no_columns(metadata):
    assert regression.trained_columns(metadata) == ()
