"""Other people's runtimes: each takes the examples' models and gives their numbers; a wrong one would be noticed.

A runtime is one process for all models and opsets, so that its packages are imported once.
"""

from __future__ import annotations

import numpy as np
import pytest

import consumer_runs
import consumers
from consumers import EXACT, HALF, ROOT, RUNTIMES, SUBJECTS, Outcome
from lbnn.model.file import read_model
from places import need, need_runtime

THERMOMETER, DIGITS = SUBJECTS[0], SUBJECTS[-1]
PROGRAMS = {"onnxruntime-node": "node", "onnxruntime-web": "node", "emx": "cc"}
EXACTLY = f"means, variances, probabilities within {EXACT:.0e}"
COARSELY = f"means within {HALF} sd; those of the thermometer within {HALF} sd and half's last digit"


def row(title: str) -> pytest.MarkDecorator:
    """A row of docs/ecosystem.md."""
    runtime, opsets = RUNTIMES[title]
    files = "networks of the examples, by torch.export" if opsets == (None,) else "ONNX files of the examples"
    files += ", its WebAssembly in Node" if runtime == "onnxruntime-web" else ""
    group = "torch" if opsets == (None,) else "ONNX"
    return pytest.mark.ecosystem(f"{group}: {title}", files, result=COARSELY if runtime == "float16" else EXACTLY)


@pytest.mark.parametrize("title", [pytest.param(title, marks=row(title)) for title in RUNTIMES])
def test_a_runtime_gives_the_numbers_of_the_reference(title, record_property):
    runtime, opsets = RUNTIMES[title]
    if runtime in consumers.PLACES:
        need_runtime(consumers.PLACES[runtime])
    if runtime in PROGRAMS:
        need(PROGRAMS[runtime])
    version, outcomes = consumers.run(runtime, opsets, SUBJECTS)
    record_property("version", version)
    assert consumers.wrong(runtime, outcomes) == []
    assert version and len(outcomes) == len(opsets) * len(SUBJECTS)
    assert all(("probability" in each.off) == (each.subject is DIGITS) for each in outcomes)


def test_the_models_are_mlps_cnns_a_classifier_and_one_with_input_variance():
    graphs = [read_model(subject.path).graph for subject in SUBJECTS]
    kinds = [{node.op for node in graph.nodes} for graph in graphs]
    assert {"conv" in ops for ops in kinds} == {True, False} and any(subject.random for subject in SUBJECTS)
    assert [graph.head is not None for graph in graphs] == [subject is DIGITS for subject in SUBJECTS]


@pytest.fixture(scope="module")
def truth():
    model = read_model(DIGITS.path)
    return consumers.truth_of(model, consumers.feed_of(model, DIGITS.random))


@pytest.mark.parametrize("name", ["mean", "variance", "probability"])
def test_a_wrong_one_is_noticed_whichever_of_its_outputs_is_wrong(truth, name):
    assert consumers.is_right("any", DIGITS, consumers.errors(truth, truth))
    wrong = {**truth, name: truth[name] * (1 + 4e-5) + (1e-4 if name == "probability" else 0.0)}
    assert not consumers.is_right("any", DIGITS, consumers.errors(wrong, truth))


@pytest.mark.parametrize(("share", "fine"), [(0.04, True), (0.055, False)])
def test_float16_may_be_off_by_a_twentieth_of_a_standard_deviation(truth, share, fine):
    off = consumers.errors({**truth, "mean": truth["mean"] + share * np.sqrt(truth["variance"])}, truth)
    assert consumers.is_right("float16", DIGITS, off) == fine


@pytest.mark.parametrize(("share", "fine"), [(0.9, True), (1.1, False)])
def test_a_model_with_coarse_means_is_allowed_half_s_last_digit_beside_that(share, fine):
    model = read_model(THERMOMETER.path)
    exact = consumers.truth_of(model, consumers.feed_of(model, False))
    room = HALF + consumers.errors(exact, exact)["last digit"]
    assert HALF < room < 3 * HALF
    off = consumers.errors({**exact, "mean": exact["mean"] + share * room * np.sqrt(exact["variance"])}, exact)
    assert consumers.is_right("float16", THERMOMETER, off) == fine
    assert not consumers.is_right("float16", DIGITS, off)


def test_the_row_of_float16_names_the_model_that_needs_more():
    outcomes = [Outcome(DIGITS, {"sd": 0.04, "mean": 1e-3}), Outcome(THERMOMETER, {"sd": 0.082, "mean": 1e-3})]
    assert consumers.half_means(outcomes) == "0.04 sd; thermometer, MLP 0.08 sd"


def test_one_that_fails_has_a_row_that_says_so(monkeypatch):
    monkeypatch.setattr(consumers, "SUBJECTS", (DIGITS,))
    monkeypatch.setitem(RUNTIMES, "none", ("missing", (17,)))
    text, fine = consumers.try_runtime("none")
    assert not fine and "digits, CNN that classifies: KeyError" in text


def test_a_process_that_ends_at_once_fails_every_model(monkeypatch):
    monkeypatch.setitem(consumers.PLACES, "nowhere", "consumers/js/nowhere")
    version, outcomes = consumers.run("nowhere", (17,), (DIGITS,))
    assert not version and len(consumers.wrong("nowhere", outcomes)) == 1


def test_every_runtime_has_a_run_and_a_pin():
    files = [ROOT / "tests/consumers.txt", ROOT / "tests/litert.txt", ROOT / "Makefile"]
    pins = "".join(file.read_text().lower() for file in files)
    for runtime, _ in RUNTIMES.values():
        if runtime not in PROGRAMS or runtime == "emx":
            assert runtime in consumer_runs.RUNTIMES
        assert runtime in ("float16", "onnxruntime") or runtime in pins
