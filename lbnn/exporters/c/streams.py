"""NAME_push: the kernel calls that one sample of a stream makes, and the memory that lasts from sample to sample.

The calls are those of the graph of one push (lbnn/graph/stream.py), made by the same emitters as NAME_predict's; nodes
that read the past get the calls of lbnn_stream.h instead. Each call is made with some samples only: its tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lbnn.base.moments import Moments
from lbnn.exporters.c.calls import layer_scratch, small_layers
from lbnn.exporters.c.program import LONGEST_STEP, Call, Emission, LayerCalls, Program, call
from lbnn.exporters.c.shapes import SmallConvShape
from lbnn.graph import INPUT, Graph, Node
from lbnn.graph.graph import rebuild
from lbnn.graph.plan import WORK, Key, Place, plan
from lbnn.graph.stream import Ring, Stream, Tick, make_stream
from lbnn.ops.memory import MEAN, VAR

STATE = "state of the stream"  # no node can have a name with spaces
STREAM_HEADER = "lbnn_stream.h"
RING_KERNELS = ("lbnn_ring_take", "lbnn_ring_read", "lbnn_ring_put", "lbnn_ring_sum", "lbnn_ring_mean")
STREAM_KERNELS = ("lbnn_due", *RING_KERNELS)
EACH = Tick(1, 1)
"""With every sample: what needs no count."""


@dataclass(frozen=True)
class TickedCall(Call):
    """A call that is made with some samples only."""

    tick: Tick = EACH


@dataclass(frozen=True)
class PushProgram:
    """What one sample does: a program of its own with the weights of the window's, its state and its counts."""

    program: Program
    stream: Stream
    state_len: int
    counts: Mapping[Tick, int]  # tick -> where in the state its count lies

    @property
    def sample_len(self) -> int:
        """Numbers of a sample."""
        return self.program.input_len

    @property
    def result_len(self) -> int:
        """Means of one result, and as many variances."""
        return self.program.output_len

    @property
    def work_len(self) -> int:
        """Elements of work memory of a push."""
        return self.program.work_len

    @property
    def replay_len(self) -> int:
        """Elements for the state and the work of a push."""
        return self.state_len + self.work_len

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernel of each call, in order."""
        return (*("lbnn_due" for _ in self.counts), *self.program.kernels)


class PushEmission(Emission):
    """The emission of one push: the input is a sample, and nodes with a ring call those of lbnn_stream.h."""

    geometry_suffix = "_push_shape"
    bases = {WORK: WORK, INPUT: "sample", f"{INPUT}_variance": "sample_variance", STATE: "state"}
    stream: Stream
    places: Mapping[Key, int]

    def _layer(self, node: Node) -> LayerCalls:
        ring = self.stream.rings.get(node.name)
        if ring is None:
            made = super()._layer(node)
            return replace(made, calls=tuple(_ticked(each, self.stream.ticks[node.name]) for each in made.calls))
        shape = " -> ".join("x".join(map(str, shape)) for shape in self._shapes(node))
        shown = replace(node, op=node.op if ring.kind == "sum" else ring.kind)
        return LayerCalls(self.layers[node.name], shown, shape, tuple(_remembering(node, ring, self)))

    def ring(self, node: Node, part: str) -> str:
        """A pointer to a ring of a node."""
        return self._pointer(Place(STATE, self.places[node.name, part]))


def _ticked(made: Call, tick: Tick) -> TickedCall:
    return TickedCall(made.kernel, made.arguments, made.times, tick)


def _remembering(node: Node, ring: Ring, emission: PushEmission) -> list[Call]:
    """The calls of a node with a ring: the first of each array, then the second."""
    parts = [_part_calls(node, ring, emission, part) for part in emission.parts(node.name)]
    return [each for calls in zip(*parts, strict=True) for each in calls]


def _part_calls(node: Node, ring: Ring, emission: PushEmission, part: str) -> list[Call]:
    """What a ring does for one array. What is taken with a column is taken before the column is put into its place."""
    channels, due = emission.shape(node.name)[0], emission.stream.ticks[node.name]
    at, column, out = emission.ring(node, part), emission.at(ring.source, part), emission.at(node.name, part)
    put = _ticked(call("lbnn_ring_put", at, column, channels, ring.slots), ring.arrives)
    if ring.kind == "window":
        return [_ticked(call("lbnn_ring_take", at, column, out, channels, ring.taps, ring.dilation), due), put]
    if ring.kind == "delay":
        return [_ticked(call("lbnn_ring_read", at, out, channels, ring.slots, 1), due), put]
    if ring.kind == "sum":
        power = 0 if part == MEAN else 2 if ring.roots else 1
        added = call("lbnn_ring_sum", at, column, channels, ring.taps, ring.slots, int(power == 2))
        mean = call("lbnn_ring_mean", at, out, channels, ring.taps, power)
        return [_ticked(added, ring.arrives), _ticked(mean, due)]
    if emission.stream.restarts:  # the window is read where it lies
        return [put]
    return [put, _ticked(call("lbnn_ring_read", at, out, channels, ring.slots, ring.slots), due)]


def ring_floats(ring: Ring, channels: int) -> int:
    """Floats of one array's ring: its position, then columns or sums."""
    if ring.kind == "sum":
        return 1 + channels * (2 if ring.taps > LONGEST_STEP else 1)
    return 1 + channels * ring.slots


def add_push(program: Program, hop: int | None, small: Mapping[str, SmallConvShape]) -> Program:
    """The program of a window with that of one push beside it; `small` are the layers that a small kernel computes."""
    stream = make_stream(program.graph, hop)
    ticks = {*stream.ticks.values(), *(ring.arrives for ring in stream.rings.values()), stream.result} - {EACH}
    counts = {tick: at for at, tick in enumerate(sorted(ticks))}
    places, state_len = _state(stream, len(counts))
    emission = _emission(program, stream, places, small)
    pushed = PushProgram(emission.finish(), stream, max(1, state_len), counts)
    _check_weights(program, pushed.program)
    headers = dict.fromkeys((*program.headers, STREAM_HEADER, *pushed.program.headers))
    geometries = (*program.geometries, *pushed.program.geometries)
    return replace(program, headers=tuple(headers), geometries=geometries, push=pushed)


def _state(stream: Stream, start: int) -> tuple[dict[Key, int], int]:
    """Where each ring lies behind the counts, and the end of the last."""
    places: dict[Key, int] = {}
    for name, ring in stream.rings.items():
        for part in (MEAN, VAR) if stream.graph.values[name].random else (MEAN,):
            places[name, part] = start
            start += ring_floats(ring, stream.graph.values[name].shape[0])
    return places, start


def _emission(
    program: Program, stream: Stream, places: Mapping[Key, int], chosen: Mapping[str, SmallConvShape]
) -> PushEmission:
    """Windows that are complete when they are read need no copy: they lie in the state in the order of time."""
    whole = {name for name, ring in stream.rings.items() if ring.kind == "whole" and stream.restarts}
    given = {key: Place(STATE, at + 1) for key, at in places.items() if key[0] in whole}
    small = {name: shape for name, shape in small_layers(stream.graph).items() if name in chosen}
    planned = plan(stream.graph, layer_scratch(stream.graph, small), given)
    emission = PushEmission(program.name, stream.graph, planned, program.dtype, small)
    emission.layers |= {layer.node.name: layer.layer for layer in program.layers}
    emission.stream, emission.places = stream, places
    return emission


def _check_weights(program: Program, pushed: Program) -> None:
    """Both programs read the same constants."""
    known = {array.name: array.values for array in program.weights}
    for array in pushed.weights:
        assert np.array_equal(known[array.name], array.values), array.name


def positive_zeros(graph: Graph) -> Graph:
    """Biases that are stored as -0 become 0: else a tap outside of the window could change the sign of a zero."""

    def positive(node: Node) -> Node:
        bias = node.params.get("bias")
        if not isinstance(bias, Moments):
            return node
        tiny = bias.mean.astype(np.float32) == 0.0
        return replace(node, params={**node.params, "bias": Moments(np.where(tiny, 0.0, bias.mean), bias.var)})

    return rebuild(graph, map(positive, graph.nodes))
