"""Deep, wide, very large and very small networks: within the contract, or the failure is said aloud.

The networks and the whole table are those of tools/check/extremes.py (`make extremes`); here is its short form.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import extremes
from lbnn import LbnnError
from lbnn.exporters.c import COptions, generate
from lbnn.graph.reference import evaluate
from lbnn.measure.parity import FLOAT32_TOLERANCE
from lbnn.measure.samples import Samples
from lbnn.measure.verify import show_verdicts, verify_backends
from lbnn.model.file import Model, read_model

BACKENDS = ("torch", "onnx", "c")
CASES = {(case.name, case.about): case for case in (*extremes.ORDINARY, *extremes.EDGES)}

# The largest error of mean or variance on any of the backends: twice what was measured, far from the contract's 1e-5.
DEEP = {
    ("50 linear layers", "variances of 1e-30"): 4e-6,
    ("50 linear layers", "variances of 1e30"): 4e-6,
    ("50 linear layers", "explode: output variance 1e30"): 4e-6,
    ("50 linear layers", "die: output variance 1e-40"): 2e-6,
    ("25 residual blocks", "variances of 1"): 1e-6,
    ("49 convolutions", "variances of 1"): 2e-6,
    ("16-4096-1", "variances of 1"): 1e-5,
    ("16-4096-1", "variances of 1e30"): 1e-5,
    ("16-32-1", "weight variance 1e-30, no bias"): 3e-6,
    ("16-1", "weight variance 1e30"): 1e-6,
    ("16-32-32-1", "inner variance 1e30"): 2e-6,
    ("16-32-32-1", "inner variance 1e-36"): 2e-6,
}


@pytest.mark.parametrize("key", DEEP, ids=", ".join)
def test_errors_do_not_grow_with_depth_width_and_size(key: Any) -> None:
    case = CASES[key]
    model = case.model
    for backend in BACKENDS:
        found = extremes.examine(case, model, backend)
        assert max(found.mean_error, found.var_error) <= DEEP[key], (backend, found)


# What float32 can't hold, and how each backend says so.
OVERFLOWS = {
    ("50 linear layers", "explode: output variance 1e41"): ("not finite", "not finite", "refused"),
    ("16-32-32-1", "inner variance 1e40"): ("not finite", "no export", "no export"),
    ("16-32-1", "inputs of 1e20, certain weights"): ("not finite", "not finite", "refused"),
}


@pytest.mark.parametrize("key", OVERFLOWS, ids=", ".join)
def test_an_overflow_is_never_silent(key: Any) -> None:
    case = CASES[key]
    model = case.model
    assert tuple(extremes.examine(case, model, backend).verdict for backend in BACKENDS) == OVERFLOWS[key]


def exploding() -> Model:
    """A hundred thousandfold a layer: no input of ordinary size comes through."""
    return read_model(extremes.settle(extremes.deep_mlp(5), 0.0, 1e5), (16,))


@pytest.mark.parametrize("backend", BACKENDS)
def test_verify_says_that_there_is_no_answer_and_where_it_is_lost(backend: str, capsys: Any) -> None:
    model = exploding()
    samples = Samples(np.ones((1, 16), np.float32), None, ("ones",))
    values = evaluate(model.graph, samples.mean, np.zeros_like(samples.mean))
    lost = next(n for n in model.graph.nodes if values[n.name].var.max() > np.finfo(np.float32).max)
    (row,) = verify_backends(model, samples, [backend], FLOAT32_TOLERANCE)
    show_verdicts([row], {}, "")
    assert not row.passed and not row.finite
    said = f"{backend}: no finite answer to #0 ones, float32 overflows; first departs at {lost.name} ({lost.op})"
    assert said in capsys.readouterr().out


def test_weights_whose_squares_overflow_are_refused_at_export_without_a_warning() -> None:
    network = extremes.rescale(extremes.settle(extremes.mlp(16, 32, 1)), (1e-20, 1e20))
    with warnings.catch_warnings(), pytest.raises(LbnnError, match="squares of its weights"):
        warnings.simplefilter("error")
        generate(read_model(network, (16,)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_variance_lost_inside_the_network_fails_verify_and_only_verify(backend: str) -> None:
    """1e-46 is 0 in float32: no status can tell it from a variance that is 0. docs/robustness.md says so."""
    case = CASES["16-32-32-1", "inner variance 1e-46"]
    found = extremes.examine(case, case.model, backend)
    assert found.verdict == "beyond" and found.var_error > 0.5


def test_the_exported_self_test_states_what_float32_loses() -> None:
    """The bound of a model that can't keep 1e-5 stands in its source, from the float32 arithmetic of the exporter."""
    case = CASES["16-32-32-1", "inner variance 1e-40"]
    source = str(generate(case.model, COptions(name="net"))["net_selftest.c"])
    (tolerance,) = re.findall(r"tolerance = ([\d.e-]+)f;", source)
    found = extremes.examine(case, case.model, "c")
    assert found.verdict == "beyond" and found.var_error <= 2.0 * float(tolerance)


@pytest.mark.parametrize("name", ["784-8", "4096-8"])
def test_a_long_sum_of_equal_terms_keeps_the_contract(name: str) -> None:
    """Equal terms all round the same way; C adds them in parts. tests/c_runtime/test_long_sums.py has every kernel."""
    case = CASES[name, "equal inputs, equal sigmas"]
    for backend in BACKENDS:
        assert extremes.examine(case, case.model, backend).verdict == "ok"
