"""Passes: functions graph -> graph that keep the result and make it cheaper.

`prepare` is what exporters call. A shift is never folded into the weights of the layer behind it: with Gaussian
weights the shift's share and the input's share of the sum are products of the same random weight, so their
variances do not add. A scale is folded, and a shift behind a layer goes into its bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph.graph import Graph, Node, Param, rebuild
from lbnn.graph.kept import kept
from lbnn.graph.reference import evaluate_node
from lbnn.graph.transposed import turned_around

Pass = Callable[[Graph], Graph]
Rule = Callable[[Node, "Rewriter"], "Node | str"]
"""Gives the node to put in a node's place, or the name of the value that replaces it."""


@kept
def prepare(graph: Graph, input_variance: bool) -> Graph:
    """What exporters compile: the graph for an input with or without variance, simplified."""
    graph = rebuild(graph, graph.nodes, random=input_variance)
    for simplify in PASSES:
        graph = simplify(graph)
    return graph


def specialize_point_inputs(graph: Graph) -> Graph:
    """Uses the cheaper *_point operators for an input that has no variance."""
    return rebuild(graph, graph.nodes, random=False)


def remove_dead_nodes(graph: Graph) -> Graph:
    """Drops nodes that the output does not need."""
    needed = {graph.output}
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(node.inputs)
    return rebuild(graph, [node for node in graph.nodes if node.name in needed])


def double_sums(graph: Graph) -> Graph:
    """Makes twice a value of its sum with itself, whose terms are not independent."""
    return _rewrite(graph, lambda node, rewriter: _doubled(node) if _is_doubled(node) else node)


def fold_constants(graph: Graph) -> Graph:
    """Computes what depends on constants alone, and turns the sum with a constant into a shift."""
    return _rewrite(graph, _fold_constant)


def turn_transposed(graph: Graph) -> Graph:
    """Makes ordinary convolutions of transposed ones of stride 1."""
    return _rewrite(graph, lambda node, rewriter: turned_around(node))


def expand_batch_norm(graph: Graph) -> Graph:
    """Writes batch normalisation as the affine map that it is."""
    return _rewrite(graph, _expand_batch_norm)


def merge_affine(graph: Graph) -> Graph:
    """Makes one affine map of two in a row."""
    return _rewrite(graph, _merge_affine)


def fold_affine_back(graph: Graph) -> Graph:
    """Folds an affine map into the weights and the bias of the layer before it."""
    return _rewrite(graph, _fold_affine_back)


def fold_scale_forward(graph: Graph) -> Graph:
    """Folds an affine map without shift into the weights of the layer behind it."""
    return _rewrite(graph, _fold_scale_forward)


def merge_pads(graph: Graph) -> Graph:
    """Merges zero padding with padding before it and with the convolution behind it."""
    return _rewrite(graph, _merge_pad)


def fold_pads(graph: Graph) -> Graph:
    """Makes zero padding in front of a convolution its own, also where it differs at both ends."""
    return _rewrite(graph, _fold_pad)


def remove_identities(graph: Graph) -> Graph:
    """Drops nodes that give back their input: flatten of a vector, slope 1, scale 1 with shift 0, and the like.

    One that is added to its own input stays: the graph counts both as independent, which one value could not be.
    """
    return _rewrite(graph, lambda node, rewriter: node.inputs[0] if _is_removable(node, rewriter) else node)


PASSES: tuple[Pass, ...] = (
    double_sums,
    fold_constants,
    turn_transposed,
    expand_batch_norm,
    merge_affine,
    fold_affine_back,
    remove_identities,
    fold_scale_forward,
    merge_pads,
    remove_dead_nodes,
)


class Rewriter:
    """The nodes rewritten so far, and the names of values that others have replaced."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[str, Node] = {}
        self.replaced: dict[str, str] = {}

    def only_use(self, name: str) -> Node | None:
        """The node that made `name`, if nothing else reads that value."""
        live = [node for node in self.graph.nodes if node.name not in self.replaced]
        readers = sum(self.current(source) == name for node in live for source in node.inputs)
        return self.nodes.get(name) if readers == 1 and self.current(self.graph.output) != name else None

    def current(self, name: str) -> str:
        """The value that stands for `name` now."""
        return self.replaced.get(name, name)

    def rank(self, name: str) -> int:
        """The number of axes of a value."""
        return len(self.graph.values[name].shape)


def _rewrite(graph: Graph, rule: Rule) -> Graph:
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        inputs = tuple(map(rewriter.current, node.inputs))
        result = rule(replace(node, inputs=inputs), rewriter)
        if isinstance(result, Node):
            rewriter.nodes[result.name] = result
        name = result if isinstance(result, str) else result.name
        if name != node.name:
            rewriter.replaced[node.name] = name
    return remove_dead_nodes(rebuild(graph, rewriter.nodes.values(), rewriter.current(graph.output)))


def _fold_constant(node: Node, rewriter: Rewriter) -> Node | str:
    sources = [rewriter.nodes.get(name) for name in node.inputs]
    known = [source.params["value"] for source in sources if source is not None and source.op == "constant"]
    if node.op == "shift" and len(known) == 1:
        return Node(node.name, "affine", node.inputs[:1], {}, {"scale": np.ones(()), "shift": known[0]})
    if node.inputs and len(known) == len(node.inputs) and ops.find(node.op).point_output:
        value = evaluate_node(node, [np.asarray(array)[None] for array in known])
        return Node(node.name, "constant", (), {}, {"value": value[0]})
    return node


def _expand_batch_norm(node: Node, rewriter: Rewriter) -> Node | str:
    op = ops.find(node.op)
    if op.as_affine is None or _is_affine(node):
        return node
    scale, shift = op.as_affine(rewriter.rank(node.name), **node.params, **node.attrs)
    return replace(node, op="affine", attrs={}, params={"scale": scale, "shift": shift})


def _is_doubled(node: Node) -> bool:
    return ops.find(node.op).general == "add" and node.inputs[0] == node.inputs[1]


def _doubled(node: Node) -> Node:
    return Node(node.name, "affine", node.inputs[:1], {}, {"scale": np.full((), 2.0), "shift": np.zeros(())})


def _is_affine(node: Node | None) -> bool:
    return node is not None and ops.find(node.op).general == "affine"


def _has_weights(node: Node) -> bool:
    return ops.find(node.op).channel_axis is not None


def _merge_affine(node: Node, rewriter: Rewriter) -> Node | str:
    first = rewriter.only_use(node.inputs[0]) if _is_affine(node) else None
    if first is None or not _is_affine(first):
        return node
    scale, shift = _array(node.params["scale"]), _array(node.params["shift"])
    merged = {"scale": scale * _array(first.params["scale"]), "shift": scale * _array(first.params["shift"]) + shift}
    return replace(first, params=merged)


def _fold_affine_back(node: Node, rewriter: Rewriter) -> Node | str:
    layer = rewriter.only_use(node.inputs[0]) if _is_affine(node) else None
    if layer is None or not _has_weights(layer):
        return node
    scale = _per_channel(node.params["scale"], layer, rewriter.rank(layer.name))
    shift = _per_channel(node.params["shift"], layer, rewriter.rank(layer.name))
    if scale is None or shift is None:
        return node
    return replace(layer, params=_scaled_outputs(layer, scale, shift))


def _scaled_outputs(layer: Node, scale: Any, shift: Any) -> dict[str, Param]:
    bias: Any = layer.params["bias"]
    return {
        "weight": _scaled_rows(layer, scale),
        "bias": Moments(bias.mean * scale + shift, bias.var * scale**2 + np.zeros_like(shift)),
    }


def _rows(layer: Node) -> Any:
    """The means of a layer's weight, a row for each output."""
    weight: Any = layer.params["weight"]
    return ops.find(layer.op).rows(weight.mean, layer.attrs)


def _scaled_rows(layer: Node, scale: Any) -> Param:
    """A layer's weight times a number for each output."""
    weight = layer.params["weight"]
    if isinstance(weight, Factored):
        return weight.times_rows(scale)
    return _times(layer, scale.reshape((-1,) + (1,) * (_rows(layer).ndim - 1)))


def _times(layer: Node, factors: Any) -> Moments[Any]:
    """A layer's weight times factors that broadcast over its rows."""
    rows, weight = ops.find(layer.op).rows, layer.params["weight"]
    assert isinstance(weight, Moments)
    mean, var = (rows(part, layer.attrs) for part in weight)
    return Moments(rows(mean * factors, layer.attrs), rows(var * factors**2, layer.attrs))


def _fold_scale_forward(node: Node, rewriter: Rewriter) -> Node | str:
    affine = rewriter.only_use(node.inputs[0]) if _has_weights(node) else None
    if affine is None or not _is_affine(affine) or np.any(affine.params["shift"]):
        return node
    groups = node.attrs.get("groups", 1)
    columns = _columns(affine.params["scale"], node, groups, rewriter.rank(affine.name))
    if columns is None:
        return node
    weight: Any = node.params["weight"]
    scaled = weight.times_columns(columns) if isinstance(weight, Factored) else _times(node, columns)
    return replace(node, inputs=affine.inputs, params={**node.params, "weight": scaled})


def _columns(scale: Param, layer: Node, groups: int, rank: int) -> Any:
    """The input scale shaped to multiply the weight, or None if it is not one number per input channel."""
    out, per_group, *kernel = _rows(layer).shape
    channels = _vector(scale, per_group * groups, _channel_axis(layer, rank), rank)
    if channels is None:
        return None
    by_group = np.repeat(channels.reshape(groups, per_group), out // groups, axis=0)
    return by_group.reshape((out, per_group) + (1,) * len(kernel))


def _per_channel(array: Param, layer: Node, rank: int) -> Any:
    return _vector(array, len(_rows(layer)), _channel_axis(layer, rank), rank)


def _channel_axis(layer: Node, rank: int) -> int:
    axis = ops.find(layer.op).channel_axis
    assert axis is not None, layer.op
    return axis(rank)


def _vector(array: Param, channels: int, axis: int, rank: int) -> Any:
    """`array` as one number per channel, or None if it varies along another axis."""
    values = _array(array)
    shape = (1,) * (rank - values.ndim) + values.shape
    if any(extent != 1 for position, extent in enumerate(shape) if position != axis):
        return None
    return np.broadcast_to(values.reshape(-1), (channels,))


def _merge_pad(node: Node, rewriter: Rewriter) -> Node | str:
    pad = rewriter.only_use(node.inputs[0]) if node.inputs else None
    if pad is None or ops.find(pad.op).general != "pad":
        return node
    amounts, general = pad.attrs["padding"], ops.find(node.op).general
    if general == "pad":
        both = zip(amounts, node.attrs["padding"], strict=True)
        return replace(pad, attrs={"padding": tuple((a + c, b + d) for (a, b), (c, d) in both)})
    if general == "conv" and all(before == after for before, after in amounts):
        total = tuple(own + before for own, (before, _) in zip(node.attrs["padding"], amounts, strict=True))
        return replace(node, inputs=pad.inputs, attrs={**node.attrs, "padding": total})
    return node


def _fold_pad(node: Node, rewriter: Rewriter) -> Node | str:
    """Not for all exporters, of which some know no such convolution. A pad that others read too stays for them."""
    pad = rewriter.nodes.get(node.inputs[0]) if ops.find(node.op).general == "conv" else None
    if pad is None or ops.find(pad.op).general != "pad":
        return node
    axes = zip(pad.attrs["padding"], node.attrs["padding"], strict=True)
    total = tuple((before + own, behind + own) for (before, behind), own in axes)
    return replace(node, inputs=pad.inputs, attrs={**node.attrs, "padding": total})


def _is_removable(node: Node, rewriter: Rewriter) -> bool:
    readers = [set(map(rewriter.current, reader.inputs)) for reader in rewriter.graph.users[node.name]]
    return _is_identity(node, rewriter) and not any({node.inputs[0], node.name} <= read for read in readers)


def _is_identity(node: Node, rewriter: Rewriter) -> bool:
    return ops.find(node.op).identity(rewriter.graph.use(rewriter.graph.by_name[node.name]))


def _array(param: Param) -> Any:
    assert not isinstance(param, (Moments, Factored))
    return param
