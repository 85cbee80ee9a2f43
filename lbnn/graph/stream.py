"""A network over time as a stream: when each of its columns is complete, and the graph of one push.

Samples are pushed one at a time, the first is number 1. Column j of a value is complete with sample `first + j every`
(a Tick). The graph of one push has one column of each value; what an operator needs of the past stands in it as a `pad`
in front of the column, whose zeros are not written: they are read from the memory of a stream, where a Ring says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph.graph import INPUT, Graph, GraphBuilder, Node, Param

COLUMNWISE = ("affine", "lift", "variance_head")
"""Operators beside pointwise ones that compute a column from the same column alone."""
POINTWISE = ("pointwise", "clamped", "smooth")
"""The kinds of operators that treat each element alone."""
JOINING = ("add", "concat", "multiply")
"""Operators that compute a column from the same column of several values."""


@dataclass(frozen=True, order=True)
class Tick:
    """With which samples a value gets a column: number `first`, and every `every`-th behind it."""

    first: int
    every: int


@dataclass(frozen=True)
class Ring:
    """What a stream remembers for a node: columns of `source`, which come with the tick `arrives`.

    kind "window": the column that arrives and those `dilation`, 2 `dilation`, ... before it, `taps` in all; "delay":
    the column that arrived `slots` before; "whole": the last `slots`; "sum": the sum of `taps` columns of each `slots`,
    of variances the sum of their `roots`.
    """

    kind: str
    source: str
    arrives: Tick
    slots: int
    taps: int = 1
    dilation: int = 1
    roots: bool = False


@dataclass(frozen=True)
class Stream:
    """The graph of one push, when its nodes are computed, and what they remember.

    `length` is the number of samples of the window that the network was made for, `result` when there is a result,
    `columns` how many a window has. `restarts`: after a result the stream begins anew.
    """

    graph: Graph
    ticks: Mapping[str, Tick]
    rings: Mapping[str, Ring]
    length: int
    result: Tick
    columns: int
    restarts: bool


@dataclass(frozen=True)
class _Track:
    """A value over time: its name in the graph of one push, its tick, and its columns, `zeros` of which come first."""

    name: str
    tick: Tick
    length: int
    zeros: int = 0


def make_stream(graph: Graph, hop: int | None = None) -> Stream:
    """The stream of a prepared graph.

    One that ends in a vector has a result for each window; `hop` samples lie between two of them, or a whole window.
    """
    if len(graph.input.shape) != 2:
        shape = "x".join(map(str, graph.input.shape))
        raise LbnnError(f"{graph.name} can't stream: its input is {shape}, and a stream has channels and time (C x T)")
    return _Streaming(graph, hop).finish()


@dataclass
class _Streaming:
    """Walks the graph and builds that of one push."""

    graph: Graph
    hop: int | None
    tracks: dict[str, _Track] = field(default_factory=dict)
    ticks: dict[str, Tick] = field(default_factory=dict)
    rings: dict[str, Ring] = field(default_factory=dict)
    padded: Node | None = None

    def __post_init__(self) -> None:
        channels, self.length = self.graph.input.shape
        self.end = Tick(self.length, self.hop or self.length)
        self.restarts = self.end.every == self.length
        self.builder = GraphBuilder(self.graph.name, (channels, 1), self.graph.input.random)
        self.tracks[INPUT] = _Track(INPUT, Tick(1, 1), self.length)
        if self.hop is not None and not 1 <= self.hop <= self.length:
            raise LbnnError(f"hop {self.hop} is not from 1 to {self.length}, the samples of {self.graph.name}'s window")

    def finish(self) -> Stream:
        for node in self.graph.nodes:
            self._visit(node)
        last = self.tracks.get(self.graph.output)
        if last is not None and self.hop is not None:
            raise LbnnError(f"{self.graph.name} gives a result for every column and takes no hop: leave it out")
        if last is not None and last.zeros:
            raise LbnnError(f"{self.graph.name} can't stream: its result begins with zero padding; leave that out")
        if last is None and not self.restarts:
            self._check_hop()
        result, columns = (last.tick, last.length) if last else (self.end, 1)
        built = self.builder.finish(last.name if last else self.graph.output, self.graph.head)
        restarts = last is None and self.restarts
        return Stream(built, self.ticks, self.rings, self.length, result, columns, restarts)

    def _check_hop(self) -> None:
        """Windows that overlap share their columns: these must not depend on where a window begins."""
        if self.padded is not None:
            raise self._refusal(self.padded, "pads where a window begins, so windows can't overlap: leave out the hop")
        for name, track in self.tracks.items():
            if self.end.every % track.tick.every:
                raise self._refused_hop(track.tick, name)

    def _visit(self, node: Node) -> None:
        general = ops.find(node.op).general
        if not any(name in self.tracks for name in node.inputs):
            self._add(node.name, node.op, node.inputs, node.attrs, node.params, self.end)
        elif general == "pad":
            self._pad(node)
        elif general == "conv" or "kernel_size" in node.attrs:
            self._window(node)
        elif general == "flatten":
            self._flatten(node)
        elif general in JOINING and all(name in self.tracks for name in node.inputs):
            self._join(node)
        elif general in COLUMNWISE or ops.find(node.op).kind in POINTWISE:
            track = self._unpadded(node, node.inputs[0])
            self._column(node, [track.name], track.tick)
        else:
            raise self._refusal(node, f"computes across time; a stream knows {_known()}")

    def _pad(self, node: Node) -> None:
        """No node: the memory of a stream begins with zeros."""
        track, ((before, after),) = self.tracks[node.inputs[0]], node.attrs["padding"]
        if after:
            why = f"pads {_columns(after)} behind the window, which a stream can't know"
            raise self._refusal(node, f"{why}: pad before it, ZeroPad1d((before, 0))")
        self.padded = self.padded or node
        self.tracks[node.name] = _Track(track.name, track.tick, track.length + before, track.zeros + before)

    def _window(self, node: Node) -> None:
        """An operator over `taps` columns: computed with the last of them."""
        track, attrs = self.tracks[node.inputs[0]], node.attrs
        taps = (attrs["kernel_size"] if "kernel_size" in attrs else _weight(node).shape[2:])[0]
        dilation, padding = attrs.get("dilation", (1,))[0], attrs["padding"][0]
        length, reach = self.graph.values[node.name].shape[1], dilation * (taps - 1)
        ahead = reach - padding - track.zeros
        self._check_window(node, track, (length - 1) * attrs["stride"][0] + reach - padding - track.length + 1, ahead)
        tick = Tick(track.tick.first + ahead * track.tick.every, self._every(node, track.tick, length))
        stride = -(-tick.every // track.tick.every)
        self.padded = self.padded or (node if padding else None)
        own: dict[str, Any] = {key: (1,) for key in ("stride", "dilation") if key in attrs} | {"padding": (0,)}
        source = track.name
        if taps > 1 and _sums(node) and stride >= taps and not track.zeros:
            own["kernel_size"] = (1,)
            roots = ops.find(node.op).general == "avg_pool_correlated"
            self.rings[node.name] = Ring("sum", source, track.tick, stride, taps, roots=roots)
        elif taps > 1:
            ring = Ring("window", source, track.tick, reach, taps, dilation)
            source = self._remember(f"{node.name}_window", ring, taps, tick)
        self._add(node.name, node.op, [source], {**attrs, **own}, node.params, tick)
        self.tracks[node.name] = _Track(node.name, tick, length)

    def _check_window(self, node: Node, track: _Track, beyond: int, ahead: int) -> None:
        if beyond > 0:
            why = f"reads {_columns(beyond)} of padding behind the window, which a stream can't know"
            raise self._refusal(node, f"{why}: put a ZeroPad1d((before, 0)) before it and no padding in it")
        if "kernel_size" in node.attrs and node.attrs["padding"][0]:
            raise self._refusal(node, "is a pool with padding: put a ZeroPad1d((before, 0)) before it instead")
        if ahead < 0:
            why = f"follows {_columns(node.attrs['padding'][0] + track.zeros)} of zeros and reaches back less"
            raise self._refusal(node, f"{why}: pad by dilation * (kernel_size - 1) at most")

    def _every(self, node: Node, arrives: Tick, length: int) -> int:
        """By the layer's stride; what makes one column of a window that ends in a vector, once for each window."""
        if length > 1 or len(self.graph.values[self.graph.output].shape) > 1:
            return int(arrives.every * node.attrs["stride"][0])
        if not self.restarts and self.end.every % arrives.every:
            raise self._refused_hop(arrives, node.name)
        return self.end.every

    def _refused_hop(self, tick: Tick, layer: str) -> LbnnError:
        return LbnnError(f"hop {self.end.every} is no multiple of {tick.every}, the strides up to layer {layer}")

    def _flatten(self, node: Node) -> None:
        """The end of time: all columns of a window, when the window is complete."""
        track = self._unpadded(node, node.inputs[0])
        source = track.name
        together = track.tick == self.end or (self.restarts and track.tick.first == self.end.first)
        if track.length > 1 or not together:
            ring = Ring("whole", source, track.tick, track.length, track.length)
            source = self._remember(f"{node.name}_window", ring, track.length, self.end)
        self._add(node.name, node.op, [source], node.attrs, node.params, self.end)

    def _join(self, node: Node) -> None:
        """The same column of each input: those that come early wait."""
        tracks = [self._unpadded(node, name) for name in node.inputs]
        if node.attrs.get("axis", 0) != 0:
            raise self._refusal(node, "joins along time; a stream joins channels (dim=1)")
        self._check_alike(node, tracks)
        latest = max(track.tick for track in tracks)
        self._column(node, [self._delayed(node, track, latest) for track in tracks], latest)

    def _check_alike(self, node: Node, tracks: list[_Track]) -> None:
        if len({track.length for track in tracks}) > 1:
            each = " and ".join(str(track.length) for track in tracks)
            why = f"joins values of {each} columns, and one that serves a whole window is known at its end"
            raise self._refusal(node, f"{why}: give both a column for each")
        if len({track.tick.every for track in tracks}) > 1:
            each = " and ".join(str(track.tick.every) for track in tracks)
            raise self._refusal(node, f"joins values with columns every {each} samples: give them the same strides")

    def _delayed(self, node: Node, track: _Track, until: Tick) -> str:
        wait = until.first - track.tick.first
        if not wait:
            return track.name
        slots = -(-wait // until.every)  # a column that comes between two results is held until the next
        return self._remember(f"{node.name}_delay", Ring("delay", track.name, track.tick, slots), 1, until)

    def _remember(self, name: str, ring: Ring, taps: int, tick: Tick) -> str:
        """A node that reads the stream's memory; no name of the graph is taken from it."""
        while name in self.graph.values or name in self.builder.values:
            name += "_"
        added = self._add(name, "pad", [ring.source], {"padding": ((taps - 1, 0),)}, {}, tick)
        self.rings[added] = ring
        return added

    def _column(self, node: Node, inputs: list[str], tick: Tick) -> None:
        shape = self.graph.values[node.name].shape
        params = {key: self._column_param(node, param) for key, param in node.params.items()}
        self._add(node.name, node.op, inputs, node.attrs, params, tick)
        self.tracks[node.name] = _Track(node.name, tick, shape[1])

    def _column_param(self, node: Node, param: Param) -> Param:
        """A parameter as it is for every column."""
        if ops.find(node.op).general != "affine" or not np.ndim(param):
            return param
        values = np.asarray(param)
        if np.any(values != values[..., :1]):
            raise self._refusal(node, "has numbers that differ from column to column")
        return values[..., :1]

    def _unpadded(self, node: Node, name: str) -> _Track:
        if self.tracks[name].zeros:
            raise self._refusal(node, "follows zero padding: put that directly before a convolution or a pool")
        return self.tracks[name]

    def _add(self, name: str, op: str, inputs: Any, attrs: Mapping[str, Any], params: Any, tick: Tick) -> str:
        added = self.builder.add(name, op, inputs, attrs, params)
        self.ticks[added] = tick
        return added

    def _refusal(self, node: Node, why: str) -> LbnnError:
        return LbnnError(f"{self.graph.name} can't stream: layer {node.name} ({node.op}) {why}")


def _weight(node: Node) -> Any:
    weight = node.params["weight"]
    assert isinstance(weight, (Moments, Factored))
    return weight.mean


def _sums(node: Node) -> bool:
    """Whether a running sum is enough."""
    return ops.find(node.op).general in ("avg_pool", "avg_pool_correlated")


def _columns(number: int) -> str:
    return f"{number} column{'s' if number > 1 else ''}"


def _known() -> str:
    return "Conv1d, 1-D pools, ZeroPad1d, activations, affine maps, sums, products, Concat of channels, Flatten"
