"""The integer reference: a graph in numpy integers, which integer C equals bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Floats
from lbnn.graph.graph import INPUT, Graph, Node
from lbnn.graph.ints import conv, ends, kernels, others
from lbnn.graph.ints.chains import Chain, max_window, pool_window, two
from lbnn.graph.ints.fixed import Whole
from lbnn.graph.ints.known import is_written, with_variances
from lbnn.graph.ints.maps import Windows, channels_last, level, pixel_places
from lbnn.graph.ints.max_pool import int_max_pool
from lbnn.graph.ints.study import Study, elementwise, study
from lbnn.graph.ints.tables import tail_table
from lbnn.graph.ints.values import Narrow, Wide

AnyValue = Wide | Narrow

LARGEST_ARRAY = 1 << 23
"""Of an array that is made on the way."""


@dataclass(frozen=True)
class IntegerResult:
    """What NAME_predict gives for a batch: float32 [n, outputs], and where a result was beyond float."""

    mean: Floats
    var: Floats
    saturated: Any


def predict_integers(graph: Graph, mean_bits: int, mean: Any, var: Any = None) -> IntegerResult:
    """A prepared graph for inputs [n, *shape] of float32; `mean_bits` is 8 or 12."""
    graph = with_variances(graph)
    facts = study(graph, mean_bits)
    inputs = tuple(None if part is None else ends.float_bits(part).reshape(len(mean), -1) for part in (mean, var))
    starts = range(0, len(mean), _batch(facts)) or (0,)
    parts = [_predict(graph, facts, inputs, slice(start, start + _batch(facts))) for start in starts]
    whole = (np.concatenate(part) for part in zip(*parts, strict=True))
    return IntegerResult(ends.from_bits(next(whole)), ends.from_bits(next(whole)), next(whole))


def _batch(facts: Study) -> int:
    """Samples at once: windows of all pixels of a layer have to fit memory."""
    largest = max((each.window.pixels * each.length for each in facts.conv.values()), default=1)
    return max(1, LARGEST_ARRAY // largest)


def _predict(graph: Graph, facts: Study, inputs: tuple[Whole | None, ...], rows: slice) -> tuple[Whole, Whole, Any]:
    given = tuple(None if part is None else part[rows] for part in inputs)
    values: dict[str, AnyValue] = {}
    for node in graph.nodes:
        if node.name not in facts.inner:
            values[node.name] = _Step(graph, facts, given, values).run(node)
    out = values[graph.output]
    wide = out if isinstance(out, Wide) else kernels.widen(out)
    return ends.emit(_in_torch_order(wide, facts.orders[graph.output]), facts.units)


def _in_torch_order(x: Wide, order: Whole | None) -> Wide:
    if order is None:
        return x
    back = np.argsort(order)
    return Wide(x.mean[:, back], x.mean_exponent, x.var[:, back], x.var_exponent)


@dataclass(frozen=True)
class _Step:
    """One node, with all that it may need."""

    graph: Graph
    facts: Study
    inputs: tuple[Whole | None, ...]
    values: dict[str, AnyValue]

    def run(self, node: Node) -> AnyValue:
        if node.name in self.facts.chains:
            return self._chain(self.facts.chains[node.name])
        general = ops.find(node.op).general
        result: AnyValue = getattr(self, f"_{general}")(node)
        if isinstance(result, Wide) and node.name not in self.facts.wide:
            return kernels.narrow(result, *self.facts.bits[node.name])
        return result

    def _narrow(self, name: str) -> Narrow:
        """A value as layers take it; the input is packed where it is needed."""
        if self.facts.source[name] == INPUT:
            mean, var = self.inputs
            assert mean is not None
            return ends.pack_input(mean, var, *self.facts.bits[name])
        value = self.values[name]
        assert isinstance(value, Narrow)
        return value

    def _as_wide(self, name: str) -> Wide:
        value = self.values[name]
        return value if isinstance(value, Wide) else kernels.widen(value)

    def _chain(self, chain: Chain) -> AnyValue:
        """A convolution and what is computed with it, pixel after pixel."""
        layer, x = self.facts.conv[chain.conv], self._map(chain)
        node, bits = self.graph.by_name[chain.last], self.facts.bits[self.facts.source[chain.last]]
        table = None if chain.leaky is None else self._table(chain.leaky)
        if chain.pool is None:
            sums = conv.int_conv(x, layer, np.arange(layer.window.pixels)[:, None])
            return level(kernels.narrow(sums, *bits, table), len(x.mean))
        window, _ = pool_window(node, self.graph)
        sums = conv.int_conv(x, layer, pixel_places(window))
        block = conv.pixels_of(kernels.narrow(sums, *conv.MIDDLE, table), window.taps)
        row = (1, window.taps)
        alone = Windows(window.channels, row, (1, 1), row, row, (0, 0))
        wide = conv.int_pool(block, alone, np.array([window.taps]), node.op == "avg_pool_correlated")
        return level(kernels.narrow(wide, *bits), len(x.mean))

    def _map(self, chain: Chain) -> Narrow:
        """What a chain reads, as maps are laid out; the input is packed where it is needed."""
        if chain.source != INPUT or self.graph.by_name[chain.conv].op.startswith("linear"):
            return self._narrow(chain.source)
        mean, var = (self._last(part) for part in self.inputs)
        assert mean is not None
        return ends.pack_input(mean, var, *self.facts.bits[INPUT])

    def _last(self, part: Whole | None) -> Whole | None:
        order = channels_last(self.graph.input.shape)
        return part if part is None or order is None else part[:, order]

    def _table(self, name: str) -> Whole:
        return tail_table(self.graph.by_name[name].attrs["negative_slope"])

    def _pooled(self, node: Node, pixels: Narrow, samples: int) -> Narrow:
        window, counts = pool_window(node, self.graph)
        wide = conv.int_pool(pixels, window, counts, node.op == "avg_pool_correlated")
        return level(kernels.narrow(wide, *self.facts.bits[self.facts.source[node.name]]), samples)

    def _avg_pool(self, node: Node) -> AnyValue:
        window, _ = pool_window(node, self.graph)
        x = self._narrow(node.inputs[0])
        return self._pooled(node, conv.pixels_of(x, window.in_pixels), len(x.mean))

    _avg_pool_correlated = _avg_pool

    def _max_pool(self, node: Node) -> AnyValue:
        x = self._narrow(node.inputs[0])
        wide = int_max_pool(x, max_window(node, self.graph))
        return level(kernels.narrow(wide, *self.facts.bits[self.facts.source[node.name]]), len(x.mean))

    def _upsample(self, node: Node) -> AnyValue:
        return upsampled(self._narrow(node.inputs[0]), node, self.graph)

    def _pad(self, node: Node) -> AnyValue:
        """Convolutions pad what they read."""
        x = self._narrow(node.inputs[0])
        return padded(x, node, self.graph) if is_written(node, self.graph) else x

    def _lift(self, node: Node) -> AnyValue:
        return self._narrow(node.inputs[0])

    def _linear(self, node: Node) -> AnyValue:
        return kernels.int_linear(self._narrow(node.inputs[0]), self.facts.linear[node.name])

    def _leaky_relu(self, node: Node) -> AnyValue:
        table, bits = self._table(node.name), self.facts.bits[self.facts.source[node.name]]
        if node.name in self.facts.maps:
            return conv.chunk_leaky(self._narrow(node.inputs[0]), table, bits)
        return kernels.narrow(self._as_wide(node.inputs[0]), *bits, table)

    def _affine(self, node: Node) -> AnyValue:
        bits = self.facts.bits[self.facts.source[node.name]]
        if self.facts.source[node.inputs[0]] != INPUT:
            if node.name in self.facts.maps:
                x, rows = self._narrow(node.inputs[0]), self.facts.affine[node.name]
                return conv.pixel_affine(x, rows, x.mean.shape[1] // self.facts.maps[node.name], bits)
            return kernels.int_affine(self._as_wide(node.inputs[0]), self.facts.affine[node.name])
        factor, shift = input_affine(node, self.graph)
        mean, var = self.inputs
        assert mean is not None
        spread = None if var is None else ends.affine_variance_bits(var, factor)
        order = self.facts.orders[node.name]
        parts = (ends.affine_bits(mean, shift, factor), spread)
        placed = [part if part is None or order is None else part[:, order] for part in parts]
        assert placed[0] is not None
        return ends.pack_input(placed[0], placed[1], *bits)

    def _add(self, node: Node) -> AnyValue:
        a, b = (self._narrow(name) for name in node.inputs)
        if node.name in self.facts.maps:
            return conv.chunk_add(a, b, self.facts.bits[self.facts.source[node.name]])
        return others.int_add(a, b)

    def _concat(self, node: Node) -> AnyValue:
        order = concat_order(node, self.graph, self.facts)
        return others.int_concat([self._narrow(name) for name in node.inputs], order)

    def _flatten(self, node: Node) -> AnyValue:
        if self.facts.source[node.name] == INPUT:
            return self._narrow(node.name)
        return self.values[node.inputs[0]]

    def _variance_head(self, node: Node) -> AnyValue:
        return others.int_variance_head(self._as_wide(node.inputs[0]))


def upsampled(x: Narrow, node: Node, graph: Graph) -> Narrow:
    """Each pixel several times."""
    shape = graph.values[node.inputs[0]].shape
    (height, width), factors = two(shape[1:], 1), two(node.attrs["factors"], 1)
    maps = [part.reshape(-1, height, width, shape[0]) for part in (x.mean, x.sigma)]
    for axis, factor in enumerate(factors, start=1):
        maps = [np.repeat(part, factor, axis=axis) for part in maps]
    mean, sigma = (part.reshape(len(x.mean), -1) for part in maps)
    return Narrow(mean, x.mean_exponent, sigma, x.sigma_exponent)


def padded(x: Narrow, node: Node, graph: Graph) -> Narrow:
    """Zeros around a map."""
    shape = graph.values[node.inputs[0]].shape
    (height, width), around = two(shape[1:], 1), two(node.attrs["padding"], (0, 0))
    maps = (part.reshape(-1, height, width, shape[0]) for part in (x.mean, x.sigma))
    mean, sigma = (np.pad(part, ((0, 0), *around, (0, 0))).reshape(len(x.mean), -1) for part in maps)
    return Narrow(mean, x.mean_exponent, sigma, x.sigma_exponent)


def input_affine(node: Node, graph: Graph) -> tuple[Whole, Whole]:
    """Scale s and shift t/s of (x + t/s) s as bit patterns of float32, one for each element."""
    scale, shift = elementwise(node, graph)
    return ends.float_bits(scale), ends.float_bits(shift / scale)


def concat_order(node: Node, graph: Graph, facts: Study) -> Whole:
    """Places of the result's elements among those of all parts, one behind the other."""
    shapes, axis = [graph.values[name].shape for name in node.inputs], node.attrs["axis"]
    if node.name in facts.maps:
        shapes, axis = [(-1, facts.maps[name]) for name in node.inputs], 1
    sizes = [int(np.prod(graph.values[name].shape)) for name in node.inputs]
    starts = np.cumsum([0, *sizes])
    places = [start + np.arange(size).reshape(shape) for start, size, shape in zip(starts, sizes, shapes, strict=False)]
    return np.concatenate(places, axis).reshape(-1)
