"""Known values that integers take with variances alone: they get the variance zero, and the input is packed first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lbnn import ops
from lbnn.graph.graph import INPUT, Graph, Node, rebuild
from lbnn.graph.ints.balance import balanced
from lbnn.graph.kept import kept
from lbnn.ops import Shape

TAKE_INPUT = {
    *("linear", "linear_point", "affine", "affine_point", "flatten", "flatten_point"),
    *("conv", "conv_point", "pad", "pad_point"),
}
"""What reads the input as it is given."""

TAKE_KNOWN = {*TAKE_INPUT, "lift"}
"""What reads values without variances."""


@kept
def with_variances(graph: Graph) -> Graph:
    """The graph where each node reads what its kernel takes; the same graph if all do."""
    graph = balanced(graph)
    while (node := next((node for node in graph.nodes if _misses(node, graph)), None)) is not None:
        graph = _packed(graph, node) if _reads_input(node, graph) else _lifted(graph, node)
    return graph


def root_of(graph: Graph, name: str) -> str:
    """The value whose memory `name` has: what is flattened is its input."""
    node = graph.by_name.get(name)
    return root_of(graph, node.inputs[0]) if node is not None and ops.find(node.op).general == "flatten" else name


def is_written(node: Node, graph: Graph) -> bool:
    """Whether padding is a value of its own: convolutions, and what pads for them, read what is padded."""
    users = graph.users[node.name]
    return graph.output == node.name or any(
        ops.find(user.op).general != "conv" and not (ops.find(user.op).general == "pad" and not is_written(user, graph))
        for user in users
    )


def _misses(node: Node, graph: Graph) -> bool:
    return _reads_input(node, graph) or _reads_known(node, graph)


def _reads_input(node: Node, graph: Graph) -> bool:
    """Of itself, where its kernel takes packed values."""
    takes = node.op in TAKE_INPUT and not _is_value_of_pad(node, graph)
    return not takes and any(root_of(graph, name) == INPUT for name in node.inputs)


def _reads_known(node: Node, graph: Graph) -> bool:
    known = any(not graph.values[name].random for name in node.inputs)
    if node.op == "affine_point":
        return root_of(graph, node.inputs[0]) != INPUT
    takes = node.op in (*TAKE_KNOWN, "shift") and not _is_value_of_pad(node, graph)
    return known and not takes


def _is_value_of_pad(node: Node, graph: Graph) -> bool:
    return ops.find(node.op).general == "pad" and is_written(node, graph)


def _packed(graph: Graph, node: Node) -> Graph:
    """With a map of the input by 1, which packs it, in front of the node."""
    names = [name for name in dict.fromkeys(node.inputs) if root_of(graph, name) == INPUT]
    made = {name: Node(f"{name}_packed", "affine", (name,), {}, _ones(graph.values[name].shape)) for name in names}
    return _in_front(graph, node, made)


def _lifted(graph: Graph, node: Node) -> Graph:
    """With the variance zero in front of the node."""
    names = [name for name in dict.fromkeys(node.inputs) if not graph.values[name].random]
    return _in_front(graph, node, {name: Node(f"{name}_random", "lift", (name,)) for name in names})


def _in_front(graph: Graph, node: Node, made: Mapping[str, Node]) -> Graph:
    """Nodes that are made of a node's inputs stand in the place of these, each once for all that need it."""
    nodes: list[Node] = []
    for other in graph.nodes:
        general = replace(other, op=ops.find(other.op).general)
        if other is node:
            nodes += [each for each in made.values() if each.name not in graph.by_name]
            inputs = (made[name].name if name in made else name for name in other.inputs)
            general = replace(general, inputs=tuple(inputs))
        nodes.append(general)
    return rebuild(graph, nodes)


def _ones(shape: Shape) -> dict[str, np.ndarray]:
    return {"scale": np.ones(shape), "shift": np.zeros(shape)}
