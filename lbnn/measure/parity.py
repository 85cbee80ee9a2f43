"""Does every backend compute what the trained model computes? Samples, errors, and the first node that departs.

The reference is numpy float64 of the graph as it was traced, before any pass. For each output element

    mean error = |m - m_ref| / (|m_ref| + sqrt(v_ref)),      variance error = |v - v_ref| / v_ref

and a backend passes if both maxima over all samples are at most the tolerance. A v_ref that is not zero counts as at
least the smallest normal float32, 1.2e-38: below it a float32 variance loses its digits and then all of itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lbnn.base.arrays import AnyArray
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.exporters.c.dtypes.float32 import FLOAT32_DTYPE
from lbnn.graph import Graph
from lbnn.graph.reference import predict
from lbnn.measure.cost import Cost
from lbnn.measure.samples import Samples
from lbnn.model.file import Model

FLOAT32_TOLERANCE = FLOAT32_DTYPE.tolerance
LEAST_VARIANCE = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Outcome:
    """A backend's answers for a batch, float32, and their cost."""

    mean: AnyArray
    var: AnyArray
    cost: Cost = field(default_factory=Cost)


Runner = Callable[[Model, Samples], Outcome]
"""Answers samples by one backend."""


@dataclass(frozen=True)
class Verdict:
    """One backend against the reference."""

    backend: str
    mean_error: float
    var_error: float
    worst: str
    tolerance: float
    cost: Cost
    departs_at: str | None = None
    finite: bool = True  # no answer was infinite, NaN or refused by `_predict`

    @property
    def passed(self) -> bool:
        """Both errors are within the tolerance; NaN never is."""
        return self.mean_error <= self.tolerance and self.var_error <= self.tolerance


def errors(got: Outcome, want: Moments[Any]) -> tuple[AnyArray, AnyArray]:
    """Mean and variance error of every output element, [n, outputs]; infinite where the answer is not a number."""
    mean, var = (np.asarray(part, dtype=np.float64).reshape(len(got.mean), -1) for part in (got.mean, got.var))
    true_mean, true_var = (np.asarray(part).reshape(len(got.mean), -1) for part in want)
    scale = np.where(true_var > 0.0, np.maximum(true_var, LEAST_VARIANCE), true_var)
    mean_error = _ratio(np.abs(mean - true_mean), np.abs(true_mean) + np.sqrt(scale))
    return mean_error, _ratio(np.abs(var - true_var), scale)


def _ratio(error: AnyArray, scale: AnyArray) -> AnyArray:
    """error / scale; no error on nothing is none, any error on nothing and any NaN is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(error == 0.0, 0.0, error / scale)
    return np.where(np.isnan(quotient), np.inf, quotient)


def judge(name: str, runner: Runner, model: Model, samples: Samples, tolerance: float) -> Verdict:
    """Runs one backend on all samples; if it fails, says at which node it departs."""
    outcome = runner(model, samples)
    mean_error, var_error = errors(outcome, predict(model.graph, samples.mean, samples.var))
    both = np.maximum(mean_error, var_error).max(axis=1)
    worst = int(both.argmax())
    verdict = Verdict(
        name,
        float(mean_error.max()),
        float(var_error.max()),
        f"#{worst} {samples.kinds[worst]}",
        tolerance,
        outcome.cost,
        finite=bool(np.isfinite(outcome.mean).all() and np.isfinite(outcome.var).all()),
    )
    if verdict.passed:
        return verdict
    return replace(verdict, departs_at=departure(runner, model, samples[worst], tolerance))


def departure(runner: Runner, model: Model, sample: Samples, tolerance: float) -> str:
    """The first node whose own result is off: the graph is cut behind each node in turn and run again.

    A node counts if its error is beyond the tolerance and not small beside that of the whole model.
    """
    final = _worst_error(runner, model, sample)
    threshold = max(tolerance, 0.01 * min(final, 1e30))
    for node in model.graph.nodes:
        if _worst_error(runner, cut_behind(model, node.name), sample) > threshold:
            return f"{node.name} ({node.op})"
    return f"{model.graph.output} (only as a whole)"


def _worst_error(runner: Runner, model: Model, sample: Samples) -> float:
    try:
        outcome = runner(model, sample)
    except LbnnError:
        return float("inf")
    return float(max(part.max() for part in errors(outcome, predict(model.graph, sample.mean, sample.var))))


def cut_behind(model: Model, name: str) -> Model:
    """The model up to and including node `name`."""
    graph = model.graph
    last = [node.name for node in graph.nodes].index(name)
    return replace(model, graph=Graph(graph.name, graph.input, graph.nodes[: last + 1], name))
