"""Inputs of very different sizes, in a network that does not standardise them.

In integers all inputs have one exponent: beside a pressure of 100,000 Pa a humidity of 0.5 would have no bits left. The
sizes of a layer's weights tell those of its inputs: powers of two, which change no digit, make both about 1, as
`typical.py` takes inputs to be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph.graph import INPUT, Graph, Node, rebuild

APART = 4
"""Powers of two by which sizes may differ, or be above 1, before inputs are scaled: fewer cost no bits that matter."""

BALANCED = "input_balanced"


def balanced(graph: Graph) -> Graph:
    """The same numbers with powers of two in front of the first layers; the same graph if these need none."""
    users = graph.users[INPUT]
    if len(graph.input.shape) != 1 or not users or any(ops.find(user.op).general != "linear" for user in users):
        return graph
    powers = _powers(np.max([_sizes(user) for user in users], axis=0))
    if max(np.ptp(powers), powers.max()) < APART or BALANCED in graph.by_name:
        return graph
    scale = np.ldexp(1.0, powers)
    made = Node(BALANCED, "affine", (INPUT,), {}, {"scale": scale, "shift": np.zeros_like(scale)})
    readers = {user.name for user in users}
    return rebuild(graph, [made, *(_for_scaled(node, scale) if node.name in readers else node for node in graph.nodes)])


def _sizes(node: Node) -> Array:
    """Of each input the largest weight, its uncertainty included."""
    weight = cast(Any, node.params["weight"])
    sizes: Array = np.sqrt(np.max(weight.mean**2 + weight.var, axis=0))
    return sizes


def _powers(sizes: Array) -> Any:
    """How large each input's weights are; those that are all zero need nothing."""
    return np.where(sizes > 0, np.frexp(sizes)[1], 0)


def _for_scaled(node: Node, scale: Array) -> Node:
    weight = cast(Any, node.params["weight"])
    scaled = (
        weight.times_columns(np.broadcast_to(1.0 / scale, weight.shape))
        if isinstance(weight, Factored)
        else Moments(weight.mean / scale, weight.var / scale**2)
    )
    return replace(node, op="linear", inputs=(BALANCED,), params={**node.params, "weight": scaled})
