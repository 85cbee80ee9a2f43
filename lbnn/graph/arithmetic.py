"""The fewest instructions a layer can take on one scalar core: what its arithmetic needs, whatever the code.

Every number of an input, every weight and every result is moved once (a load or a store); a multiplication with an
addition is one instruction; addresses, loops and calls are free. No code reaches it where a layer has more sums than
the core has registers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from lbnn.base.moments import Moments
from lbnn.graph import Graph, Node

# Per element, counted in the formulas of c_runtime/lbnn_math.h and lbnn_activation.h:
#   sigma, |E|, x = |E| / sigma and its bound 4; x^2, e^(-x^2/2) 12; N, P, T, D, quotient 10; E', V' and sign 11.
LEAKY_RELU = 37
LEAKY_RELU_POINT = 2
SOFTPLUS = 22


def minimum(node: Node, graph: Graph) -> int:
    """Instructions of one node: its arithmetic, its loads and its stores."""
    moved = sum(_numbers(name, graph) for name in (*node.inputs, node.name))
    constants = sum(_size(param) for param in node.params.values())
    return moved + constants + ARITHMETIC.get(node.op, _none)(node, graph)


def _numbers(name: str, graph: Graph) -> int:
    """Mean and variance count apart."""
    value = graph.values[name]
    return prod(value.shape) * (2 if value.random else 1)


def _size(param: Any) -> int:
    return 2 * int(param.mean.size) if isinstance(param, Moments) else int(param.size)


def _elements(name: str, graph: Graph) -> int:
    return prod(graph.values[name].shape)


def _none(node: Node, graph: Graph) -> int:
    return 0


def products(node: Node, graph: Graph) -> int:
    """Pairs of a weight and an input inside the image: products with padding need not be computed."""
    weight: Any = node.params["weight"]
    source, result = graph.values[node.inputs[0]].shape, graph.values[node.name].shape
    if node.op.startswith("linear"):
        return prod(result) * int(weight.mean.shape[1])
    keys = ("stride", "padding", "dilation")
    axes = zip(source[1:], result[1:], weight.mean.shape[2:], *(node.attrs[key] for key in keys), strict=True)
    return result[0] * int(weight.mean.shape[1]) * prod(_taps(*axis) for axis in axes)


def _taps(size: int, positions: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Pairs of a position and a tap along one axis that lie inside."""
    starts = (position * stride - padding for position in range(positions))
    return sum(0 <= start + tap * dilation < size for start in starts for tap in range(kernel))


def _weighted(node: Node, graph: Graph) -> int:
    """Products into mean, S V[w] and V E[w]^2; a square for each weight, S = V + E^2 for each input."""
    return 3 * products(node, graph) + _weights(node) + _elements(node.inputs[0], graph)


def _weighted_point(node: Node, graph: Graph) -> int:
    """Products into mean and x^2 V[w]; x^2 for each input."""
    return 2 * products(node, graph) + _elements(node.inputs[0], graph)


def _weights(node: Node) -> int:
    weight: Any = node.params["weight"]
    return int(weight.mean.size)


def _pooled(node: Node, graph: Graph) -> int:
    """A sum and a product by 1/n or 1/n^2 in each window."""
    source, result = graph.values[node.inputs[0]].shape, graph.values[node.name].shape
    window = (node.attrs[key] for key in ("kernel_size", "stride", "padding"))
    axes = zip(source[1:], result[1:], *window, [1] * len(source[1:]), strict=True)
    parts = 2 if graph.values[node.name].random else 1
    return parts * result[0] * prod(_taps(*axis) for axis in axes)


def _each(count: int) -> Callable[[Node, Graph], int]:
    return lambda node, graph: count * _elements(node.name, graph)


ARITHMETIC: dict[str, Callable[[Node, Graph], int]] = {
    "linear": _weighted,
    "conv": _weighted,
    "linear_point": _weighted_point,
    "conv_point": _weighted_point,
    "avg_pool": _pooled,
    "avg_pool_point": _pooled,
    "leaky_relu": _each(LEAKY_RELU),
    "leaky_relu_clamped": _each(LEAKY_RELU),
    "leaky_relu_point": _each(LEAKY_RELU_POINT),
    "affine": _each(2),
    "affine_point": _each(1),
    "add": _each(2),
    "add_point": _each(1),
    "shift": _each(1),
    "variance_head": _each(SOFTPLUS + 1),
    "variance_head_point": _each(SOFTPLUS),
}
