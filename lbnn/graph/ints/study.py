"""What integer arithmetic makes of a graph: which values are wide, how many bits each has, its layers as integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import numpy as np

from lbnn import ops
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph.graph import INPUT, Graph, Node
from lbnn.graph.ints.chains import (
    POOLS,
    Chain,
    find_chains,
    find_maps,
    find_orders,
    is_layer,
    layer_window,
    pool_window,
    source_of,
)
from lbnn.graph.ints.fixed import Whole
from lbnn.graph.ints.known import root_of
from lbnn.graph.ints.quantise import (
    MOST_MEAN_BITS,
    MOST_SIGMA_BITS,
    LinearInts,
    Rows,
    factors_of,
    quantise_affine,
    quantise_linear,
)
from lbnn.graph.ints.quantise_conv import ConvInts, quantise_conv, windows_last
from lbnn.graph.ints.typical import Typical, typical_values, typical_vector
from lbnn.graph.ints.typical_maps import typical_windows
from lbnn.graph.kept import kept
from lbnn.ops.pieces import layer_of

OPERATORS = (
    *("linear", "leaky_relu", "affine", "add", "concat", "flatten", "variance_head"),
    *("conv", "avg_pool", "avg_pool_correlated", "max_pool", "pad", "upsample", "lift"),
)
"""What has integer kernels, by the name of the general form."""

RAMPS = "use ReLU or LeakyReLU in its place"
RETRAIN = {
    "leaky_relu_clamped": "leave out the clamp",
    "conv_transposed": "use UpsamplingNearest2d and Conv2d in its place",
    "multiply": "use Add or cat in its place",
    "constant": "give its values as inputs",
    "dropout": "leave it out",
}
"""What to train again with in place of an operator without integer kernels; for activations a ramp."""

LEAST_SCALE = float(np.finfo(np.float32).tiny)
"""Of a scale below, float has few digits or none, and a variance would become zero."""

MOST_POOLED = 1 << 15
"""Pixels of a pool's window: their sums have as many bits more, of which means leave 15."""

_GIVE_WIDE = {"linear", "linear_point", "add", "shift", "affine", "variance_head"}
_TAKE_WIDE = {"leaky_relu", "affine", "variance_head"}


@dataclass(frozen=True)
class Study:
    """Facts of a prepared graph: layers by node, wide values, and the bits of mean and sigma of narrow ones."""

    linear: Mapping[str, LinearInts]
    affine: Mapping[str, Rows]
    wide: frozenset[str]
    bits: Mapping[str, tuple[int, int]]
    units: Whole  # of each output: it is counted in units of 2^this
    source: Mapping[str, str]  # the value whose memory each has: what is flattened is its input
    conv: Mapping[str, ConvInts]
    chains: Mapping[str, Chain]  # by the last node of each
    orders: Mapping[str, Whole | None]  # how each value stands in memory
    maps: Mapping[str, int]  # channels of values that are computed pixel after pixel

    @property
    def inner(self) -> frozenset[str]:
        """Nodes whose values are never written: others compute them on the way."""
        parts = {name: chain for chain in self.chains.values() for name in (chain.conv, chain.leaky, chain.pool)}
        return frozenset(name for name, chain in parts.items() if name is not None and name != chain.last)


def study(graph: Graph, mean_bits: int) -> Study:
    """The facts, or an error that says what integers can't compute."""
    for node in graph.nodes:
        check_node_is_known(node, graph)
    orders, usual, units = find_orders(graph), typical_inputs(graph), output_units(graph)
    free = has_free_variances(graph)
    linear = {
        node.name: _in_order(
            _linear(in_units(node, graph, units), mean_bits, usual[node.name][0], free), orders[node.inputs[0]]
        )
        for node in graph.nodes
        if ops.find(node.op).general == "linear" and not is_layer(node, graph)
    }
    conv = {node.name: _conv(node, graph, mean_bits, usual[node.name]) for node in graph.nodes if is_layer(node, graph)}
    source, maps = _sources(graph), find_maps(graph)
    check_result(graph, orders, maps)
    rows = {
        node.name: _affine(in_units(node, graph, units), graph, orders[node.name], maps.get(node.name))
        for node in graph.nodes
        if ops.find(node.op).general == "affine" and source[node.inputs[0]] != INPUT
    }
    bits = _bits(graph, {**linear, **{name: each.layer for name, each in conv.items()}})
    return Study(linear, rows, _wide(graph, maps), bits, units, source, conv, find_chains(graph), orders, maps)


@kept
def typical_inputs(graph: Graph) -> dict[str, tuple[Typical | None, ...]]:
    """What the inputs of each layer usually are, of each of its groups."""
    values = typical_values(graph)
    linear = [node for node in graph.nodes if ops.find(node.op).general == "linear" and not is_layer(node, graph)]
    windows = {node.name: _windows(node, graph, values) for node in graph.nodes if is_layer(node, graph)}
    return {**{node.name: (typical_vector(values[node.inputs[0]]),) for node in linear}, **windows}


def _windows(node: Node, graph: Graph, values: Mapping[str, Any]) -> tuple[Typical | None, ...]:
    last, source = ops.find(node.op).general == "linear", values[source_of(graph, node.inputs[0])]
    return typical_windows(source, layer_window(node, graph), node.attrs.get("groups", 1), last)


def output_units(graph: Graph) -> Whole:
    """A power of two for each output, about the size of what leads to it: outputs may differ by any factor.

    Zeros where they do not differ, and where the output is not of a layer that has numbers of its own for each element,
    or is read by others too.
    """
    node, size = graph.by_name.get(graph.output), prod(graph.values[graph.output].shape)
    vector = len(graph.values[graph.output].shape) == 1
    if node is None or graph.users[node.name] or not vector or node.op not in ("linear", "linear_point", "affine"):
        return np.zeros(size, np.int64)
    if node.op == "affine":
        sizes: Whole = np.frexp(np.abs(elementwise(node, graph)[0]))[1].astype(np.int64)
        return sizes if np.ptp(sizes) else np.zeros(size, np.int64)
    weight: Any = node.params["weight"]
    largest = np.maximum(np.abs(weight.mean), np.sqrt(weight.var)).max(axis=1)
    found: Whole = np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)
    return found if np.ptp(found) else np.zeros(size, np.int64)


def in_units(node: Node, graph: Graph, units: Whole) -> Node:
    """The node that makes the output in those units, others as they are; powers of two change no digit."""
    if node.name != graph.output or not np.any(units):
        return node
    scale = np.ldexp(1.0, -units.astype(np.int32))
    if ops.find(node.op).general == "affine":
        factor, shift = elementwise(node, graph)
        shape = graph.values[node.name].shape
        params = {"scale": (factor * scale).reshape(shape), "shift": (shift * scale).reshape(shape)}
        return replace(node, params=params)
    weight, bias = cast(Any, node.params["weight"]), cast(Any, node.params["bias"])
    scaled = Moments(weight.mean * scale[:, None], weight.var * (scale * scale)[:, None])
    return replace(node, params={"weight": scaled, "bias": Moments(bias.mean * scale, bias.var * scale * scale)})


def check_node_is_known(node: Node, graph: Graph) -> None:
    """Refuses what has no integer kernel, and names it."""
    general = ops.find(node.op).general
    if general not in OPERATORS:
        raise LbnnError(
            f"layer {node.name!r}: {_words(node)} has no integer kernel; export with --dtype float32, or "
            f"{RETRAIN.get(general, RAMPS)} and train again"
        )
    if general == "affine" and np.any(np.abs(cast(Any, node.params["scale"])) < LEAST_SCALE):
        raise LbnnError(f"layer {node.name!r}: a scale below {LEAST_SCALE:.1e} has no integer kernel; use float32")
    if general in POOLS and pool_window(node, graph)[0].taps > MOST_POOLED:
        raise LbnnError(f"layer {node.name!r}: integers pool at most {MOST_POOLED} pixels; export with --dtype float32")
    if general == "variance_head" and len({user.op for user in graph.users[node.inputs[0]]}) > 1:
        raise LbnnError(f"layer {node.name!r}: op {general!r} shares its input; export with --dtype float32")


def _words(node: Node) -> str:
    """An operator, and the function that it computes as users call it."""
    general, attrs = ops.find(node.op).general, node.attrs
    piecewise = layer_of(attrs["kinks"], attrs["slopes"]) if general == "piecewise" else ""
    function = piecewise or attrs.get("function")
    return f"op {general!r}" + (f" ({function})" if isinstance(function, str) else "")


def check_result(graph: Graph, orders: Mapping[str, Whole | None], maps: Mapping[str, int]) -> None:
    """Refuses a result that stands in another order than torch's and is no map itself."""
    if orders[graph.output] is not None and root_of(graph, graph.output) not in maps:
        raise LbnnError(
            f"layer {graph.output!r}: a result made of a flattened feature map has no integer kernel; use float32"
        )


def has_free_variances(graph: Graph) -> bool:
    """Whether a linear layer of several rows has a sigma for each weight.

    Then layers of one row, which are products of factors whatever they are, take the kernels of the others.
    """
    weights = (cast(Any, node.params["weight"]) for node in graph.nodes if ops.find(node.op).general == "linear")
    return any(np.any(weight.var) and factors_of(np.asarray(weight.var, np.float64)) is None for weight in weights)


def _linear(node: Node, mean_bits: int, usual: Typical | None, free: bool) -> LinearInts:
    weight, bias = node.params["weight"], node.params["bias"]
    assert isinstance(weight, (Moments, Factored)) and isinstance(bias, Moments)
    try:
        return quantise_linear(Moments(weight.mean, weight.var), bias, mean_bits, usual, free and len(weight.mean) == 1)
    except LbnnError as error:
        raise LbnnError(f"layer {node.name!r}: {error}") from None


def _in_order(layer: LinearInts, order: Whole | None) -> LinearInts:
    """The layer with its inputs as they stand in memory."""
    if order is None:
        return layer
    columns = layer.columns[order] if layer.columns.size else layer.columns
    free = layer.free[:, order] if layer.free.size else layer.free
    return replace(layer, weight=layer.weight[:, order], columns=columns, free=free)


def _conv(node: Node, graph: Graph, mean_bits: int, usual: tuple[Typical | None, ...]) -> ConvInts:
    weight, bias = cast(Any, node.params["weight"]), cast(Any, node.params["bias"])
    groups, window = node.attrs.get("groups", 1), layer_window(node, graph)
    spread = Moments(windows_last(weight.mean), windows_last(weight.var))
    try:
        return quantise_conv(spread, bias, mean_bits, window, groups, usual)
    except LbnnError as error:
        raise LbnnError(f"layer {node.name!r}: {error}") from None


def _affine(node: Node, graph: Graph, order: Whole | None, channels: int | None) -> Rows:
    """A row for each element, or for each channel of a map."""
    parts = [part if order is None else part[order] for part in elementwise(node, graph)]
    if channels is not None:
        pixels = [part.reshape(-1, channels) for part in parts]
        if not all(np.all(part == part[:1]) for part in pixels):
            raise LbnnError(f"layer {node.name!r}: integers scale feature maps by channels alone; use float32")
        parts = [part[0] for part in pixels]
    return quantise_affine(*parts)


def elementwise(node: Node, graph: Graph) -> tuple[Any, Any]:
    """Scale and shift of an affine map, one for each element."""
    shape = graph.values[node.name].shape
    scale, shift = (np.broadcast_to(np.asarray(node.params[key]), shape).reshape(-1) for key in ("scale", "shift"))
    return scale, shift


def _sources(graph: Graph) -> dict[str, str]:
    return {name: root_of(graph, name) for name in graph.values}


def _wide(graph: Graph, maps: Mapping[str, int]) -> frozenset[str]:
    """Values that stay as a layer left them: those that nothing needs in 15 bits."""
    wide: dict[str, bool] = {}
    for name in reversed(list(graph.values)):
        users = graph.users[name]
        wide[name] = all(user.op in _TAKE_WIDE or (_flat(user) and wide[user.name]) for user in users)
    made = [name for name in graph.values if root_of(graph, name) != INPUT and root_of(graph, name) not in maps]
    return frozenset(name for name in made if wide[name] and graph.by_name[root_of(graph, name)].op in _GIVE_WIDE)


def _flat(node: Node) -> bool:
    return ops.find(node.op).general == "flatten"


def _bits(graph: Graph, linear: Mapping[str, LinearInts]) -> dict[str, tuple[int, int]]:
    """The fewest that any layer behind a value asks for."""
    found: dict[str, tuple[int, int]] = {}
    for name in reversed(list(graph.values)):
        asked = [(MOST_MEAN_BITS, MOST_SIGMA_BITS)]
        for user in graph.users[name]:
            if user.name in linear:
                asked.append((linear[user.name].mean_bits, linear[user.name].sigma_bits))
            elif ops.find(user.op).general in ("flatten", "concat", "pad", "upsample", "lift"):
                asked.append(found[user.name])
        found[name] = (min(mean for mean, _ in asked), min(sigma for _, sigma in asked))
    for name in graph.values:  # what shares memory shares its bits
        found[root_of(graph, name)] = min(found[root_of(graph, name)], found[name])
    return found
