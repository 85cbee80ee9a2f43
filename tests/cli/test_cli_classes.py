"""The commands on classes: from a CSV with texts to a model that names them, and bad input in one line."""

import csv
import json
import shutil
import subprocess

import numpy as np
import onnx
import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.cli.main import main
from lbnn.exporters.c import literals
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
    for word in ("60 rows", "sky, 3 classes: clear, dull, rain", "1 value missing", "accuracy", "NLL", "Brier", "ECE"):
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


# --- predict and calibrate ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model, rows to calibrate with and rows to predict."""
    folder = tmp_path_factory.mktemp("classes")
    for name, rows, seed in (("d", 90, 0), ("held", 120, 1), ("new", 50, 2)):
        sky(folder / f"{name}.csv", rows, seed=seed)
    with pytest.raises(SystemExit) as left:
        main(["train", f"{folder}/d.csv", "--target", "sky", "--hidden", "6", "--epochs", "25", "--lr", "0.05",
              "--test-share", "0.2", "-o", f"{folder}/m.pt", "--json"])  # fmt: skip
    assert left.value.code == 0
    return folder


@pytest.fixture
def work(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in trained.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def cells(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(rows, *names):
    return np.array([[float(row[name]) for name in names] for row in rows])


SKIES = ["p_clear", "p_dull", "p_rain"]


def test_predict_tells_class_probabilities_and_entropies_of_each_row(run, work):
    (work / "new.csv").write_text((work / "new.csv").read_text() + "1,,rain\n-40,1,clear\n")
    status, out, _ = run("predict", "m.pt", "new.csv", "-o", "told.csv")
    rows = cells(work / "told.csv")
    assert status == 0 and len(rows) == 52 and set(rows[50].values()) == {""}
    assert list(rows[0]) == ["class", *SKIES, "entropy", "epistemic", "out_of_range"]
    whole = [*rows[:50], rows[51]]
    p = numbers(whole, *SKIES)
    assert np.allclose(p.sum(1), 1, atol=1e-6) and [row["class"] for row in whole] == [
        ("clear", "dull", "rain")[k] for k in p.argmax(1)
    ]
    assert np.allclose(numbers(whole, "entropy")[:, 0], -(p * np.log(p)).sum(1), atol=1e-5)
    assert (numbers(whole, "epistemic") >= -1e-6).all() and rows[51]["out_of_range"] == "1"
    for word in (
        "51 of 52 rows predicted",
        "51 rows with a known class: accuracy",
        "lbnn calibrate",
        "with inputs outside",
    ):
        assert word in out
    network = lbnn.load(work / "m.pt")
    last = network(torch.tensor([[-40.0, 1.0]]))
    assert np.allclose(last.probability.detach().numpy(), p[-1:], atol=1e-6)
    assert float(rows[51]["epistemic"]) == pytest.approx(last.epistemic.item(), abs=1e-5)
    assert abs(last.epistemic.item() - last.entropy.item()) > 1e-3


def test_every_backend_tells_the_same(run, work):
    told = {}
    for backend in ("torch", "onnx", "c"):
        assert run("predict", "m.pt", "new.csv", "-o", f"{backend}.csv", "--backend", backend)[0] == 0
        told[backend] = numbers(cells(work / f"{backend}.csv"), *SKIES, "entropy", "epistemic")
    assert np.abs(told["onnx"] - told["torch"]).max() < 2e-5 and np.abs(told["c"] - told["torch"]).max() < 2e-5


def test_predict_scores_only_rows_whose_class_it_knows(run, work):
    (work / "new.csv").write_text("a,b,sky\n5,0,clear\n5,0,storm\n5,0,\n")
    found = json.loads(run("predict", "m.pt", "new.csv", "--json")[1])
    assert (found["predicted"], found["scored"], found["accuracy"]) == (3, 1, 1.0)
    (work / "new.csv").write_text("a,b\n5,0\n")
    assert "scored" not in json.loads(run("predict", "m.pt", "new.csv", "--json", "--force")[1])


def test_calibrate_puts_temperature_limit_and_sets_into_the_model(run, work):
    before = lbnn.load(work / "m.pt")
    found = json.loads(run("calibrate", "m.pt", "held.csv", "--level", "0.8", "--false-alarms", "0.1", "--json")[1])
    after, x = lbnn.load(work / "m.pt"), torch.randn(20, 2)
    plain, cold = before(x).logits, after(x).logits
    torch.testing.assert_close(cold.mean, plain.mean / found["temperature"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(cold.var, plain.var / found["temperature"] ** 2, rtol=1e-5, atol=1e-8)
    assert found["rows"] == 60 and found["likely_coverage"][0] < 0.8 < found["likely_coverage"][1]
    status, out, _ = run("predict", "m.pt", "new.csv", "-o", "told.csv", "--level", "0.8")
    rows = cells(work / "told.csv")
    assert status == 0 and "rows unsure" in out and "the set holds it in" in out
    for row, p in zip(rows, numbers(rows, *SKIES), strict=True):
        assert row["set"] == "|".join(
            n for n, q in zip(("clear", "dull", "rain"), p, strict=True) if q >= found["threshold"]
        )
        assert int(row["unsure"]) == (float(row["entropy"]) > found["unsure_entropy"])


def test_calibrating_again_begins_with_the_networks_own_logits(run, work):
    hot = lbnn.load(work / "m.pt")
    hot.layers[-1].weight_mu.data *= 5  # so that the first temperature is not 1
    lbnn.save(hot, "m.pt")
    first = json.loads(run("calibrate", "m.pt", "held.csv", "--json")[1])["temperature"]
    nodes = len(read_model(work / "m.pt").graph.nodes)
    second = json.loads(run("calibrate", "m.pt", "held.csv", "--json")[1])["temperature"]
    x = torch.randn(20, 2)
    plain, cold = hot(x).logits.mean, lbnn.load(work / "m.pt")(x).logits.mean
    torch.testing.assert_close(cold, plain / second, rtol=1e-5, atol=1e-6)
    assert second == pytest.approx(first, rel=1e-4) and first > 1.5
    assert len(read_model(work / "m.pt").graph.nodes) == nodes


def test_what_calibrate_found_is_in_c_and_onnx(run, work):
    found = json.loads(run("calibrate", "m.pt", "held.csv", "--json")[1])
    assert run("export", "m.pt", "--target", "c", "-o", "c")[0] == 0
    assert run("export", "m.pt", "--target", "onnx", "-o", "m.onnx")[0] == 0
    header, source = (work / "c/m.h").read_text(), (work / "c/m.c").read_text()
    assert f">= {literals.scalar(found['threshold'])};" in header
    assert f"!(parts[0] <= {literals.scalar(found['unsure_entropy'])})" in source
    assert "Calibrated on 60 rows" in header and '"clear",\n        "dull",\n        "rain",' in header
    entries = onnx.load(work / "m.onnx").metadata_props
    facts = {entry.key: json.loads(entry.value) for entry in entries if entry.key in FACTS}
    assert facts.pop("classes") == ["clear", "dull", "rain"] and set(facts) == {*FACTS} - {"classes"}
    assert facts == {key: found[FACTS[key]] for key in facts}


FACTS = {"classes": "classes", "temperature": "temperature", "unsure_entropy": "unsure_entropy",
         "set_threshold": "threshold", "set_level": "level"}  # fmt: skip
MAIN = r"""
#include "m.h"
#include <stdio.h>
int main(void)
{
    static float work[M_WORK_LEN];
    float x[2], p[M_OUTPUT_LEN];
    unsigned char in_set[M_OUTPUT_LEN];
    while (scanf("%f,%f", &x[0], &x[1]) == 2) {
        m_decision d;
        if (m_classify(x, p, &d, work) != LBNN_OK) return 1;
        printf("%s %d %d", m_class_name(d.label), d.unsure, m_set(p, in_set));
        for (int i = 0; i < M_OUTPUT_LEN; i++) printf(" %d", in_set[i]);
        printf("\n");
    }
    return m_class_name(-1) != 0 || m_class_name(M_OUTPUT_LEN) != 0;
}
"""


def test_the_c_decides_as_predict_does(run, work):
    run("calibrate", "m.pt", "held.csv")
    run("predict", "m.pt", "new.csv", "-o", "told.csv")
    run("export", "m.pt", "--target", "c", "-o", "c")
    (work / "c/main.c").write_text(MAIN)
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-Wno-double-promotion"]
    subprocess.run(["cc", "-std=c99", *strict, "m.c", "main.c", "-lm", "-o", "run"], cwd=work / "c", check=True)
    inputs = "\n".join(",".join(line.split(",")[:2]) for line in (work / "new.csv").read_text().splitlines()[1:])
    said = subprocess.run(
        [work / "c/run"], input=inputs, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for line, row in zip(said, cells(work / "told.csv"), strict=True):
        held = [int(name in row["set"].split("|")) for name in ("clear", "dull", "rain")]
        assert line.split() == [row["class"], row["unsure"], str(sum(held)), *map(str, held)]


def test_the_example_of_a_calibrated_model_is_clean_c_and_cpp_and_names_the_class(run, work):
    run("calibrate", "m.pt", "held.csv")
    run("export", "m.pt", "--target", "c", "-o", "c")
    files, flags = ["m.c", "m_selftest.c", "example_main.c"], ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion"]
    strict = [*flags, "-Wdouble-promotion", "-Werror", "-O1"]
    subprocess.run(["g++", "-std=c++11", "-x", "c++", *strict, "-c", *files], cwd=work / "c", check=True)
    subprocess.run(["gcc", "-std=c99", *strict, *files, "-lm", "-o", "run"], cwd=work / "c", check=True)
    said = subprocess.run([work / "c/run"], capture_output=True, text=True, check=True).stdout
    label = int(said.split("label ")[1].split(",")[0].split()[0])
    assert f"that is {('clear', 'dull', 'rain')[label]}" in said and "90 % set of" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "m.pt", "new.csv", "--level", "0.9"], "needs lbnn calibrate first"),
        (["predict", "m.pt", "new.csv", "--backend", "abacus"], "unknown backend"),
        (["calibrate", "m.pt", "d.csv"], "is what m.pt was trained on"),
        (["calibrate", "m.pt", "few.csv"], "at least 40 calibration rows, got 30"),
        (["calibrate", "m.pt", "held.csv", "--level", "0.99"], "sets of 0.99 needs at least 99"),
        (["calibrate", "m.pt", "other.csv"], "holds 'snow', which is none of clear, dull, rain"),
        (["calibrate", "labels.pt", "held.csv"], "gives labels of which several may hold"),
    ],
)
def test_what_can_not_be_done_is_one_line_and_status_2(run, work, words, message):
    sky(work / "few.csv", 30, seed=5)
    sky(work / "other.csv", 90, ("clear", "snow"), seed=5)
    several = bnn.Sequential(bnn.Linear(2, 3), bnn.SigmoidHead())
    lbnn.save(several, work / "labels.pt", input_shape=(2,), metadata={"targets": ["sky"]})
    status, _, problem = run(*words)
    assert status == 2 and message in problem and problem.count("\n") == 1


def test_labels_and_nameless_classes_are_predicted_too(run, work):
    torch.manual_seed(0)
    lbnn.save(bnn.Sequential(bnn.Linear(2, 3), bnn.SigmoidHead()), "labels.pt", input_shape=(2,))
    lbnn.save(bnn.Sequential(bnn.Linear(2, 1), bnn.SigmoidHead()), "two.pt", input_shape=(2,))
    (work / "new.csv").write_text("a,b\n5,0\n1,2\n")
    for name, columns in (("labels", ["p_0", "p_1", "p_2"]), ("two", ["p_0", "p_1"])):
        assert run("predict", f"{name}.pt", "new.csv", "-o", f"{name}.csv")[0] == 0
        rows = cells(work / f"{name}.csv")
        assert list(rows[0]) == ["class", *columns, "entropy", "epistemic"]
        p = numbers(rows, *columns)
        assert [row["class"] for row in rows] == [str(k) for k in p.argmax(1)]
    held = lbnn.load("two.pt")(torch.tensor([[5.0, 0.0], [1.0, 2.0]])).probability.detach().numpy()[:, 0]
    assert np.allclose(p.sum(1), 1) and np.allclose(p[:, 1], held, atol=1e-6) and abs(held[0] - 0.5) > 0.01
