"""The fewest instructions a layer can take on one scalar core: what its arithmetic needs, whatever the code.

Every number of an input, every weight and every result is moved once (a load or a store); what else an operator takes
is its own fact. No code reaches it where a layer has more sums than the core has registers; an activation takes less of
units far from its kinks, where it is a line, than what is counted here, which is the arithmetic of units near them.
"""

from __future__ import annotations

from math import prod
from typing import Any

from lbnn import ops
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph.graph import Graph, Node


def minimum(node: Node, graph: Graph) -> int:
    """Instructions of one node: its arithmetic, its loads and its stores."""
    moved = sum(_numbers(name, graph) for name in (*node.inputs, node.name))
    constants = sum(_size(param) for param in node.params.values())
    return moved + constants + ops.find(node.op).arithmetic(graph.use(node))


def _numbers(name: str, graph: Graph) -> int:
    """Mean and variance count apart."""
    value = graph.values[name]
    return prod(value.shape) * (2 if value.random else 1)


def _size(param: Any) -> int:
    if isinstance(param, Factored):
        return int(param.mean.size + param.row.size + param.column.size)
    return 2 * int(param.mean.size) if isinstance(param, Moments) else int(param.size)
