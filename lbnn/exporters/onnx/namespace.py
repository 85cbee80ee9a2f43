"""The formulas over ONNX symbols: every function writes the nodes that compute it.

On onnxruntime a small network's time is its number of nodes, so each function here uses as few as it can.
docs/onnx.md gives the measurements behind the choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.exporters.onnx.rows import gather_rows
from lbnn.exporters.onnx.symbols import BATCH, Extents, Recorder, Symbol, broadcast
from lbnn.exporters.onnx.terms import TINY, Term, live_terms, lowest_sum
from lbnn.exporters.onnx.transposed import transposed_attributes
from lbnn.graph.reference import outer_product
from lbnn.ops import AxisFactors, ConvGeometry, Shape, TailRow, TransposedGeometry, Window
from lbnn.ops.mills import mills_by_quadrature
from lbnn.ops.tail import NARROW_FLOAT32, TAIL_NODES, TAIL_WEIGHTS
from lbnn.ops.tail_scaled import SCALED_FLOAT32, scaled_tail


class OnnxNamespace:
    """Implements `lbnn.ops.Namespace`."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def linear(self, bias: Any, *terms: Term) -> Symbol:
        """On vectors a chain of Gemm, each taking up the result of the one before; otherwise products and sums."""
        (x, weight), *_ = terms
        out = Symbol(self.recorder, "", (*x.shape[:-1], len(weight)), low=lowest_sum(terms, bias))
        if len(x.shape) > 2:
            products = [out.like(self._product("MatMul", x, weight.T, None)) for x, weight in live_terms(terms)]
            shifted: Symbol = sum(products[1:], start=products[0]) + bias
            return replace(shifted, low=out.low)
        so_far = self._vector(bias, len(weight))
        for x, weight in live_terms(terms):
            so_far = self._product("Gemm", x, weight, so_far, transB=1)
        return out.like(so_far or "")

    def conv(self, geometry: ConvGeometry, bias: Any, *terms: Term) -> Symbol:
        """Parallel convolutions, then a sum."""
        (x, weight), *_ = terms
        extents = zip(x.shape[2:], weight.shape[2:], geometry.stride, geometry.padding, geometry.dilation, strict=True)
        spatial = [(int(size) + 2 * pad - step * (k - 1) - 1) // jump + 1 for size, k, jump, pad, step in extents]
        pads = list(geometry.padding * 2)
        return self._convolved("Conv", (len(weight), *spatial), geometry, bias, terms, pads=pads)

    def conv_transposed(self, geometry: TransposedGeometry, bias: Any, *terms: Term) -> Symbol:
        """The same of ConvTranspose."""
        (x, weight), *_ = terms
        shape = weight.shape[1] * geometry.groups, *geometry.sizes(tuple(map(int, x.shape[2:])), weight.shape[2:])
        added, attributes = transposed_attributes(geometry)
        if any(added):
            terms = tuple((self.pad(x, tuple((0, more) for more in added)), weight) for x, weight in terms)
        return self._convolved("ConvTranspose", shape, geometry, bias, terms, **attributes)

    def _convolved(
        self, op: str, shape: Shape, geometry: Any, bias: Any, terms: Sequence[Term], **attributes: Any
    ) -> Symbol:
        kernel, strides = list(terms[0][1].shape[2:]), list(geometry.stride)
        attributes = {"kernel_shape": kernel, "strides": strides, **attributes}
        attributes |= {"dilations": list(geometry.dilation), "group": geometry.groups}
        out = Symbol(self.recorder, "", (BATCH, *shape), low=lowest_sum(terms, bias))
        biases = [self._vector(bias, shape[0]), *[None] * len(terms)]
        convolved = [
            out.like(self._product(op, x, weight, start, **attributes))
            for (x, weight), start in zip(live_terms(terms), biases, strict=False)
        ]
        return replace(sum(convolved[1:], start=convolved[0]), low=out.low)

    def window_mean(self, x: Symbol, window: Window) -> Symbol:
        """AveragePool that counts its padding, so that every window has one divisor.

        onnxruntime merges a Pad with the pool behind it even where the kernel is smaller than the padding, which it
        then refuses. Behind a Pad a convolution with ones takes the pool's place.
        """
        before, after = zip(*window.padding, strict=True)
        attributes: dict[str, Any] = dict(kernel_shape=list(window.kernel), strides=list(window.stride))
        attributes |= dict(pads=[*before, *after]) if any(before + after) else {}
        axes = zip(x.shape[2:], window.kernel, window.stride, window.padding, strict=True)
        spatial = [(int(size) + sum(pads) - extent) // jump + 1 for size, extent, jump, pads in axes]
        out = replace(x, shape=(*x.shape[:2], *spatial), low=min(x.low, 0.0))
        if self.recorder.maker(x.name) == "Pad":
            channels = int(x.shape[1])
            ones = self.recorder.constant(np.ones((channels, 1, *window.kernel)))
            total = out.like(self.recorder.node("Conv", [x.name, ones], group=channels, **attributes))
            return total * (1.0 / window.size)
        return out.like(self.recorder.node("AveragePool", [x.name], count_include_pad=1, **attributes))

    def scale(self, x: Symbol, factors: AxisFactors) -> Symbol:
        """Known factors."""
        return x * outer_product(factors)

    def window_max(self, x: Symbol, window: Window, dilation: Shape, outside: float) -> Symbol:
        """MaxPool, which knows what lies outside; a positive factor stays behind it."""
        if any(d * (k - 1) >= int(n) for n, k, d in zip(x.shape[2:], window.kernel, dilation, strict=True)):
            bare = replace(window, padding=((0, 0),) * len(dilation))  # not every runtime pads before it looks
            return self.window_max(self.pad(x, window.padding, outside), bare, dilation, outside)
        before, after = zip(*window.padding, strict=True)
        source = Symbol(self.recorder, x.tensor(), x.shape) if x.factor <= 0.0 else x
        attributes: dict[str, Any] = dict(kernel_shape=list(window.kernel), strides=list(window.stride))
        attributes |= dict(pads=[*before, *after]) if any(before + after) else {}
        attributes |= dict(dilations=list(dilation)) if set(dilation) != {1} else {}
        axes = zip(x.shape[2:], window.kernel, window.stride, window.padding, dilation, strict=True)
        spatial = [(int(size) + sum(pads) - step * (k - 1) - 1) // jump + 1 for size, k, jump, pads, step in axes]
        return source.like(self.recorder.node("MaxPool", [source.name], **attributes), (*x.shape[:2], *spatial))

    def every(self, x: Symbol, axis: int, start: int, step: int, count: int) -> Symbol:
        """Slice, unless that is everything."""
        at = len(x.shape) + axis
        if start == 0 and step == 1 and count == x.shape[at]:
            return x
        limits = [self.recorder.integers(n) for n in (start, start + step * (count - 1) + 1, axis, step)]
        name = self.recorder.node("Slice", [x.name, *limits])
        return x.like(name, (*x.shape[:at], count, *x.shape[at + 1 :]))

    def pad(self, x: Symbol, padding: tuple[tuple[int, int], ...], value: float = 0.0) -> Symbol:
        """A number around; zero, the default, has no factor."""
        before, after = zip(*padding, strict=True)
        source = x if value == 0.0 else Symbol(self.recorder, x.tensor(), x.shape, low=x.low)
        operands = [source.name, self.recorder.integers(0, 0, *before, 0, 0, *after)]
        name = self.recorder.node("Pad", operands if value == 0.0 else [*operands, self.recorder.constant(value)])
        spatial = [int(size) + sum(pair) for size, pair in zip(x.shape[2:], padding, strict=True)]
        return replace(source, name=name, shape=(*x.shape[:2], *spatial), low=min(x.low, value))

    def repeat(self, x: Symbol, factors: Shape) -> Symbol:
        """Resize that takes the element before."""
        scales = self.recorder.constant(np.array((1.0, 1.0, *factors)))
        how = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        name = self.recorder.node("Resize", [x.name, "", scales], **how)
        spatial = [int(size) * factor for size, factor in zip(x.shape[2:], factors, strict=True)]
        return replace(x, name=name, shape=(*x.shape[:2], *spatial))

    def sqrt(self, x: Symbol) -> Symbol:
        """Square root."""
        source, factor = (x.name, x.factor) if x.factor > 0.0 else (x.tensor(), 1.0)
        name = self.recorder.node("Sqrt", [source])
        return Symbol(self.recorder, name, x.shape, factor**0.5, max(x.low, 0.0) ** 0.5)

    def abs(self, x: Symbol) -> Symbol:
        """Absolute value."""
        return Symbol(self.recorder, self.recorder.node("Abs", [x.name]), x.shape, abs(x.factor), 0.0)

    def ratio(self, x: Symbol, sigma: Symbol) -> Symbol:
        """x / sigma, and 0 for 0/0; where sigma is known to be positive nothing guards it."""
        if sigma.low > TINY:
            return x / sigma
        guarded = self.recorder.node("Add", [sigma.name, self.recorder.constant(TINY)])
        return x / sigma.like(guarded)

    def minimum(self, x: Symbol, bound: float) -> Symbol:
        """The smaller one."""
        return replace(x, name=self.recorder.node("Min", [x.tensor(), self.recorder.constant(bound)]), factor=1.0)

    def maximum(self, x: Symbol, bound: float) -> Symbol:
        """The larger one."""
        name = self.recorder.node("Max", [x.tensor(), self.recorder.constant(bound)])
        return replace(x, name=name, factor=1.0, low=max(x.low, bound))

    def between(self, x: Symbol, low: float, high: float) -> Symbol:
        """x between two numbers."""
        if np.inf in (high, -low):
            return self.maximum(x, low) if high == np.inf else self.minimum(x, high)
        operands = [x.tensor(), self.recorder.constant(low), self.recorder.constant(high)]
        return replace(x, name=self.recorder.node("Clip", operands), factor=1.0, low=min(max(x.low, low), high))

    def narrow(self, x: Symbol) -> float:
        """Of float32."""
        return NARROW_FLOAT32

    def exp(self, x: Symbol) -> Symbol:
        """Exponential."""
        return Symbol(self.recorder, self.recorder.node("Exp", [x.tensor()]), x.shape, low=0.0)

    def expm1(self, x: Symbol) -> Symbol:
        """e^x - 1 = (e^x + 1) tanh(x / 2)."""
        return (self.exp(x) + 1.0) * self.tanh(x * 0.5)

    def log(self, x: Symbol) -> Symbol:
        """Logarithm."""
        return Symbol(self.recorder, self.recorder.node("Log", [x.tensor()]), x.shape)

    def normal_cdf(self, x: Symbol) -> Symbol:
        """(1 + erf(x / sqrt 2)) / 2."""
        scaled = x * float(np.sqrt(0.5))
        return (Symbol(self.recorder, self.recorder.node("Erf", [scaled.tensor()]), x.shape) + 1.0) * 0.5

    def sum_last(self, x: Symbol) -> Symbol:
        """Sum along the last axis."""
        name = self.recorder.node("ReduceSum", [x.name, self.recorder.integers(-1)], keepdims=1)
        return Symbol(self.recorder, name, (*x.shape[:-1], 1), x.factor)

    def max_last(self, x: Symbol) -> Symbol:
        """Largest along the last axis."""
        return self._extreme(x, largest=1)

    def min_last(self, x: Symbol) -> Symbol:
        """Smallest along the last axis."""
        return self._extreme(x, largest=0)

    def _extreme(self, x: Symbol, largest: int) -> Symbol:
        """By TopK: ReduceMax and ReduceMin take their axes in one way up to opset 17 and in another above."""
        source, one = x.tensor(), self.recorder.integers(1)
        found, _ = self.recorder.split_node("TopK", [source, one], 2, axis=-1, largest=largest)
        return Symbol(self.recorder, found, (*x.shape[:-1], 1))

    def drop_last(self, x: Symbol) -> Symbol:
        """Without the last axis."""
        return x.like(self.recorder.node("Squeeze", [x.name, self.recorder.integers(-1)]), x.shape[:-1])

    def knots(self, x: Symbol, numbers: tuple[float, ...]) -> Symbol:
        """x times each number, along a new axis."""
        name = self.recorder.node("Unsqueeze", [x.name, self.recorder.integers(1)])
        apart = x.like(name, (x.shape[0], 1, *x.shape[1:]))
        return apart if numbers == (1.0,) else apart * np.array(numbers)[:, None]

    def sum_knots(self, x: Symbol) -> Symbol:
        """Sum along that axis."""
        name = self.recorder.node("ReduceSum", [x.name, self.recorder.integers(1)], keepdims=0)
        return Symbol(self.recorder, name, (x.shape[0], *x.shape[2:]), x.factor)

    def fan(self, x: Symbol, numbers: tuple[float, ...]) -> Symbol:
        """x times each number, along a new last axis."""
        name = self.recorder.node("Unsqueeze", [x.name, self.recorder.integers(-1)])
        return x.like(name, (*x.shape, 1)) * np.array(numbers)

    def shifts(self, x: Symbol, numbers: tuple[float, ...]) -> Symbol:
        """x plus each number, along a new last axis."""
        return self.fan(x, (1.0,)) + np.array(numbers)

    def mix(self, x: Symbol, rows: Array) -> Symbol:
        """Weighted sums along the last axis, by one MatMul."""
        name = self._product("MatMul", x, rows.T, None)
        return Symbol(self.recorder, name, (*x.shape[:-1], len(rows)))

    def cells(self, x: Symbol, rows: Array) -> tuple[list[Symbol], Symbol]:
        """A row for each element."""
        return gather_rows(x, rows)

    def tanh(self, x: Symbol) -> Symbol:
        """Hyperbolic tangent."""
        return Symbol(self.recorder, self.recorder.node("Tanh", [x.tensor()]), x.shape)

    def leaky_relu(self, x: Symbol, slope: float) -> Symbol:
        """The plain function; a positive factor stays outside."""
        if slope == 1.0:
            return x
        source = x if x.factor > 0.0 else Symbol(self.recorder, x.tensor(), x.shape)
        if slope == 0.0:
            return replace(source, name=self.recorder.node("Relu", [source.name]), low=max(x.low, 0.0))
        return source.like(self.recorder.node("LeakyRelu", [source.name], alpha=slope))

    def softplus(self, x: Symbol) -> Symbol:
        """log(1 + exp(x)); runtimes compute it accurately for very negative x too."""
        return Symbol(self.recorder, self.recorder.node("Softplus", [x.tensor()]), x.shape, low=0.0)

    def where_negative(self, x: Symbol, below: Any, above: Any) -> Any:
        """Selection by sign."""
        if not isinstance(below, Symbol) and not isinstance(above, Symbol) and below == above:
            return below
        negative = self.recorder.node("Less", [x.tensor(), self.recorder.constant(0.0)])
        branches = [b.tensor() if isinstance(b, Symbol) else self.recorder.constant(b) for b in (below, above)]
        shape = x.shape
        for branch in (below, above):
            shape = broadcast(shape, branch.shape) if isinstance(branch, Symbol) else shape
        return Symbol(self.recorder, self.recorder.node("Where", [negative, *branches]), shape)

    def tail_mix(self, x: Symbol, rows: Sequence[TailRow]) -> list[Any]:
        """Quadrature: exponentials on a new leading axis, all elements in the other, mixed by one Gemm.

        exp(-(x + t)^2 / 2) = exp(x (-x/2 - t)) exp(-t^2 / 2); the last factor goes into the weights.
        """
        y, f = self.recorder.node("Reshape", [x.name, self.recorder.integers(1, -1)]), x.factor
        half = Symbol(self.recorder, y, (1, BATCH), 0.5 * f * f).tensor()  # x = f y, exponent y (-f^2/2 y - f t)
        slopes = self.recorder.node("Sub", [self.recorder.constant(np.multiply(-f, TAIL_NODES)[:, None]), half])
        features = self.recorder.node("Exp", [self.recorder.node("Mul", [y, slopes])])
        shape = x.shape[x.shape.index(BATCH) :]  # without the axis of extent 1 that an earlier mixture left in front
        mixed = iter(self._mix(features, shape, [row for row in rows if any(row[1:])]))
        return [next(mixed) if any(row[1:]) else row[0] for row in rows]

    def _mix(self, features: str, shape: Extents, rows: Sequence[TailRow]) -> list[Symbol]:
        """One symbol for each row, with an axis of extent 1 in front of those of `shape`."""
        if not rows:
            return []
        t, w = np.array(TAIL_NODES), np.array(TAIL_WEIGHTS)
        weight = [w * np.exp(-0.5 * t * t) * (b + c * t + d * t * t) for _, b, c, d in rows]
        bias = self.recorder.constant([[row[0]] for row in rows])
        flat = self.recorder.node("Gemm", [self.recorder.constant(weight), features, bias])
        extents = self.recorder.integers(len(rows), -1, *map(int, shape[1:]))
        table = self.recorder.node("Reshape", [flat, extents])
        ones = self.recorder.integers(*[1] * len(rows))
        parts = self.recorder.split_node("Split", [table, ones], len(rows), axis=0)
        return [Symbol(self.recorder, part, (1, *shape)) for part in parts]

    def scaled_tail(self, x: Symbol) -> tuple[Any, Any, Any]:
        """By the fit for float32."""
        return scaled_tail(self, x, SCALED_FLOAT32)

    def mills(self, x: Symbol) -> Sequence[Symbol]:
        """By exponentials and one MatMul."""
        return mills_by_quadrature(self, x)

    def flatten(self, x: Symbol) -> Symbol:
        """One axis behind the batch axis."""
        if len(x.shape) == 2:
            return x
        size = int(np.prod([int(extent) for extent in x.shape[1:]]))
        return x.like(self.recorder.node("Flatten", [x.name], axis=1), (BATCH, size))

    def concat(self, xs: Sequence[Any], axis: int) -> Symbol:
        """Concatenation behind the batch axis; known values are repeated for each sample."""
        one = next(x for x in xs if isinstance(x, Symbol))
        symbols = [x if isinstance(x, Symbol) else self.repeated(x, one) for x in xs]
        same = all(x.factor == one.factor for x in symbols)
        name = self.recorder.node("Concat", [x.name if same else x.tensor() for x in symbols], axis=axis + 1)
        extents = list(one.shape)
        extents[axis + 1] = sum(int(x.shape[axis + 1]) for x in symbols)
        low = min(x.low for x in symbols)
        return Symbol(self.recorder, name, tuple(extents), one.factor if same else 1.0, low)

    def repeated(self, value: Array, like: Symbol) -> Symbol:
        """A constant, its batch axis of extent 1, repeated as often as `like` has samples."""
        extents = self.recorder.node("Shape", [like.name])  # its `end` came with opset 15
        batch = self.recorder.node("Gather", [extents, self.recorder.integers(0)], axis=0)
        shape = self.recorder.node("Concat", [batch, self.recorder.integers(*value.shape[1:])], axis=0)
        name = self.recorder.node("Expand", [self.recorder.constant(value), shape])
        return Symbol(self.recorder, name, (BATCH, *value.shape[1:]), low=float(value.min()))

    def halves(self, x: Symbol) -> tuple[Symbol, Symbol]:
        """Both halves of the features."""
        k = int(x.shape[1]) // 2
        first, second = self.recorder.split_node("Split", [x.name, self.recorder.integers(k, k)], 2, axis=1)
        shape = (BATCH, k, *x.shape[2:])
        return x.like(first, shape), x.like(second, shape)

    def _vector(self, bias: Any, length: int) -> str | None:
        """A bias as one number per channel, or None for zeros."""
        return self.recorder.constant(np.broadcast_to(bias, length)) if np.any(bias) else None

    def _product(self, op: str, x: Symbol, weight: Array, start: str | None, **attributes: Any) -> str:
        """x times a weight, which takes up x's factor, plus `start`."""
        operands = [x.name, self.recorder.constant(weight * x.factor)]
        return self.recorder.node(op, operands if start is None else [*operands, start], **attributes)
