"""Models that float32 can't keep within 1e-5: they pass within their bound, fail beyond it, and are told why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.measure.backends import BACKENDS
from lbnn.measure.conditioning import explain_bound
from lbnn.measure.parity import FLOAT32_TOLERANCE, NO_DIGIT, Expected, Outcome, expect, judge
from lbnn.measure.samples import draw_samples
from lbnn.measure.torch_backend import run_torch
from lbnn.measure.verify import show_verdicts, verify_backends
from lbnn.model.file import Model, read_model
from sharp import cnn, mlp

SMALL = {"MLP": lambda: mlp(256, 64, 10, sigma=1.2e-4), "CNN": lambda: cnn(1.2e-4)}


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
def test_a_sound_model_of_small_sigmas_passes(make: Any, backend: str) -> None:
    model = make()
    row = judge(backend, BACKENDS[backend].run, model, draw_samples(model, 28, seed=0), FLOAT32_TOLERANCE)
    assert row.passed, row
    assert max(row.mean_error, row.var_error) <= max(row.mean_bound, row.var_bound, FLOAT32_TOLERANCE)


def test_a_tolerance_that_was_asked_for_holds_as_it_is() -> None:
    model = SMALL["MLP"]()
    row = judge("torch", run_torch, model, draw_samples(model, 64, seed=0), FLOAT32_TOLERANCE, bounded=False)
    assert not row.passed


def flipped(model: Model) -> Model:
    """One weight of the last layer with the other sign."""
    last = model.graph.nodes[-1]
    weight: Any = last.params["weight"]
    mean = weight.mean.copy()
    mean.flat[np.abs(mean).argmax()] *= -1.0
    node = replace(last, params={**last.params, "weight": weight._replace(mean=mean)})
    return replace(model, graph=replace(model.graph, nodes=(*model.graph.nodes[:-1], node)))


WRONG: dict[str, Any] = {
    "a variance": lambda model, samples: (lambda out: replace(out, var=out.var * np.float32(1.01)))(
        run_torch(model, samples)
    ),
    "a mean": lambda model, samples: (lambda out: replace(out, mean=out.mean + np.float32(1e-3) * np.sqrt(out.var)))(
        run_torch(model, samples)
    ),
    "a sign": lambda model, samples: run_torch(flipped(model), samples),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_backend_fails_on_an_ordinary_model(wrong: str) -> None:
    model = mlp(16, 32, 32, 3)
    row = judge("wrong", WRONG[wrong], model, draw_samples(model, 14, seed=0), FLOAT32_TOLERANCE)
    assert not row.passed and row.allowed == pytest.approx(FLOAT32_TOLERANCE, rel=0.5)


@pytest.mark.parametrize("part", [0, 1])
def test_an_error_of_three_times_the_bound_fails(part: int) -> None:
    """On the model of small sigmas: added to the answers of torch, which are within the bound."""
    model = SMALL["MLP"]()
    samples = draw_samples(model, 14, seed=0)
    expected = expect(model.graph, samples)
    mean, var = (np.asarray(p).reshape(len(samples), -1) for p in expected.result)
    steps = (
        (np.abs(mean) + np.sqrt(var)) * np.maximum(expected.mean_bound, 1e-5),
        var * np.maximum(expected.var_bound, 1e-5),
    )

    def off(times: float) -> Any:
        def run(model: Model, samples: Any) -> Outcome:
            if len(samples) < len(mean):
                return run_torch(model, samples)  # the search for the node that departs
            changed = [mean.copy(), var.copy()]
            changed[part][:, 0] += times * steps[part][:, 0]
            return Outcome(*changed)

        return run

    assert judge("near", off(0.9), model, samples, FLOAT32_TOLERANCE, expected=expected).passed
    assert not judge("far", off(3.0), model, samples, FLOAT32_TOLERANCE, expected=expected).passed


def test_a_bound_without_a_sure_digit_excuses_nothing() -> None:
    huge = np.full((1, 1), 3.0)
    one = np.ones((1, 1))
    for limit in Expected(Moments(one, one), huge, huge).allowed(FLOAT32_TOLERANCE):
        assert limit == NO_DIGIT


@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
@pytest.mark.parametrize("first", [(), (bnn.Standardize(0.0, 0.01),)], ids=["as it is", "a hundred times as far"])
def test_a_variance_head_whose_noise_is_nothing_passes(backend: str, first: Any) -> None:
    """softplus(-1e6) is below every number of float64, and C's exponential ends at 1.6e-38."""
    model = read_model(bnn.Sequential(*first, bnn.VarianceHead()), (6,))
    samples = draw_samples(model, 28, seed=0)
    row = judge(backend, BACKENDS[backend].run, model, samples, FLOAT32_TOLERANCE)
    assert row.passed, row
    assert not judge("lost", without_variance, model, samples, FLOAT32_TOLERANCE).passed


def without_variance(model: Model, samples: Any) -> Outcome:
    out = run_torch(model, samples)
    return replace(out, var=np.zeros_like(out.var))


def test_the_reason_is_one_line_that_names_the_layer(capsys: Any) -> None:
    model = SMALL["MLP"]()
    samples = draw_samples(model, 28, seed=0)
    expected = expect(model.graph, samples)
    reason = explain_bound(model, samples, expected, FLOAT32_TOLERANCE)
    rows = verify_backends(model, samples, ["torch"], FLOAT32_TOLERANCE, expected=expected)
    show_verdicts(rows, {}, "", reason)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("float32 may be off by")]
    assert reason is not None and reason.node in model.graph.by_name
    assert "times its |mean| + sd" in line and f"{reason.node} (linear)" in line


def test_an_ordinary_model_needs_no_reason() -> None:
    model = mlp(16, 32, 32, 3)
    samples = draw_samples(model, 28, seed=0)
    assert explain_bound(model, samples, expect(model.graph, samples), FLOAT32_TOLERANCE) is None
