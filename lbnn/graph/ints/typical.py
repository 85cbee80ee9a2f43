"""What the inputs of each layer usually are, for roundings of weights that make up for each other.

No data is asked for: inputs are drawn as the network's own standardisation says that they are, always the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph.graph import INPUT, Graph
from lbnn.graph.reference import evaluate

DRAWS, FEWEST, MOST_DRAWN, SEED = 256, 8, 1 << 22, 0
"""Inputs that are drawn; fewer where one of the network's values is large."""

LEAST_SPREAD = 0.01
"""Share of an input's own square that is added to the covariance: no direction counts for nothing."""

SCALES, WIDEST, FEW_INPUTS = 16, 1.25, 64
"""Scales of a row that are tried, up to so many times the least; with more inputs than that they hardly differ."""


MOST_INPUTS = 1024
"""With more, weights are rounded each for itself: the covariance would take longer than everything else."""


@dataclass(frozen=True)
class Typical:
    """The mean [inputs] and the covariance [inputs, inputs] of a layer's inputs; none of more than MOST_INPUTS."""

    mean: Array
    covariance: Array | None


def typical_values(graph: Graph) -> dict[str, Any]:
    """Every value for the same usual inputs."""
    centre, spread = _usual(graph)
    largest = max(prod(value.shape) for value in graph.values.values())
    count = int(np.clip(MOST_DRAWN // largest, FEWEST, DRAWS))
    draws = centre + spread * np.random.default_rng(SEED).normal(size=(count, *graph.input.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        return evaluate(graph, draws, np.zeros_like(draws) if graph.input.random else None)


def _usual(graph: Graph) -> tuple[Any, Any]:
    """Centre and spread of the input: those that an affine map of it takes to 0 and 1."""
    for node in graph.nodes:
        if node.inputs == (INPUT,) and ops.find(node.op).general == "affine" and np.all(node.params["scale"]):
            scale, shift = (np.asarray(node.params[key]) for key in ("scale", "shift"))
            return -shift / scale, 1.0 / np.abs(scale)
    return 0.0, 1.0


def typical_vector(value: Any) -> Typical | None:
    """Of a linear layer that takes one vector; nothing where it is beyond float64."""
    mean = value.mean if isinstance(value, Moments) else value
    rows = np.asarray(mean).reshape(len(mean), -1)
    found = typical_of(rows, value.var.reshape(rows.shape) if isinstance(value, Moments) else np.zeros_like(rows))
    return found if is_finite(found) else None


def is_finite(typical: Typical) -> bool:
    """Whether the inputs are within float64."""
    return bool(np.isfinite(typical.mean if typical.covariance is None else typical.covariance).all())


def typical_of(rows: Array, var: Array) -> Typical:
    """Of inputs whose means are rows, and their variances."""
    if rows.shape[1] > MOST_INPUTS:
        return Typical(rows.mean(axis=0), None)
    covariance = np.cov(rows.T, bias=True).reshape(rows.shape[1], -1) + np.diag(var.mean(axis=0))
    least = LEAST_SPREAD * np.mean(rows * rows) + np.finfo(np.float64).tiny
    return Typical(rows.mean(axis=0), covariance + least * np.eye(rows.shape[1]))


def rounded_weights(mean: Array, unit: Array, largest: int, typical: Typical | None) -> Array:
    """Whole multiples of each row's unit; what one rounding does to usual inputs the weights behind it make up for."""
    if typical is None or typical.covariance is None:
        return np.clip(np.rint(mean / unit[:, None]), -largest, largest)
    scale = np.sqrt(np.diag(typical.covariance))
    inverse = np.linalg.inv(typical.covariance / np.outer(scale, scale))
    root = np.linalg.cholesky((inverse + inverse.T) / 2.0).T
    left, whole = mean * scale, np.zeros_like(mean)
    for i in range(mean.shape[1]):
        whole[:, i] = np.clip(np.rint(left[:, i] / (unit * scale[i])), -largest, largest)
        error = (left[:, i] - whole[:, i] * unit * scale[i]) / root[i, i]
        left[:, i:] -= error[:, None] * root[i, i:]
    return whole


def row_scales(mean: Array, largest: int, typical: Typical | None) -> Array:
    """What one unit of each row's weights is worth: of a few, the one whose roundings lose least of usual inputs."""
    least: Array = np.abs(mean).max(axis=1) / largest
    if typical is None or typical.covariance is None or mean.shape[1] > FEW_INPUTS:
        return least
    units = np.outer(np.linspace(1.0, WIDEST, SCALES), np.maximum(least, np.finfo(np.float64).tiny))
    rounded = rounded_weights(np.tile(mean, (SCALES, 1)), units.reshape(-1), largest, typical)
    error = mean - rounded.reshape(SCALES, *mean.shape) * units[:, :, None]
    best = np.sum((error @ typical.covariance) * error, axis=2).argmin(axis=0)
    return np.where(least > 0, units[best, np.arange(len(mean))], 0.0)
