"""The commands on classes: from a CSV with texts to a model that names them, and bad input in one line."""

import json

import numpy as np
import pytest

from lbnn.cli.main import main
from lbnn.model.file import read_model

QUICK = ("--hidden", "4", "--epochs", "2")


def sky(path, rows=60, names=("clear", "dull", "rain"), header="a,b,sky", seed=0):
    """Two numbers; the first tells the first class apart."""
    rng = np.random.default_rng(seed)
    kinds = [names[i % len(names)] for i in range(rows)]
    lines = [f"{rng.normal() + 5 * (kind == names[0]):.3f},{rng.normal():.3f},{kind}" for kind in kinds]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command in an empty folder: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def command(*words):
        with pytest.raises(SystemExit) as left:
            main(list(map(str, words)))
        return left.value.code, *capsys.readouterr()

    return command


def test_a_text_target_makes_a_model_that_names_its_classes_and_a_picture(run, tmp_path):
    sky(tmp_path / "d.csv").open("a").write("1,2,\n")
    status, out, _ = run("train", "d.csv", "--target", "sky", *QUICK, "-o", "m.pt")
    assert status == 0
    for word in ("60 rows", "sky, 3 classes: clear, dull, rain", "1 values missing", "accuracy", "NLL", "Brier", "ECE"):
        assert word in out
    model = read_model(tmp_path / "m.pt")
    assert model.graph.head == "softmax" and model.metadata["classes"] == ["clear", "dull", "rain"]
    assert model.metadata["targets"] == ["sky"] and model.metadata["inputs"] == ["a", "b"]
    assert set(model.metadata["test"]) == {"rows", "how", "accuracy", "nll", "brier", "ece"}
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("more", [(), ("--stream",)])
def test_numbers_are_classes_on_request(run, tmp_path, more):
    sky(tmp_path / "d.csv", 90, ("0", "1", "2"))
    plain = json.loads(run("train", "d.csv", "--target", "sky", *QUICK, "--json", "-o", "r.pt", *more)[1])
    found = json.loads(run("train", "d.csv", "--target", "sky", "--task", "classify", *QUICK, "--json", *more)[1])
    assert "classes" not in plain and found["classes"] == ["0", "1", "2"] and found["test"]["accuracy"] >= 0
    assert found["files"] == ["model.pt", "model.png"]


@pytest.mark.parametrize("words", [("--patience", "1"), ("--test-share", "0.2"), ("--prior", "spike_slab"),
                                   ("--kl-weight", "0.5"), ("--lr", "0.02", "--batch", "16"), ("--seed", "3"),
                                   ("--inputs", "a"), ("--drop", "b"), ("--group", "b"), ("--time", "b")])  # fmt: skip
def test_options_mean_the_same_for_classes(run, tmp_path, words):
    sky(tmp_path / "d.csv", 30)
    status, out, problem = run("train", "d.csv", "--target", "sky", "--hidden", "2", "--epochs", "1", *words)
    assert (status, problem) == (0, "") and "accuracy" in out


SKY = "a,sky\n" + "".join(f"{i},{'clear' if i % 2 else 'rain'}\n" for i in range(20))


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (SKY, ["--task", "regress"], "must hold numbers, not"),
        (SKY, ["--task", "guess"], "--task"),
        (SKY, ["--task", "classify", "--log-target"], "classes have no logarithm"),
        (SKY, ["--variance-head"], "--variance-head learns the noise of numbers"),
        (SKY + "20,storm\n", [], "each class needs at least 3 rows: storm (1)"),
        (SKY.replace("rain", "clear"), [], "is 'clear' in every row"),
        (SKY.replace("rain", "").replace("clear", ""), ["--task", "classify"], "no row has a value"),
        ("a,sky\n" + "".join(f"{i},id{i}\n" for i in range(1200)), [], "more than 1000 different values"),
        (SKY[:60], [], "at least 10 are needed"),
    ],
)
def test_bad_classes_are_one_line_and_status_2(run, tmp_path, text, words, message):
    (tmp_path / "d.csv").write_text(text)
    status, _, problem = run("train", "d.csv", "--target", "sky", *words)
    assert status == 2 and message in problem and problem.splitlines()[-1].startswith("lbnn: ")
    assert not (tmp_path / "model.pt").exists()


def test_several_targets_are_no_classes(run, tmp_path):
    sky(tmp_path / "d.csv")
    status, _, problem = run("train", "d.csv", "--targets", "a,sky", "--task", "classify")
    assert status == 2 and "classes are one column, got 2 targets" in problem


def test_the_help_has_an_example_of_each_task(run):
    out = run("train", "--help")[1]
    assert "--target temperature" in out and "--target gesture" in out and "--task" in out
