"""`lbnn train`: what it writes and says, and bad input in one line."""

import csv
import json

import numpy as np
import pytest

from lbnn.cli.main import main
from lbnn.model.file import read_model
from lbnn.train import regression
from lbnn.train.table import Column, Table


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
    assert set(model.metadata["test"]) == {"rows", "how", "nll", "rmse", "coverage"}
    assert (tmp_path / "new" / "m.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_one_object_and_existing_output_is_kept_unless_forced(run, tmp_path):
    write_csv(tmp_path / "d.csv", raw_units(30))
    words = ("d.csv", "--target", "kelvin", "--hidden", "2", "--epochs", "1", "--json")
    (tmp_path / "model.png").write_text("precious")
    status, _, problem = run(*words)
    assert status == 2 and "--force" in problem and not (tmp_path / "model.pt").exists()
    assert (tmp_path / "model.png").read_text() == "precious"
    found = json.loads(run(*words, "--force")[1])
    assert found["files"] == ["model.pt", "model.png"] and found["test"]["rows"] == 30


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
        (GOOD, ["--target", "y", "-o", "."], "is a folder; name a file"),
        (GOOD, ["--target", "y", "-o", "m.png"], "name a file for the model"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run, text, words, message, tmp_path):
    if text is not None:
        (tmp_path / "d.csv").write_text(text)
    status, _, problem = run("d.csv", *words)
    assert status == 2 and message in problem and problem.count("\n") == 1, problem
