"""Convolutions computed some rows at a time, so that the map between them and what follows never exists as a whole.

Behind a convolution there may stand operators on single elements, then a pool whose windows share no rows, or a sum
with another value, which then is overwritten. NAME_predict makes the calls of such layers in one loop over bands of
rows: the convolution writes a band into a buffer, and the last layer leaves it for the place of the result. Every
element is computed by the same kernel from the same numbers, so its bits are those of layer after layer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from lbnn import ops
from lbnn.exporters.c.program import Call, Emission, LayerCalls, Program
from lbnn.exporters.c.rank1 import kernel_of, scratch_of
from lbnn.exporters.c.shapes import convolution_shape
from lbnn.graph import Graph, Node
from lbnn.graph.plan import Needs, Plan, plan
from lbnn.ops import Shape
from lbnn.ops.memory import MEAN, VAR

BAND_KERNELS = ("lbnn_conv2d", "lbnn_conv2d_3x3", "lbnn_conv2d_patch")
"""Convolutions that take the rows they compute from the shape alone, also if their padding is negative."""

BAND_POOLS = ("avg_pool", "max_pool")

GAP_POOLS = ("avg_pool",)
"""Pools that can leave a gap between the planes of their result, so that one call computes a band of all channels."""


@dataclass(frozen=True)
class Band:
    """Layers of one loop: the `inner` ones, a convolution first, and the last.

    Each of `times` bands has `rows` rows of the convolution, `step` further down than those of the band before, and
    `results` rows of the last layer.
    """

    inner: tuple[str, ...]
    last: str
    rows: int
    step: int
    results: int
    times: int

    def higher(self) -> Iterator[Band]:
        """Bands of as many rows of the result as its height has divisors, the highest first, but not all at once."""
        for results in range(self.times // 2, 1, -1):
            if self.times % results == 0:
                rows, step = self.rows + (results - 1) * self.step, results * self.step
                yield replace(self, rows=rows, step=step, results=results, times=self.times // results)

    def shape_of(self, name: str, shape: Shape) -> Shape:
        """A value's shape in one band."""
        return (shape[0], self.results if name == self.last else self.rows, shape[2])


def plan_bands(
    graph: Graph, scratch: Mapping[str, int], ahead: Mapping[str, int], small: Collection[str]
) -> tuple[Plan, list[Band]]:
    """The smallest plan, and the bands without which it would be larger."""
    chosen = list(_candidates(graph, small))
    best, least = plan(graph, scratch, needs=Needs(ahead=ahead)), _planned(graph, scratch, ahead, chosen)
    if least.size >= best.size:
        return best, []
    for band in tuple(chosen):
        fewer = [other for other in chosen if other is not band]
        found = _planned(graph, scratch, ahead, fewer)
        if found.size <= least.size:
            chosen, least = fewer, found
    return _heightened(graph, scratch, ahead, chosen, least)


def _heightened(
    graph: Graph, scratch: Mapping[str, int], ahead: Mapping[str, int], bands: list[Band], least: Plan
) -> tuple[Plan, list[Band]]:
    """Fewer and higher bands, which take fewer calls, where memory is left for them."""
    for number in range(len(bands)):
        for higher in bands[number].higher():
            others = [*bands[:number], higher, *bands[number + 1 :]]
            found = _planned(graph, scratch, ahead, others)
            if found.size <= least.size:
                bands, least = others, found
                break
    return least, bands


def _planned(graph: Graph, scratch: Mapping[str, int], ahead: Mapping[str, int], bands: Sequence[Band]) -> Plan:
    """A plan in which each loop has a buffer beside its last layer, for bands and for the convolution's scratch."""
    reads = {band.last: graph.by_name[band.inner[0]].inputs for band in bands}
    needs = Needs(words=dict.fromkeys(_inner(bands), 0), reads=reads, ahead=ahead)
    buffers = {band.last: 2 * _length(band, graph) + _beside(band, graph) for band in bands}
    others = {name: count for name, count in scratch.items() if name not in needs.words}
    found = plan(graph, {**others, **buffers}, needs=needs)
    places, beside = dict(found.places), dict(found.scratch)
    for band in bands:
        start, length = beside.pop(band.last), _length(band, graph)
        variances, behind = (replace(start, offset=start.offset + count * length) for count in (1, 2))
        places |= {(name, part): at for name in band.inner for part, at in ((MEAN, start), (VAR, variances))}
        beside |= {band.inner[0]: behind} if band.inner[0] in scratch else {}
    return replace(found, places=places, scratch=beside)


def _inner(bands: Sequence[Band]) -> list[str]:
    return [name for band in bands for name in band.inner]


def _length(band: Band, graph: Graph) -> int:
    """Floats of a band of the convolution, of means alone."""
    return prod(band.shape_of(band.inner[0], graph.values[band.inner[0]].shape))


def _beside(band: Band, graph: Graph) -> int:
    """Floats that the convolution needs beside a band."""
    conv = graph.by_name[band.inner[0]]
    return scratch_of(conv, convolution_shape(conv, graph), band.rows)


def _candidates(graph: Graph, small: Collection[str]) -> Iterator[Band]:
    """Every loop that could be; its layers stand one behind the other, and nothing else reads their values."""
    readers = [name for node in graph.nodes for name in node.inputs] + [graph.output]
    for start, conv in enumerate(graph.nodes):
        if not _bandable(conv, graph) or conv.name in small:
            continue
        inner = [conv]
        for node in graph.nodes[start + 1 :]:
            if readers.count(inner[-1].name) != 1 or inner[-1].name not in node.inputs:
                break
            if node.op in (*BAND_POOLS, "add"):
                yield from _ended(tuple(each.name for each in inner), node, graph)
            if not _on_elements(node, graph):
                break
            inner.append(node)


def _bandable(node: Node, graph: Graph) -> bool:
    """A convolution of planes by a kernel that can compute rows alone."""
    planes = ops.find(node.op).general == "conv" and len(graph.values[node.name].shape) == 3
    return planes and kernel_of(node, convolution_shape(node, graph)) in BAND_KERNELS


def _on_elements(node: Node, graph: Graph) -> bool:
    """Whether it computes each element in its place, from nothing but numbers that all rows share."""
    arrays = [param for param in node.params.values() if isinstance(param, np.ndarray)]
    shared = all(param.ndim < 2 or param.shape[-2] == 1 for param in arrays)
    kept = graph.values[node.name].shape == graph.values[node.inputs[0]].shape
    return ops.find(node.op).memory.in_place == (0,) and len(node.inputs) == 1 and kept and shared


def _ended(inner: tuple[str, ...], last: Node, graph: Graph) -> Iterator[Band]:
    """The band that ends with `last`, if it can."""
    height, results = (graph.values[name].shape[1] for name in (inner[0], last.name))
    if last.op == "add" and last.inputs[0] != last.inputs[1] and height > 1:
        yield Band(inner, last.name, 1, 1, 1, height)
    if last.op in BAND_POOLS and results > 1 and not any(last.attrs["padding"]):
        kernel, stride = last.attrs["kernel_size"][0], last.attrs["stride"][0]
        span = (last.attrs.get("dilation", (1,))[0]) * (kernel - 1) + 1
        if span <= stride and (results - 1) * stride + span <= height:
            yield Band(inner, last.name, span, stride, 1, results)


@dataclass(frozen=True)
class BandCall(Call):
    """A call inside of a loop over bands: the first opens it, the last closes it."""

    opening: str = ""
    closing: str = ""

    def __str__(self) -> str:
        return f"{self.opening}{super().__str__()}{self.closing}"


class BandEmission(Emission):
    """An emission in which some layers share a loop over bands."""

    bands: Mapping[str, Band] = {}
    current: Node | None = None  # whose calls in a loop are made

    def _layer(self, node: Node) -> LayerCalls:
        band = self.bands.get(node.name)
        self.current = None if band is None else node
        made = super()._layer(node)
        self.current = None
        return made if band is None else replace(made, calls=tuple(self._looped(node, band, made.calls)))

    def shape(self, name: str) -> Shape:
        """The shape of a value; of what a call in a loop computes of it: a band, or one channel of that."""
        shape, node = super().shape(name), self.current
        if node is None or self.bands.get(name) is not self.bands[node.name]:
            return shape
        shape = self.bands[name].shape_of(name, shape)
        return (1, *shape[1:]) if node.name == self.bands[name].last and node.op not in GAP_POOLS else shape

    def gap(self, name: str) -> int:
        """Elements between the planes of what a call computes of a value: in a loop the rows of all other bands."""
        return prod(super().shape(name)[1:]) - prod(self.shape(name)[1:]) if name in self.bands else 0

    def _looped(self, node: Node, band: Band, calls: Sequence[Call]) -> list[Call]:
        """The calls of one layer for every band."""
        if node.name == band.inner[0]:
            return [_opened(calls[0], band)]
        return list(calls) if node.name != band.last else [self._ending(node, band, calls[0])]

    def _ending(self, node: Node, band: Band, made: Call) -> BandCall:
        """The last layer's call, for all channels or for each: from the buffer to the rows of the result."""
        channels, _, width = self.shape(band.inner[0])
        times = 1 if node.op in GAP_POOLS else channels
        step = f" + {band.rows * width} * i" if times > 1 else ""
        buffer = [f"{self.at(band.inner[0], part)}{step}" for part in (MEAN, VAR)]
        others = [self._rows(name, band, times) for name in node.inputs if name != band.inner[-1]]
        arrays = (*buffer, *(pointer for pair in others for pointer in pair), *self._rows(node.name, band, times))
        return BandCall(made.kernel, (*arrays, *made.arguments[len(arrays) :]), times, closing=" }")

    def _rows(self, name: str, band: Band, times: int) -> list[str]:
        """Pointers to the rows of a band, in channel i if there is a call for each."""
        _, height, width = self.shape(name)
        offset = f"{height * width} * i + " if times > 1 else ""
        return [f"{self.at(name, part)} + {offset}{_times(band.results * width)}band" for part in (MEAN, VAR)]


def _times(number: int) -> str:
    """A factor, where it is one."""
    return f"{number} * " if number != 1 else ""


def _opened(made: Call, band: Band) -> BandCall:
    (shape,) = (argument for argument in made.arguments if argument.startswith("&"))
    rows = f"const lbnn_conv_shape rows = lbnn_conv_band({shape}, {_times(band.step)}band, {band.rows});"
    opening = f"for (int band = 0; band < {band.times}; band++) {{ {rows} "
    arguments = tuple("&rows" if argument == shape else argument for argument in made.arguments)
    return BandCall(made.kernel, arguments, made.times, opening)


def loops_of(program: Program) -> int:
    """How many loops over bands a program has."""
    calls = (each for layer in program.layers for each in layer.calls)
    return sum(isinstance(each, BandCall) and bool(each.opening) for each in calls)
