"""Does every backend compute what the trained model computes? Samples, errors, and the first node that departs.

The reference is numpy float64 of the graph as it was traced, before any pass. For each output element

    mean error = |m - m_ref| / (|m_ref| + sqrt(v_ref)),      variance error = |v - v_ref| / v_ref

and a backend passes if every error is at most the tolerance or, where it is more, what rounding to float32 may cost at
this very element (`lbnn.graph.rounding`), in the same measure. A v_ref that is not zero counts as at least the smallest
normal float32, 1.2e-38, and so does |m_ref| + sqrt(v_ref): below it a float32 loses its digits and then all of itself.
At most 0.1 of a bound counts, except for variances below 2.4e-38: C's exponential ends there, and no digit is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from lbnn.base.arrays import AnyArray
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.exporters.c.dtypes.float32 import FLOAT32_DTYPE
from lbnn.graph import Graph
from lbnn.graph.reference import classify, evaluate, predict
from lbnn.graph.rounding import propagate
from lbnn.measure.cost import Cost
from lbnn.measure.samples import Samples
from lbnn.model.file import Model

FLOAT32_TOLERANCE = FLOAT32_DTYPE.tolerance
LEAST_VARIANCE = float(np.finfo(np.float32).tiny)
"""The smallest normal float32, also what means are measured by where they are smaller still."""

CLASS_PARITY = 1e-5
"""The largest error of a probability."""

LAST_VARIANCE = 2.0 * LEAST_VARIANCE
"""C's exponential, and so the noise of a variance head, does not fall below 1.6e-38."""

NO_DIGIT = 0.1
"""A larger bound excuses nothing: an answer without a single sure digit is none."""


class Answers(NamedTuple):
    """What a head made of a backend's own logits: probabilities [n, K], entropy and mutual information [n]."""

    probability: AnyArray
    entropy: AnyArray
    epistemic: AnyArray


@dataclass(frozen=True)
class Outcome:
    """A backend's answers for a batch, float32, and their cost."""

    mean: AnyArray
    var: AnyArray
    cost: Cost = field(default_factory=Cost)
    classes: Answers | None = None  # of a model with a head


Runner = Callable[[Model, Samples], Outcome]
"""Answers samples by one backend."""


@dataclass(frozen=True)
class Expected:
    """The reference's answers, and for each output element, [n, outputs], what float32 may miss them by."""

    result: Moments[Any]
    mean_bound: AnyArray
    var_bound: AnyArray

    def allowed(self, tolerance: float, bounded: bool = True) -> tuple[AnyArray, AnyArray]:
        """The largest errors of mean and variance that pass."""
        if not bounded:
            return (np.full_like(self.mean_bound, tolerance),) * 2
        var = np.asarray(self.result.var).reshape(self.var_bound.shape)
        most = np.where((var > 0.0) & (var < LAST_VARIANCE), np.inf, NO_DIGIT)
        limits = np.minimum(self.mean_bound, NO_DIGIT), np.minimum(self.var_bound, most)
        return np.maximum(tolerance, limits[0]), np.maximum(tolerance, limits[1])


@dataclass(frozen=True)
class Verdict:
    """One backend against the reference: its largest errors, each with the bound of float32 at that element."""

    backend: str
    mean_error: float
    var_error: float
    worst: str
    tolerance: float
    cost: Cost
    departs_at: str | None = None
    finite: bool = True  # no answer was infinite, NaN or refused by `_predict`
    mean_bound: float = 0.0
    var_bound: float = 0.0
    allowed: float = 0.0  # where an error comes nearest to what passes, or goes furthest beyond it
    excess: float = 0.0  # that error over `allowed`
    class_error: float | None = None  # of what the head makes of the logits, if there is one

    @property
    def passed(self) -> bool:
        """No error is beyond what is allowed at its element; NaN always is."""
        return self.excess <= 1.0 and (self.class_error is None or self.class_error <= CLASS_PARITY)


def expect(graph: Graph, samples: Samples) -> Expected:
    """The reference's answers to samples, and how near float32 comes to them."""
    values = evaluate(graph, samples.mean, samples.var)
    bound = propagate(graph, values)[graph.output]
    result = predict(graph, samples.mean, samples.var, values)
    if not isinstance(bound, Moments):
        bound = Moments(bound, np.zeros_like(bound))
    mean, var = (np.broadcast_to(part, result.mean.shape).reshape(len(samples), -1) for part in bound)
    mean_scale, var_scale = _scales(result)
    return Expected(result, _ratio(mean, mean_scale), _ratio(var, var_scale))


def errors(got: Outcome, want: Moments[Any]) -> tuple[AnyArray, AnyArray]:
    """Mean and variance error of every output element, [n, outputs]; infinite where the answer is not a number."""
    mean, var = (np.asarray(part, dtype=np.float64).reshape(len(got.mean), -1) for part in (got.mean, got.var))
    true_mean, true_var = (np.asarray(part).reshape(len(got.mean), -1) for part in want)
    mean_scale, var_scale = _scales(want)
    return _ratio(np.abs(mean - true_mean), mean_scale), _ratio(np.abs(var - true_var), var_scale)


def _scales(want: Moments[Any]) -> tuple[AnyArray, AnyArray]:
    """What errors of mean and variance are relative to, [n, outputs]."""
    mean, var = (np.asarray(part).reshape(len(want.mean), -1) for part in want)
    scale = np.where(var > 0.0, np.maximum(var, LEAST_VARIANCE), var)
    return np.maximum(np.abs(mean) + np.sqrt(scale), LEAST_VARIANCE), scale


def _ratio(error: AnyArray, scale: AnyArray) -> AnyArray:
    """error / scale; no error on nothing is none, any error on nothing and any NaN is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(error == 0.0, 0.0, error / scale)
    return np.where(np.isnan(quotient), np.inf, quotient)


def judge(
    name: str,
    runner: Runner,
    model: Model,
    samples: Samples,
    tolerance: float,
    bounded: bool = True,
    expected: Expected | None = None,
) -> Verdict:
    """Runs one backend on all samples; if it fails, says at which node it departs.

    Unless `bounded`, the tolerance is the limit everywhere. What is expected can be given, to compute it only once.
    """
    expected = expected or expect(model.graph, samples)
    outcome = runner(model, samples)
    verdict = _compare(name, outcome, expected, samples, tolerance, bounded)
    verdict = replace(verdict, class_error=class_error(model.graph, outcome))
    if verdict.passed:
        return verdict
    if verdict.excess <= 1.0:
        return replace(verdict, departs_at=f"the head ({model.graph.head})")
    worst = int(verdict.worst[1:].split()[0])
    return replace(verdict, departs_at=departure(runner, model, samples[worst], tolerance, bounded))


def _compare(
    name: str, outcome: Outcome, expected: Expected, samples: Samples, tolerance: float, bounded: bool
) -> Verdict:
    found, allowed = np.stack(errors(outcome, expected.result)), np.stack(expected.allowed(tolerance, bounded))
    with np.errstate(invalid="ignore"):
        excess = found / allowed
    part, worst, element = np.unravel_index(int(excess.argmax()), excess.shape)
    largest = [np.unravel_index(int(errors.argmax()), errors.shape) for errors in found]
    return Verdict(
        name,
        float(found[0].max()),
        float(found[1].max()),
        f"#{worst} {samples.kinds[worst]}",
        tolerance,
        outcome.cost,
        finite=bool(np.isfinite(outcome.mean).all() and np.isfinite(outcome.var).all()),
        mean_bound=float(expected.mean_bound[largest[0]]),
        var_bound=float(expected.var_bound[largest[1]]),
        allowed=float(allowed[part, worst, element]),
        excess=float(excess[part, worst, element]),
    )


def class_error(graph: Graph, outcome: Outcome) -> float | None:
    """The largest error of probabilities, and of entropies over 1 + entropy; infinite where there are no numbers.

    The reference makes classes of the backend's own logits: those have been compared, and large ones would make any
    rounding of them an error of 1 here.
    """
    if graph.head is None:
        return None
    rows = np.isfinite(outcome.mean).all(axis=1) & np.isfinite(outcome.var).all(axis=1)
    logits = Moments(*(np.asarray(part, np.float64)[rows] for part in (outcome.mean, outcome.var)))
    want = classify(graph, logits) if rows.any() else None
    if want is None:
        return None
    if outcome.classes is None:
        return np.inf
    probability, entropy, epistemic = (np.asarray(part, np.float64)[rows] for part in outcome.classes)
    gaps = (
        np.abs(probability - want.probability).max(axis=1),
        np.abs(entropy - want.entropy) / (1.0 + want.entropy),
        np.abs(epistemic - want.epistemic) / (1.0 + want.entropy),
    )
    found = np.stack(gaps)
    return float(np.where(np.isfinite(found), found, np.inf).max())


def departure(runner: Runner, model: Model, sample: Samples, tolerance: float, bounded: bool = True) -> str:
    """The first node whose own result is off: the graph is cut behind each node in turn and run again.

    A node counts if an error is beyond what is allowed there and not small beside that of the whole model.
    """
    final, _ = _errors_and_limits(runner, model, sample, tolerance, bounded)
    threshold = 0.01 * min(float(final.max()), 1e30)
    for node in model.graph.nodes:
        found, allowed = _errors_and_limits(runner, cut_behind(model, node.name), sample, tolerance, bounded)
        if np.any((found > allowed) & (found > threshold)):
            return f"{node.name} ({node.op})"
    return f"{model.graph.output} (only as a whole)"


def _errors_and_limits(
    runner: Runner, model: Model, sample: Samples, tolerance: float, bounded: bool
) -> tuple[AnyArray, AnyArray]:
    """Both errors of every element, infinite if there is no answer, and what is allowed there."""
    try:
        outcome = runner(model, sample)
    except LbnnError:
        return np.full(1, np.inf), np.zeros(1)
    expected = expect(model.graph, sample)
    return np.stack(errors(outcome, expected.result)), np.stack(expected.allowed(tolerance, bounded))


def cut_behind(model: Model, name: str) -> Model:
    """The model up to and including node `name`."""
    graph = model.graph
    last = [node.name for node in graph.nodes].index(name)
    return replace(model, graph=Graph(graph.name, graph.input, graph.nodes[: last + 1], name))
