"""`lbnn calibrate` and `lbnn predict`: from a data file to intervals that hold, on every backend."""

import csv
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import commands
import lbnn
from lbnn import nn as bnn
from lbnn.model.file import read_model


def run(*words):
    return commands.lbnn(*words, folder=Path.cwd())


def readings(path, rows, seed, target=True):
    """y = 2 a - b + noise that grows with |a|; `site` shifts it."""
    rng = np.random.default_rng(seed)
    a, b, roof = rng.normal(size=rows), rng.uniform(-1, 1, rows), rng.integers(0, 2, rows)
    y = 2 * a - b + roof + (0.2 + np.abs(a)) * rng.normal(size=rows)
    with path.open("w") as file:
        file.write("a,b,site,y\n" if target else "a,b,site\n")
        for i in range(rows):
            site = ("yard", "roof")[roof[i]]
            file.write(f"{a[i]:.6f},{b[i]:.6f},{site}" + (f",{y[i]:.6f}\n" if target else "\n"))
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A trained model, data to calibrate and to predict."""
    folder = tmp_path_factory.mktemp("predict")
    readings(folder / "train.csv", 200, 0)
    readings(folder / "new.csv", 150, 1)
    readings(folder / "today.csv", 40, 2)
    done = run("train", folder / "train.csv", "--target", "y", "--hidden", "6", "--epochs", "20", "-o", folder / "m.pt")
    assert done.status == 0, done.stderr
    assert run("calibrate", folder / "m.pt", folder / "new.csv", "-o", folder / "c.pt").status == 0
    return folder


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_each_row_gets_its_line_and_backends_agree(work, tmp_path):
    told = {}
    for backend in ("torch", "onnx", "c"):
        done = run(
            "predict", work / "c.pt", work / "today.csv", "-o", tmp_path / f"{backend}.csv", "--backend", backend
        )
        assert done.status == 0, done.stderr
        told[backend] = rows_of(tmp_path / f"{backend}.csv")
    assert [len(rows) for rows in told.values()] == [40] * 3
    assert list(told["c"][0]) == ["mean", "sd", "low", "high", "unsure", "out_of_range"]
    numbers = {k: np.array([[float(row[c]) for c in row] for row in rows]) for k, rows in told.items()}
    assert np.allclose(numbers["torch"], numbers["c"], rtol=1e-5, atol=1e-5)
    assert np.allclose(numbers["torch"], numbers["onnx"], rtol=1e-5, atol=1e-5)


def test_mean_and_sd_are_the_models_own_and_the_interval_is_calibrated(work, tmp_path):
    run("predict", work / "c.pt", work / "today.csv", "-o", tmp_path / "p.csv")
    rows = rows_of(tmp_path / "p.csv")
    source = rows_of(work / "today.csv")
    x = torch.tensor([[float(r["a"]), float(r["b"]), r["site"] == "roof", r["site"] == "yard"] for r in source])
    moments = lbnn.load(work / "c.pt")(x)
    factor = read_model(work / "c.pt").metadata["calibration"]["factor"][0]
    for row, mean, sd in zip(rows, moments.mean[:, 0].tolist(), moments.std[:, 0].tolist(), strict=True):
        assert float(row["mean"]) == pytest.approx(mean, rel=1e-5) and float(row["sd"]) == pytest.approx(sd, rel=1e-5)
        assert float(row["high"]) - mean == pytest.approx(factor * sd, rel=1e-4)
        assert mean - float(row["low"]) == pytest.approx(factor * sd, rel=1e-4)


def test_rows_with_missing_values_stay_empty_and_in_their_place(work, tmp_path):
    (tmp_path / "d.csv").write_text("site,a,b\nroof,1,0.5\nroof,,0.5\nyard,9,0.5\n")
    done = run("predict", work / "c.pt", tmp_path / "d.csv", "-o", tmp_path / "p.csv")
    rows = rows_of(tmp_path / "p.csv")
    assert done.status == 0 and "2 of 3 rows predicted" in done.stdout and len(rows) == 3
    assert set(rows[1].values()) == {""} and rows[0]["out_of_range"] == "0" and rows[2]["out_of_range"] == "1"
    assert "1 row with inputs outside of the training range" in done.stdout


def test_scores_are_told_where_the_target_is_known(work, tmp_path):
    found = json.loads(run("predict", work / "c.pt", work / "today.csv", "-o", tmp_path / "p.csv", "--json").stdout)
    rows, y = rows_of(tmp_path / "p.csv"), [float(row["y"]) for row in rows_of(work / "today.csv")]
    inside = [float(row["low"]) <= v <= float(row["high"]) for row, v in zip(rows, y, strict=True)]
    assert found["covered"] == pytest.approx(np.mean(inside)) and found["scored"] == 40
    assert found["rmse"] == pytest.approx(
        np.sqrt(np.mean([(float(row["mean"]) - v) ** 2 for row, v in zip(rows, y, strict=True)])), rel=1e-5
    )
    (tmp_path / "one.csv").write_text("\n".join((work / "today.csv").read_text().splitlines()[:2]) + "\n")
    lines = run("predict", work / "c.pt", tmp_path / "one.csv", "-o", tmp_path / "one_p.csv").stdout.splitlines()
    assert lines[0] == "1 of 1 row predicted" and lines[1].startswith("1 row with a known target: NLL")
    readings(tmp_path / "blind.csv", 5, 3, target=False)
    assert "nll" not in json.loads(
        run("predict", work / "c.pt", tmp_path / "blind.csv", "-o", tmp_path / "q.csv", "--json").stdout
    )


def test_without_calibration_intervals_are_a_gaussians_and_nothing_is_unsure(work, tmp_path):
    done = run("predict", work / "m.pt", work / "today.csv", "-o", tmp_path / "p.csv", "--level", "0.6826895")
    row = rows_of(tmp_path / "p.csv")[0]
    assert "lbnn calibrate" in done.stdout and "unsure" not in row
    assert float(row["high"]) == pytest.approx(float(row["mean"]) + float(row["sd"]), rel=1e-5)


def test_logarithms_are_told_in_the_unit_of_the_target(tmp_path):
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(1, 4), bnn.LeakyReLU(0.1), bnn.Linear(4, 1))
    about = {"columns": [{"name": "a", "categories": []}], "targets": ["log(y)"], "target_columns": ["y"]}
    lbnn.save(model, tmp_path / "m.pt", (1,), metadata={**about, "log_target": True})
    (tmp_path / "d.csv").write_text("a,y\n0.5,2\n")
    run("predict", tmp_path / "m.pt", tmp_path / "d.csv", "-o", tmp_path / "p.csv")
    row = {key: float(value) for key, value in rows_of(tmp_path / "p.csv")[0].items()}
    mean, var = (part.item() for part in model(torch.tensor([[0.5]])))
    drawn = np.exp(np.random.default_rng(0).normal(mean, var**0.5, 2_000_000))
    assert row["mean"] == pytest.approx(drawn.mean(), rel=0.01) and row["sd"] == pytest.approx(drawn.std(), rel=0.02)
    assert row["low"] == pytest.approx(np.quantile(drawn, 0.05), rel=0.01)
    assert row["high"] == pytest.approx(np.quantile(drawn, 0.95), rel=0.01)


def test_the_file_that_was_trained_on_is_refused_for_calibration(work, tmp_path):
    done = run("calibrate", work / "m.pt", work / "train.csv", "-o", tmp_path / "c.pt")
    assert done.status == 2 and "rows that it has not seen" in done.stderr and not (tmp_path / "c.pt").exists()


def test_calibration_is_written_over_the_model_and_leaves_its_weights(work, tmp_path):
    (tmp_path / "m.pt").write_bytes((work / "m.pt").read_bytes())
    done = run("calibrate", tmp_path / "m.pt", work / "new.csv", "--level", "0.8", "--json")
    found = json.loads(done.stdout)
    assert found["level"] == 0.8 and found["rows"] == 150 and found["likely_coverage"][0] < 0.8
    before, after = lbnn.load(work / "m.pt"), lbnn.load(tmp_path / "m.pt")
    assert all(torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))
    kept = {key: value for key, value in after.metadata.items() if key != "calibration"}
    assert kept == dict(before.metadata)


def test_onnx_metadata_and_report_tell_the_calibration(work, tmp_path):
    lbnn.export(work / "c.pt", "onnx", tmp_path / "m.onnx")
    notes = {prop.key: prop.value for prop in onnx.load(tmp_path / "m.onnx").metadata_props}
    about = read_model(work / "c.pt").metadata
    assert json.loads(notes["interval_factor"]) == about["calibration"]["factor"]
    assert json.loads(notes["unsure_sd"]) == about["calibration"]["unsure_sd"]
    assert json.loads(notes["input_low"]) == pytest.approx(about["input_range"][0])
    done = run("report", work / "c.pt", "-o", tmp_path / "r.html", "--backends", "torch", "--samples", "8")
    assert done.status == 0, done.stderr
    assert f"mean ± {about['calibration']['factor'][0]:.3f} σ" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "c.pt", "nowhere.csv"], "no such file"),
        (["predict", "c.pt", "today.csv", "--backend", "vax"], "unknown backend"),
        (["predict", "c.pt", "today.csv", "--level", "0.5"], "calibrated for 0.9"),
        (["predict", "c.pt", "few.csv"], "has no column 'b'"),
        (["predict", "c.pt", "today.csv", "-o", "today.csv"], "--force"),
        (["calibrate", "m.pt", "tiny.csv"], "at least 9 calibration rows, got 4"),
        (["calibrate", "m.pt", "new.csv", "--level", "1"], "--level"),
        (["calibrate", "m.pt", "new.csv", "-o", "c.pt"], "--force"),
        (["calibrate", "m.pt", "new.csv", "--encoding", "klingon"], "no encoding 'klingon'"),
    ],
)
def test_bad_input_is_one_line(work, words, message, monkeypatch):
    monkeypatch.chdir(work)
    (work / "few.csv").write_text("a,site\n1,roof\n")
    readings(work / "tiny.csv", 4, 5)
    done = run(*words, "-o", "p.csv") if "-o" not in words and words[0] == "predict" else run(*words)
    assert done.status == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
