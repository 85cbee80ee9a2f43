"""Training from a data file: calibrated on data it never saw, in raw units, and the same for the same seed."""

import csv
import json
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes

import lbnn
from lbnn.base.moments import Moments
from lbnn.cli.main import main
from lbnn.model.file import read_model
from lbnn.train import metrics, regression
from lbnn.train.datafile import Column, Table, read_table


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


def write_csv(path, table):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*table.inputs, *table.targets])
        writer.writerows([*map(float, x), *map(float, y)] for x, y in zip(table.x, table.y, strict=True))
    return path


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the command in an empty folder: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def command(*words):
        with pytest.raises(SystemExit) as left:
            main(["train", *map(str, words)])
        return left.value.code, *capsys.readouterr()

    return command


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


def test_the_command_writes_a_model_that_knows_its_columns_and_a_picture(run, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal():.3f},{site},{rng.normal():.3f}" for site in ["roof", "yard"] * 20]
    (tmp_path / "d.csv").write_text("\n".join(["a,site,t", *lines, "1,,2"]))
    status, out, _ = run("d.csv", "--target", "t", "--hidden", "4", "--epochs", "2", "-o", "new/m.pt")
    assert status == 0
    for word in ("40 rows", "roof, yard", "1 values missing", "NLL", "RMSE", "68% interval covers", "95% interval"):
        assert word in out
    model = read_model(tmp_path / "new" / "m.pt")
    assert model.metadata["inputs"] == ["a", "site=roof", "site=yard"] and model.metadata["targets"] == ["t"]
    assert regression.trained_columns(model.metadata) == (Column("a"), Column("site", ("roof", "yard")))
    assert set(model.metadata["test"]) == {"rows", "nll", "rmse", "coverage"}
    assert (tmp_path / "new" / "m.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_one_object_and_existing_output_is_kept_unless_forced(run, tmp_path):
    write_csv(tmp_path / "d.csv", raw_units(30))
    words = ("d.csv", "--target", "kelvin", "--hidden", "2", "--epochs", "1", "--json")
    (tmp_path / "model.png").write_text("precious")
    status, _, problem = run(*words)
    assert status == 2 and "--force" in problem and not (tmp_path / "model.pt").exists()
    assert (tmp_path / "model.png").read_text() == "precious"
    found = json.loads(run(*words, "--force")[1])
    assert found["files"] == ["model.pt", "model.png"] and found["test"]["rows"] == 5


@pytest.mark.parametrize("metadata", [{}, {"columns": 3}, {"columns": [1]}, {"columns": [{"name": "a"}]}])
def test_a_model_from_elsewhere_has_no_columns(metadata):
    assert regression.trained_columns(metadata) == ()


GOOD = "a,y\n" + "".join(f"{i},{i}\n" for i in range(20))


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (None, ["--target", "y"], "no such file"),
        ("", ["--target", "y"], "first line"),
        (GOOD, [], "add --target, one of a, y"),
        (GOOD, ["--target", "z"], "no column 'z'"),
        (GOOD + "20,warm\n", ["--target", "y"], "must hold numbers, not 'warm'"),
        (GOOD[:30], ["--target", "y"], "at least 10 are needed"),
        (GOOD + "1,2,3\n", ["--target", "y"], "line 22 has 3 cells"),
        (GOOD, ["--target", "y", "--hidden", "16,x"], "--hidden takes numbers"),
        (GOOD, ["--target", "y", "--hidden", "0"], "--hidden takes numbers"),
        (GOOD, ["--target", "y", "--epochs", "0"], "--epochs"),
        (GOOD, ["--target", "y", "-o", "d.csv/m.pt", "--epochs", "1"], "can't write"),
        (GOOD, ["--target", "y", "-o", "."], "name a file for the model"),
        (GOOD, ["--target", "y", "-o", "m.png"], "name a file for the model"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run, text, words, message, tmp_path):
    if text is not None:
        (tmp_path / "d.csv").write_text(text)
    status, _, problem = run("d.csv", *words)
    assert status == 2 and message in problem and problem.count("\n") == 1, problem
