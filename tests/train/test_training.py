"""Training from a data file: calibrated on data it never saw, in raw units, and the same for the same seed."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes

import lbnn
from lbnn.base.errors import LbnnError
from lbnn.model.file import read_model
from lbnn.train import about, metrics, training
from lbnn.train.datafile import read_table
from lbnn.train.recipe import predict_in_parts
from lbnn.train.table import Column, Table
from trainings import interrupt


def diabetes():
    data = load_diabetes()
    columns = tuple(Column(name) for name in data.feature_names)
    return Table(data.data.astype(np.float32), data.target.astype(np.float32)[:, None], columns, ("progression",))


def heteroscedastic(rows=600):
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
def trained(data, epochs):
    """A model of all rows, and predictions for each row by a network that was not fitted to it."""
    return training.train_table(data(), epochs=epochs)


@pytest.mark.parametrize("plan", [(diabetes, 60), (heteroscedastic, 40)], ids=["diabetes", "heteroscedastic"])
def test_the_95_percent_interval_covers_92_to_98_percent_of_unseen_rows(plan):
    found = trained(*plan)
    covered = metrics.coverage(found.test, found.target, [0.68, 0.95])
    assert len(found.target) == len(plan[0]())
    assert 0.92 <= covered[0.95] <= 0.98
    assert 0.58 <= covered[0.68] <= 0.78


def test_noise_is_learned_where_it_is():
    model = trained(heteroscedastic, 40).model
    quiet, noisy = predict_in_parts(model, torch.tensor([[0.0, 0.0], [1.8, 0.0]])).std.flatten().tolist()
    assert 2.0 < noisy / quiet < 9.0  # truly 0.64 / 0.1


def test_the_model_takes_and_gives_raw_units():
    found = training.train_table(raw_units(), epochs=40)
    assert found.scores.rmse < 2.5  # the spread of the target is 4.2, its noise 1
    assert 280 < float(found.test.mean.mean()) < 300


def test_the_same_seed_gives_the_same_model_and_the_global_state_is_left_alone():
    state = torch.random.get_rng_state()
    one, two = (training.train_table(raw_units(60), hidden=(4,), epochs=3, seed=5) for _ in range(2))
    assert torch.equal(one.test.mean, two.test.mean) and one.history == two.history
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("rows", "share", "count"), [(100, 0.2, 20), (10, 0.01, 1), (10, 0.99, 9)])
def test_a_share_of_test_rows_is_left_out_of_the_fit(rows, share, count, monkeypatch):
    sizes = []
    train = training.train_network
    monkeypatch.setattr(training, "train_network", lambda x, *rest: sizes.append(len(x)) or train(x, *rest))
    found = training.train_table(heteroscedastic(rows), hidden=(2,), epochs=1, test_share=share)
    assert sizes == [rows - count] and len(found.target) == count
    assert found.how == ("1 test row" if count == 1 else f"{count} test rows")


def test_without_one_all_rows_are_fitted_and_each_is_scored_by_a_network_that_did_not_see_it(monkeypatch):
    table, seen = raw_units(31), []
    train = training.train_network
    monkeypatch.setattr(training, "train_network", lambda x, *rest: seen.append(x) or train(x, *rest))
    found = training.train_table(table, hidden=(2,), epochs=1)
    assert [len(x) for x in seen] == [31, 20, 21, 21]
    assert np.array_equal(seen[0], table.x) and len(found.target) == 31
    assert found.how == "31 rows in 3-fold cross-validation"
    for part, x in zip(training.folds(table, 3, 0), seen[1:], strict=True):
        assert not set(map(tuple, table.x[part])) & set(map(tuple, x))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_a_share_that_leaves_nothing_is_refused(share):
    with pytest.raises(LbnnError, match="between 0 and 1"):
        training.train_table(raw_units(), epochs=1, test_share=share)


@pytest.mark.parametrize(("when", "scored"), [(0, 0), (1, 0), (3, 20)])
def test_ctrl_c_keeps_the_model_and_scores_what_is_done(when, scored, monkeypatch):
    calls = interrupt(monkeypatch, "train_network", when)
    found = training.train_table(raw_units(30), hidden=(2,), epochs=1)
    assert len(calls) == when + 1 and len(found.target) == scored
    assert ((found.scores is None) == (scored == 0) and training.plain_scores(found) is None) or scored


@pytest.mark.parametrize("shape", [(2, 16), (1, 8, 8), (3, 5), (1, 3, 2)])
def test_windows_and_images_get_convolutions(shape, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, (40, *shape))
    np.savez(tmp_path / "d.npz", x=x, y=x.mean(axis=tuple(range(1, x.ndim))))
    found = training.train_table(read_table(tmp_path / "d.npz", None), hidden=(4, 4), epochs=2)
    graph = read_model(lbnn.save(found.model, tmp_path / "m.pt", input_shape=shape)).graph
    assert [node.op for node in graph.nodes].count("conv") == 2
    assert graph.values[graph.output].shape == (1,)


@pytest.mark.parametrize("metadata", [{}, {"columns": 3}, {"columns": [1]}, {"columns": [{"name": "a"}]}])
def test_a_model_from_elsewhere_has_no_columns(metadata):
    assert about.trained_columns(metadata) == ()
