"""How far float32 may be from the reference: a running bound on the error of every mean and variance of a graph.

docs/parity.md derives the rules and says which parts are proven and which are statistical. In short, with u = 2^-24:

- what a value inherits is the error of its inputs times the sensitivity: through sums of means as independent errors
  (root of the sum of squares), through everything else in the worst case;
- what it adds of its own is u times the sum of the sizes of its terms, times a factor that grows with the logarithm of
  their number, so that cancellation shows: a small result of large terms has a bound that is large beside it.

Every backend is meant: any order of summation, with or without fused multiply-add, the graph as traced or simplified.
Overflow is not, and underflow only where it is gradual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import INPUT, Graph, Node
from lbnn.graph.reference import evaluate, in_form
from lbnn.graph.rounding_parts import LEAST, Signal32, each_part
from lbnn.graph.rounding_rules import RULES


def bounds(graph: Graph, mean: Any, var: Any = None) -> dict[str, Moments[Array]]:
    """For every value of the graph a bound on the absolute error of its mean and of its variance, 0 if it is known."""
    errors = propagate(graph, evaluate(graph, mean, var))
    return {name: e if isinstance(e, Moments) else Moments(e, np.zeros_like(e)) for name, e in errors.items()}


def propagate(graph: Graph, values: Mapping[str, Signal32]) -> dict[str, Signal32]:
    """The error of every value that `evaluate` gave, from the input, which is exact, to the end."""
    errors: dict[str, Signal32] = {INPUT: each_part(np.zeros_like, values[INPUT])}
    for node in in_form(graph, isinstance(values[INPUT], Moments)).nodes:
        inputs, inherited = ([table[name] for name in node.inputs] for table in (values, errors))
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite bound is one too
            error = RULES[node.op](node, inputs, inherited, values[node.name])
        errors[node.name] = _underflow(error, values[node.name])
    return errors


def _underflow(error: Signal32, value: Signal32) -> Signal32:
    """Any result that is not zero may be a denormal or come from some."""
    if isinstance(value, Moments):
        return Moments(*(e + 4.0 * LEAST * (v != 0.0) for e, v in zip(error, value, strict=True)))
    return error + 4.0 * LEAST * (value != 0.0)


def costliest(graph: Graph, values: Mapping[str, Signal32], part: int, element: int) -> Node:
    """The node whose own rounding alone costs the output most, in the mean (part 0) or variance (1) of one element."""
    nodes = in_form(graph, isinstance(values[INPUT], Moments)).nodes
    own = {node.name: _own(node, values) for node in nodes}

    def cost(rounded: Node) -> float:
        error = _carried(nodes, values, own, rounded.name)[graph.output]
        parts = tuple(error) if isinstance(error, Moments) else (error, np.zeros_like(error))
        return float(parts[part].flat[element])

    return max(nodes, key=cost)


def _own(node: Node, values: Mapping[str, Signal32]) -> Signal32:
    """What a node adds if its inputs are exact."""
    inputs = [values[name] for name in node.inputs]
    return RULES[node.op](node, inputs, [each_part(np.zeros_like, x) for x in inputs], values[node.name])


def _carried(
    nodes: Sequence[Node], values: Mapping[str, Signal32], own: Mapping[str, Signal32], rounded: str
) -> dict[str, Signal32]:
    """The errors if nothing but the node `rounded` rounds."""
    errors: dict[str, Signal32] = {INPUT: each_part(np.zeros_like, values[INPUT])}
    for node in nodes:
        if node.name == rounded:
            errors[node.name] = own[node.name]
            continue
        inputs, inherited = ([table[name] for name in node.inputs] for table in (values, errors))
        error = RULES[node.op](node, inputs, inherited, values[node.name])
        errors[node.name] = _minus(error, own[node.name])
    return errors


def _minus(error: Signal32, own: Signal32) -> Signal32:
    if isinstance(error, Moments):
        return Moments(np.maximum(error.mean - own.mean, 0.0), np.maximum(error.var - own.var, 0.0))
    return np.maximum(error - own, 0.0)
