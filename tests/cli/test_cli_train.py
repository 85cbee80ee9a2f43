"""`lbnn train`: what it writes and says, and bad input in one line."""

import csv
import json

import numpy as np
import pytest

from lbnn.base.factored import Factored
from lbnn.cli.main import main
from lbnn.model.file import read_model
from lbnn.train import about, large
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
    for word in ("40 rows", "roof, yard", "1 value missing", "NLL", "RMSE", "68% interval covers", "95% interval"):
        assert word in out
    model = read_model(tmp_path / "new" / "m.pt")
    assert model.metadata["inputs"] == ["a", "site=roof", "site=yard"] and model.metadata["targets"] == ["t"]
    assert about.trained_columns(model.metadata) == (Column("a"), Column("site", ("roof", "yard")))
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


GOOD = "a,y\n" + "".join(f"{i},{2 * i}\n" for i in range(20))


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (None, ["--target", "y"], "no such file"),
        ("", ["--target", "y"], "first line"),
        (GOOD, [], "add --target, one of a, y"),
        (GOOD, ["--target", "z"], "no column 'z'"),
        (GOOD + "20,warm\n", ["--target", "y"], "must hold numbers, not 'warm'"),
        ("".join(GOOD.splitlines(True)[:8]), ["--target", "y"], "at least 10 are needed"),
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


def test_every_option_reaches_the_training(run, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{i},{rng.normal():.3f},{rng.uniform(1, 9):.3f},{rng.uniform(1, 9):.3f},{i % 7}" for i in range(60)]
    (tmp_path / "d.csv").write_text("\n".join(["t;a;y;z;who", *lines]).replace(",", ";").replace(".", ","))
    words = ("--targets", "y,z", "--inputs", "a", "--group", "who", "--log-target", "--hidden", "3", "--variance-head")
    more = ("--epochs", "3", "--batch", "7", "--lr", "0.005", "--patience", "2", "--prior", "spike_slab")
    rest = ("--kl-weight", "0.5", "--test-share", "0.3", "--decimal", "comma", "--encoding", "latin-1", "--json")
    status, out, problem = run("d.csv", *words, *more, *rest)
    assert status == 0, problem
    found = json.loads(out)
    assert found["inputs"] == ["a"] and found["targets"] == ["log(y)", "log(z)"] and found["test"]["rows"] >= 18
    about = read_model(tmp_path / "model.pt").metadata
    assert about["log_target"] is True and about["target_columns"] == ["y", "z"]


def test_options_mean_what_they_say(monkeypatch, run, tmp_path):
    """What the recipe, the choice and the split get."""
    seen = {}
    monkeypatch.setattr(large, "train_any_size", lambda job, say: seen.update(job=job) or {"interrupted": False})
    assert run("d.csv", "--target", "a,b", "--time", "t", "--drop", "u,v", "--lr", "0.5", "--seed", "3")[0] == 0
    job = seen["job"]
    assert job.targets == ("a,b",) and job.choice.time == "t" and job.choice.drop == ("u", "v") and job.seed == 3
    assert job.recipe["lr"] == 0.5 and job.recipe["head"] is False and job.recipe["hidden"] is None
    assert run("d.csv", "--target", "a", "--targets", "b,c")[0] == 2


def test_few_test_rows_are_told(run, tmp_path):
    write_csv(tmp_path / "d.csv", raw_units(30))
    words = ("--hidden", "2", "--epochs", "1", "--test-share", "0.2")
    assert "6 test rows" in (said := run("d.csv", "--target", "kelvin", *words)[1]) and "say little" in said


def test_the_variance_of_the_weights_goes_into_the_model(run, tmp_path):
    write_csv(tmp_path / "data.csv", raw_units())
    options = ("data.csv", "--target", "kelvin", "--epochs", 2, "--hidden", 3, "-o", "net.pt")
    assert run(*options, "--variance", "rank1")[0] in (0, None)
    weights = [node.params["weight"] for node in read_model("net.pt").graph.nodes if "weight" in node.params]
    assert len(weights) == 2 and all(isinstance(weight, Factored) for weight in weights)
    status, _, error = run(*options, "--force", "--variance", "diagonal")
    assert status == 2 and "'diagonal' is not one of" in error and error.count("\n") == 1
