"""The formulas in numpy float64, written for clarity: the reference that every other backend is held to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from scipy.special import ndtr

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.classes import Classes
from lbnn.base.moments import Moments
from lbnn.graph import INPUT, Graph, Node, rebuild
from lbnn.ops import AxisFactors, ConvGeometry, Shape, TailRow, TransposedGeometry, Window
from lbnn.ops.heads import find_head
from lbnn.ops.mills import numpy_mills
from lbnn.ops.tail import NARROW_FLOAT32, NARROW_FLOAT64, numpy_tail_moments
from lbnn.ops.tail_scaled import SCALED_FLOAT32, SCALED_FLOAT64, scaled_tail


class NumpyNamespace:
    """Implements `lbnn.ops.Namespace`."""

    def linear(self, bias: Any, *terms: tuple[Array, Array]) -> Any:
        """bias + the sum of x @ weight.T."""
        return sum((x @ weight.T for x, weight in terms), start=bias)

    def conv(self, geometry: ConvGeometry, bias: Any, *terms: tuple[Array, Array]) -> Any:
        """bias + the sum of the convolutions."""
        rank = len(geometry.stride)
        start = np.reshape(bias, (-1,) + (1,) * rank) if np.ndim(bias) else bias
        return sum((_conv(x, weight, geometry) for x, weight in terms), start=start)

    def conv_transposed(self, geometry: TransposedGeometry, bias: Any, *terms: tuple[Array, Array]) -> Any:
        """bias + the sum of the transposed convolutions."""
        start = np.reshape(bias, (-1,) + (1,) * len(geometry.stride)) if np.ndim(bias) else bias
        return sum((_conv_transposed(x, weight, geometry) for x, weight in terms), start=start)

    def window_mean(self, x: Array, window: Window) -> Array:
        """The mean under each window, counting zeros outside."""
        axes = _spatial_axes(len(window.kernel))
        view = _windows(self.pad(x, window.padding), window.kernel, window.stride, (1,) * len(window.kernel))
        mean: Array = view.mean(axis=axes)
        return mean

    def scale(self, x: Array, factors: AxisFactors) -> Array:
        """Known factors."""
        return x * outer_product(factors)

    def window_max(self, x: Array, window: Window, dilation: Shape, outside: float) -> Array:
        """The largest under each window."""
        view = _windows(self.pad(x, window.padding, outside), window.kernel, window.stride, dilation)
        largest: Array = view.max(axis=_spatial_axes(len(window.kernel)))
        return largest

    def every(self, x: Array, axis: int, start: int, step: int, count: int) -> Array:
        """A view."""
        places: Any = (..., slice(start, start + step * (count - 1) + 1, step), *[slice(None)] * (-1 - axis))
        chosen: Array = x[places]
        return chosen

    def pad(self, x: Array, padding: tuple[tuple[int, int], ...], value: float = 0.0) -> Array:
        """A number around."""
        return np.pad(x, ((0, 0), (0, 0), *padding), constant_values=value)

    def repeat(self, x: Array, factors: Shape) -> Array:
        """Copies along the spatial axes."""
        return reduce(lambda out, axis: np.repeat(out, factors[axis], axis + 2), range(len(factors)), x)

    def sqrt(self, x: Array) -> Array:
        """Square root."""
        return np.sqrt(x)

    def abs(self, x: Array) -> Array:
        """Absolute value."""
        return np.abs(x)

    def ratio(self, x: Array, sigma: Array) -> Array:
        """x / sigma, infinite where sigma is 0."""
        return np.divide(x, sigma, out=np.full_like(x, np.inf), where=sigma > 0)

    def minimum(self, x: Array, bound: float) -> Array:
        """The smaller one."""
        return np.minimum(x, bound)

    def maximum(self, x: Array, bound: float) -> Array:
        """The larger one."""
        return np.maximum(x, bound)

    def between(self, x: Array, low: float, high: float) -> Array:
        """x between two numbers."""
        return np.clip(x, low, high)

    def narrow(self, x: Array) -> float:
        """Of float64; of float32 where that is tried."""
        return NARROW_FLOAT32 if x.dtype == np.float32 else NARROW_FLOAT64

    def exp(self, x: Array) -> Array:
        """Exponential."""
        return np.exp(x)

    def expm1(self, x: Array) -> Array:
        """e^x - 1."""
        return np.expm1(x)

    def log(self, x: Array) -> Array:
        """Logarithm."""
        return np.log(x)

    def normal_cdf(self, x: Array) -> Array:
        """P(Z < x)."""
        below: Array = ndtr(x)
        return below

    def sum_last(self, x: Array) -> Array:
        """Sum along the last axis."""
        total: Array = x.sum(-1, keepdims=True)
        return total

    def max_last(self, x: Array) -> Array:
        """Largest along the last axis."""
        largest: Array = x.max(-1, keepdims=True)
        return largest

    def min_last(self, x: Array) -> Array:
        """Smallest along the last axis."""
        smallest: Array = x.min(-1, keepdims=True)
        return smallest

    def drop_last(self, x: Array) -> Array:
        """Without the last axis."""
        return x[..., 0]

    def knots(self, x: Array, numbers: tuple[float, ...]) -> Array:
        """x times each number, along a new axis."""
        spread: Array = x[:, None] * np.array(numbers)[:, None]
        return spread

    def sum_knots(self, x: Array) -> Array:
        """Sum along that axis."""
        total: Array = x.sum(1)
        return total

    def fan(self, x: Array, numbers: tuple[float, ...]) -> Array:
        """x times each number, along a new last axis."""
        spread: Array = x[..., None] * np.array(numbers)
        return spread

    def shifts(self, x: Array, numbers: tuple[float, ...]) -> Array:
        """x plus each number, along a new last axis."""
        spread: Array = x[..., None] + np.array(numbers)
        return spread

    def mix(self, x: Array, rows: Array) -> Array:
        """Weighted sums along the last axis."""
        mixed: Array = x @ rows.T
        return mixed

    def cells(self, x: Array, rows: Array) -> tuple[list[Array], Array]:
        """A row for each element."""
        row = np.clip(np.floor(np.nan_to_num(x)), 0.0, len(rows) - 1.0)
        return list(np.moveaxis(rows[row.astype(np.int64)], -1, 0)), row

    def tanh(self, x: Array) -> Array:
        """Hyperbolic tangent."""
        return np.tanh(x)

    def leaky_relu(self, x: Array, slope: float) -> Array:
        """The plain function."""
        return np.where(x < 0, slope * x, x)

    def softplus(self, x: Array) -> Array:
        """log(1 + exp(x)): above 0 also where float64 has no smaller number."""
        out: Array = np.maximum(np.logaddexp(0.0, x), np.nextafter(0.0, 1.0))
        return out

    def where_negative(self, x: Array, below: Any, above: Any) -> Array:
        """Selection by sign."""
        chosen: Array = np.where(x < 0, below, above)
        return chosen

    def tail_mix(self, x: Array, rows: Sequence[TailRow]) -> list[Array]:
        """Linear combinations of the tail's moments."""
        q, i1, j2 = numpy_tail_moments(x)
        return [a + b * q + c * i1 + d * j2 for a, b, c, d in rows]

    def scaled_tail(self, x: Array) -> tuple[Array, Array, Array]:
        """By the fit for float64, or float32."""
        return scaled_tail(self, x, SCALED_FLOAT32 if x.dtype == np.float32 else SCALED_FLOAT64)

    def mills(self, x: Array) -> Sequence[Array]:
        """The tail's moments over exp(-x^2 / 2)."""
        return numpy_mills(x)

    def flatten(self, x: Array) -> Array:
        """One axis behind the batch axis."""
        return x.reshape(len(x), -1)

    def concat(self, xs: Sequence[Array], axis: int) -> Array:
        """Concatenation behind the batch axis."""
        return np.concatenate(xs, axis + 1)

    def halves(self, x: Array) -> tuple[Array, Array]:
        """Both halves of the features."""
        k = x.shape[1] // 2
        return x[:, :k], x[:, k:]


def outer_product(factors: AxisFactors) -> Array:
    """One factor for each position: the product of those along the axes."""
    return reduce(np.multiply.outer, (np.array(along) for along in factors))


def _spatial_axes(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _windows(x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """All windows: (N, C, *positions, *kernel)."""
    rank = len(kernel)
    extents = tuple(step * (extent - 1) + 1 for extent, step in zip(kernel, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, extents, axis=_spatial_axes(rank))
    positions = tuple(slice(None, None, jump) for jump in stride)
    taps = tuple(slice(None, None, step) for step in dilation)
    windows: Array = view[(slice(None), slice(None), *positions, *taps)]
    return windows


def _conv(x: Array, weight: Array, geometry: ConvGeometry) -> Array:
    """Each group on its own; the windows contracted with the weights by tensordot."""
    rank = len(geometry.stride)
    padded = np.pad(x, ((0, 0), (0, 0), *((pad, pad) if isinstance(pad, int) else pad for pad in geometry.padding)))
    view = _windows(padded, weight.shape[2:], geometry.stride, geometry.dilation)
    taps = _spatial_axes(rank)
    groups = zip(np.split(view, geometry.groups, axis=1), np.split(weight, geometry.groups), strict=True)
    outs = [np.tensordot(part, kernel, axes=((1, *taps), (1, *taps))) for part, kernel in groups]
    return np.moveaxis(np.concatenate(outs, axis=-1), -1, 1)


def _conv_transposed(x: Array, weight: Array, geometry: TransposedGeometry) -> Array:
    """Each tap adds the whole input, scaled, at the places it reaches; what `padding` cuts off is computed too."""
    kernel, groups = weight.shape[2:], geometry.groups
    sizes, steps = geometry.sizes(x.shape[2:], kernel), tuple(zip(geometry.stride, geometry.dilation, strict=True))
    uncut = [size + 2 * cut for size, cut in zip(sizes, geometry.padding, strict=True)]
    whole = np.zeros((len(x), weight.shape[1] * groups, *uncut))
    parts = tuple(zip(np.split(x, groups, axis=1), np.split(weight, groups), strict=True))
    for tap in np.ndindex(*kernel):
        added = [np.tensordot(part, one[(..., *tap)], axes=((1,), (0,))) for part, one in parts]
        axes = zip(tap, x.shape[2:], steps, strict=True)
        places: Any = [slice(k * step, k * step + (n - 1) * jump + 1, jump) for k, n, (jump, step) in axes]
        whole[(..., *places)] += np.moveaxis(np.concatenate(added, axis=-1), -1, 1)
    kept: Any = [slice(cut, cut + size) for cut, size in zip(geometry.padding, sizes, strict=True)]
    inside: Array = whole[(..., *kept)]
    return inside


NUMPY = NumpyNamespace()


def evaluate(graph: Graph, mean: Any, var: Any = None) -> dict[str, Any]:
    """Every value of the graph by name, for a batch of inputs, in float64.

    Inputs without a variance are known: each operator takes its form for known values, as exported graphs do. Moments
    of variance zero would be another network where there is a clamp.
    """
    mean = np.asarray(mean, dtype=np.float64)
    graph = in_form(graph, var is not None)
    known = not graph.input.random
    values: dict[str, Any] = {INPUT: mean if known else Moments(mean, np.asarray(var, dtype=np.float64))}
    for node in graph.nodes:
        inputs = [values[name] for name in node.inputs]
        out = evaluate_node(node, inputs)
        values[node.name] = out if node.inputs else np.broadcast_to(out, (len(mean), *out.shape))
    return values


def in_form(graph: Graph, random: bool) -> Graph:
    """The graph with the forms for a known input if that is not `random`; one made for a known input stays."""
    return rebuild(graph, graph.nodes, random=False) if graph.input.random and not random else graph


def evaluate_node(node: Node, inputs: Sequence[Any]) -> Any:
    """One operator on a batch of values."""
    return ops.find(node.op).formula(NUMPY, *inputs, **node.params, **node.attrs)


def predict(graph: Graph, mean: Any, var: Any = None, values: dict[str, Any] | None = None) -> Moments[Array]:
    """The graph's result for a batch of inputs; a point has variance zero. `values`: what `evaluate` gave."""
    out = (values or evaluate(graph, mean, var))[graph.output]
    batch = (len(mean), *graph.values[graph.output].shape)
    if not isinstance(out, Moments):
        out = Moments(out, np.zeros(batch))
    return Moments(np.broadcast_to(out.mean, batch), np.broadcast_to(out.var, batch))


def classify(graph: Graph, result: Moments[Array]) -> Classes[Array] | None:
    """What the graph's head makes of its result, or None without a head."""
    return None if graph.head is None else find_head(graph.head).formula(NUMPY, result)
