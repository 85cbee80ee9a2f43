"""Which layers of a graph of feature maps are computed together, and in which order values stand in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.errors import LbnnError
from lbnn.graph.graph import INPUT, Graph, Node
from lbnn.graph.ints.fixed import Whole
from lbnn.graph.ints.maps import Windows, channels_last, same_order
from lbnn.ops import Shape
from lbnn.ops.avg_pool import windows as pool_windows

POOLS = ("avg_pool", "avg_pool_correlated")
MAP_POOLS = (*POOLS, "max_pool")
OF_MAPS = ("pad", *MAP_POOLS, "upsample")
"""Operators whose value is a map of pixels."""

MOST_TAPS = 9
"""Pixels of a pool that is computed together with the layer before it: all of them are held."""


@dataclass(frozen=True)
class Chain:
    """A convolution, or a linear layer over several vectors, and what is computed with it; its last node's value."""

    conv: str
    source: str  # the value that it reads; padding in front of it is its own
    leaky: str | None = None
    pool: str | None = None

    @property
    def last(self) -> str:
        """The node whose value is written."""
        return self.pool or self.leaky or self.conv


def general(node: Node) -> str:
    """The operator in its general form."""
    return ops.find(node.op).general


def is_layer(node: Node, graph: Graph) -> bool:
    """Whether a node is computed pixel after pixel with weights."""
    several = general(node) == "linear" and prod(graph.values[node.name].shape[:-1]) != 1
    return general(node) == "conv" or several


def two(values: Any, missing: Any) -> tuple[Any, Any]:
    """(height, width); one axis alone is the width."""
    height, width = values if len(values) == 2 else (missing, *values)
    return height, width


def find_chains(graph: Graph) -> dict[str, Chain]:
    """By the last node of each."""
    chains = [_chain(node, graph) for node in graph.nodes if is_layer(node, graph)]
    return {chain.last: chain for chain in chains}


def _chain(node: Node, graph: Graph) -> Chain:
    source = source_of(graph, node.inputs[0]) if general(node) == "conv" else node.inputs[0]
    last, leaky, pool = node, None, None
    follower = _only_user(last, graph)
    if follower is not None and follower.op == "leaky_relu":
        last, leaky = follower, follower.name
        follower = _only_user(last, graph)
    if follower is not None and follower.op in POOLS and general(node) == "conv" and _is_tiled(follower, graph):
        pool = follower.name
    return Chain(node.name, source, leaky, pool)


def source_of(graph: Graph, name: str) -> str:
    """The value that a convolution of `name` reads: what is padded, before padding."""
    node = graph.by_name.get(name)
    return source_of(graph, node.inputs[0]) if node is not None and general(node) == "pad" else name


def _only_user(node: Node, graph: Graph) -> Node | None:
    users = graph.users[node.name]
    return users[0] if len(users) == 1 and graph.output != node.name else None


def _is_tiled(node: Node, graph: Graph) -> bool:
    """Whether no pixel is in two windows, and every window lies inside."""
    window, _ = pool_window(node, graph)
    inside = all(o * k <= s for o, k, s in zip(window.out, window.kernel, window.size, strict=True))
    return window.kernel == window.stride and window.start == (0, 0) and inside and 1 < window.taps <= MOST_TAPS


def pool_window(node: Node, graph: Graph) -> tuple[Windows, Whole]:
    """Where a pool looks, and the divisor of each window."""
    shape, attrs = graph.values[node.inputs[0]].shape, node.attrs
    keys = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
    _, counts = pool_windows(shape[1:], *(attrs[key] for key in keys))
    kernel, stride, start = (two(attrs[key], missing) for key, missing in zip(keys, (1, 1, 0), strict=False))
    size, out = two(shape[1:], 1), two(graph.values[node.name].shape[1:], 1)
    rows, columns = (np.asarray(along) for along in two(counts, (1,)))
    divisors: Whole = (rows[:, None] * columns).reshape(-1)
    return Windows(shape[0], size, out, kernel, stride, start), divisors


def max_window(node: Node, graph: Graph) -> Windows:
    """Where a max pool looks."""
    shape, keys = graph.values[node.inputs[0]].shape, ("kernel_size", "stride", "padding", "dilation")
    kernel, stride, start, dilation = (two(node.attrs[key], gone) for key, gone in zip(keys, (1, 1, 0, 1), strict=True))
    size, out = two(shape[1:], 1), two(graph.values[node.name].shape[1:], 1)
    return Windows(shape[0], size, out, kernel, stride, start, dilation)


def layer_window(node: Node, graph: Graph) -> Windows:
    """Where a convolution looks; the vectors of a linear layer are pixels in a row."""
    if general(node) == "linear":
        shape = graph.values[node.inputs[0]].shape
        pixels = (1, prod(shape[:-1]))
        return Windows(shape[-1], pixels, pixels, (1, 1), (1, 1), (0, 0))
    weight: Any = node.params["weight"]
    start = [int(pad) for pad in node.attrs["padding"]]
    name = node.inputs[0]
    while general(padding := graph.by_name.get(name, node)) == "pad":
        start = [own + before for own, (before, _) in zip(start, padding.attrs["padding"], strict=True)]
        name = padding.inputs[0]
    shape = graph.values[name].shape
    return Windows(
        shape[0],
        two(shape[1:], 1),
        two(graph.values[node.name].shape[1:], 1),
        two(weight.shape[2:], 1),
        two(node.attrs["stride"], 1),
        two(start, 0),
        two(node.attrs["dilation"], 1),
    )


def find_orders(graph: Graph) -> dict[str, Whole | None]:
    """Which element stands at each place of every value's memory; None where that is torch's order."""
    orders: dict[str, Whole | None] = {INPUT: None}
    for node in graph.nodes:
        orders[node.name] = _order(node, graph, orders)
    return orders


def _order(node: Node, graph: Graph, orders: Mapping[str, Whole | None]) -> Whole | None:
    op, shape = general(node), graph.values[node.name].shape
    own = [orders[name] for name in node.inputs]
    if op in ("conv", *OF_MAPS):
        if source_of(graph, node.inputs[0]) != INPUT and not _is_last(node.inputs[0], graph, orders):
            raise LbnnError(f"layer {node.name!r}: op {op!r} behind vectors has no integer kernel; use float32")
        return channels_last(shape)
    if op == "concat":
        return _joined(node, graph, own)
    if op == "affine" and node.inputs[0] == INPUT:
        return channels_last(shape) if _meets_conv(node, graph) else None
    if op == "linear":
        if own[0] is not None and len(shape) > 1:
            raise LbnnError(
                f"layer {node.name!r}: a linear layer over a feature map has no integer kernel; use float32"
            )
        return None
    if any(not same_order(own[0], other) for other in own) or (op == "variance_head" and own[0] is not None):
        raise LbnnError(f"layer {node.name!r}: op {op!r} of a feature map has no integer kernel; use float32")
    return own[0]


def find_maps(graph: Graph) -> dict[str, int]:
    """Values that are computed pixel after pixel, and how many channels a pixel has."""
    maps: dict[str, int] = {}
    for node in graph.nodes:
        op, shape = general(node), graph.values[node.name].shape
        if is_layer(node, graph):
            maps[node.name] = shape[0] if op == "conv" else shape[-1]
        elif op in OF_MAPS or (op == "affine" and node.inputs[0] == INPUT and _meets_conv(node, graph)):
            maps[node.name] = shape[0]
        elif op in ("leaky_relu", "affine", "add", "lift") and node.inputs[0] in maps:
            maps[node.name] = maps[node.inputs[0]]
        elif op == "concat" and len(shape) > 1 and all(name in maps for name in node.inputs):
            maps[node.name] = shape[0]
    return maps


def _is_last(name: str, graph: Graph, orders: Mapping[str, Whole | None]) -> bool:
    return same_order(orders[name], channels_last(graph.values[name].shape))


def _meets_conv(node: Node, graph: Graph) -> bool:
    users = graph.users[node.name]
    through = ("lift", "leaky_relu", "affine", "add", "concat")
    return any(
        general(user) in ("conv", *OF_MAPS) or (general(user) in through and _meets_conv(user, graph)) for user in users
    )


def _joined(node: Node, graph: Graph, own: list[Whole | None]) -> Whole | None:
    shape, parts = graph.values[node.name].shape, [graph.values[name].shape for name in node.inputs]
    if len(shape) > 1 and joins_channels(node, parts, own):
        return channels_last(shape)
    if all(order is None for order in own):
        return None
    if len(shape) > 1:
        raise LbnnError(f"layer {node.name!r}: feature maps are joined along channels alone in integers; use float32")
    starts = np.cumsum([0, *(prod(part) for part in parts)])
    found = [start + (np.arange(prod(part)) if order is None else order)
             for start, part, order in zip(starts, parts, own, strict=False)]  # fmt: skip
    return np.concatenate(found)


def joins_channels(node: Node, parts: list[Shape], own: list[Whole | None]) -> bool:
    """Whether maps are joined pixel by pixel."""
    last = all(same_order(order, channels_last(part)) for order, part in zip(own, parts, strict=True))
    return bool(node.attrs["axis"] == 0 and last)
