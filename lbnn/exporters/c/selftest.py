"""Golden vectors of the self-test: inputs by an integer formula, outputs from the float64 reference."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph import INPUT, Graph
from lbnn.graph.ints.reference import predict_integers
from lbnn.graph.reference import NUMPY, evaluate
from lbnn.model.file import Model
from lbnn.model.inputs import input_scale, usual_inputs

MARGIN = 2.0
"""Another order of summation may round twice as much."""

SCALES = (0.0, 1.0, 1.0, 16.0, 1024.0)
"""How far the inputs of each vector are from the centre: not at all, as usual, outside of the training data, absurd."""

MOST_NUMBERS = 16384
"""Large inputs get fewer vectors: what the self-test adds to flash stays small beside the weights."""

LARGEST = 1e37
"""A vector is left out if any value on its way is larger: float32 ends soon after."""

TOO_LARGE = (
    "the model's values or the squares of its weights exceed 1e37 even for an input of zeros; "
    "float32 can't compute them, so rescale the model"
)


@dataclass(frozen=True)
class Golden:
    """Inputs [n, length], the outputs they should give, in float64, and how near float32 can come to them."""

    mean: Any
    var: Any
    result: Moments[Any]
    scales: tuple[float, ...]
    tolerance: float
    reference: str = "float64"


def golden(graph: Graph, model: Model, tolerance: float) -> Golden:
    """Vectors for the prepared graph of a model; one that magnifies rounding gets a larger tolerance than is given."""
    scales, inputs, mean, var = _drawn(graph, model)
    results = [_result(graph, *pair) for pair in inputs]
    rounded = _float32_result(graph, mean, var)
    kept = [number for number, result in enumerate(results) if result is not None and _is_finite(rounded, number)]
    if not kept:
        raise LbnnError(TOO_LARGE)
    chosen = [result for number, result in enumerate(results) if result is not None and number in kept]
    result = Moments(np.stack([r.mean for r in chosen]), np.stack([r.var for r in chosen]))
    reached = _reachable(Moments(rounded.mean[kept], rounded.var[kept]), result, tolerance)
    return Golden(mean[kept], var[kept], result, tuple(scales[number] for number in kept), reached)


def golden_integers(graph: Graph, model: Model, mean_bits: int) -> Golden:
    """What must come out bit for bit; no vector is beyond float."""
    scales, _, mean, var = _drawn(graph, model)
    found = predict_integers(graph, mean_bits, mean, var if graph.input.random else None)
    kept = np.flatnonzero(~found.saturated)
    if not kept.size:
        raise LbnnError(TOO_LARGE)
    result = Moments(found.mean[kept], found.var[kept])
    return Golden(mean[kept], var[kept], result, tuple(scales[number] for number in kept), 0.0, "integer")


def _drawn(graph: Graph, model: Model) -> tuple[tuple[float, ...], list[tuple[Any, Any]], Any, Any]:
    """Scales, and the inputs by themselves and as arrays of means and variances."""
    scales = SCALES if prod(graph.input.shape) * len(SCALES) <= MOST_NUMBERS else (0.0, 1.0)
    inputs = [_input(model, scale, number) for number, scale in enumerate(scales)]
    mean, var = (np.stack([pair[part] for pair in inputs]) for part in (0, 1))
    return scales, inputs, mean, var


def _is_finite(result: Moments[Any], number: int) -> bool:
    """A product of weights alone can overflow too, such as E[w]^2: no value of the graph shows it."""
    return bool(np.isfinite(result.mean[number]).all() and np.isfinite(result.var[number]).all())


def _input(model: Model, scale: float, number: int) -> tuple[Any, Any]:
    """Multiples of 1/8 from -2 to 2 times the scale, without pattern, in units of what the model's inputs usually are.

    Where it knows nothing of its inputs these are short in decimal and exact in binary.
    """
    shape = model.graph.input.shape
    index = np.arange(prod(shape), dtype=np.uint64) + np.uint64(1000 * number)
    mixed = (index * np.uint64(2654435761)) % np.uint64(2**32)
    steps = (((mixed >> np.uint64(27)).astype(np.float64) - 16.0) / 8.0 * scale + 0.0).reshape(shape)  # no minus zero
    centre, spread = input_scale(model.graph)
    mean = usual_inputs(model, steps) if scale <= 1.0 else centre + spread * steps
    var = ((mixed >> np.uint64(20)) % np.uint64(16)).astype(np.float64) / 16.0 * scale * scale
    spreads = np.broadcast_to(spread, shape).reshape(-1)
    return _as_stored(mean.reshape(-1)), _as_stored(var * spreads * spreads)


def _as_stored(values: Any) -> Any:
    """What float32 makes of the values, in float64."""
    return values.astype(np.float32).astype(np.float64)


def _result(graph: Graph, mean: Any, var: Any) -> Moments[Any] | None:
    """The outputs in one row, or None if float32 can't hold what is computed on the way."""
    shape = (1, *graph.input.shape)
    values = evaluate(graph, mean.reshape(shape), var.reshape(shape) if graph.input.random else None)
    arrays = [
        np.asarray(array) for value in values.values() for array in (value if isinstance(value, Moments) else [value])
    ]
    if not all(np.all(np.abs(array) < LARGEST) for array in arrays):
        return None
    out = values[graph.output]
    return Moments(out.mean.reshape(-1), out.var.reshape(-1))


def _float32_result(graph: Graph, mean: Any, var: Any) -> Moments[Any]:
    """The reference's formulas with every number and every step in float32."""
    shape = (len(mean), *graph.input.shape)
    random = Moments(*(part.reshape(shape).astype(np.float32) for part in (mean, var)))
    values: dict[str, Any] = {INPUT: random if graph.input.random else random.mean}
    for node in graph.nodes:
        params = {key: _float32(param) for key, param in node.params.items()}
        inputs = [values[name] for name in node.inputs]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is left out by the caller
            result = _float32(ops.find(node.op).formula(NUMPY, *inputs, **params, **node.attrs))
        values[node.name] = result if node.inputs else np.broadcast_to(result, (len(mean), *result.shape))
    out = values[graph.output]
    return Moments(out.mean.reshape(len(mean), -1), out.var.reshape(len(mean), -1))


def _float32(value: Any) -> Any:
    if isinstance(value, (Moments, Factored)):
        return type(value)(*map(_float32, value))
    return np.asarray(value, dtype=np.float32)


def _reachable(rounded: Moments[Any], exact: Moments[Any], tolerance: float) -> float:
    """The tolerance, or the next power of ten if the model magnifies rounding so much that float32 can't keep it."""
    scales = Moments(np.abs(exact.mean) + np.sqrt(exact.var), exact.var)
    gaps = [np.abs(a - b) / np.maximum(scale, 1e-37) for a, b, scale in zip(rounded, exact, scales, strict=True)]
    error = max(float(gap.max()) for gap in gaps)
    while MARGIN * error > tolerance and tolerance < 1.0:
        tolerance *= 10.0
    return tolerance
