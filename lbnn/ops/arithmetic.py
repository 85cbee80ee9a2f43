"""The fewest instructions that an operator's arithmetic takes on one scalar core, whatever the code.

A multiplication with an addition is one instruction; addresses, loops, calls, loads and stores are not counted here.
Of activations it is that of units near a kink: far from it they are a line, and take less.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from lbnn.base.factored import Factored
from lbnn.ops.namespace import Shape
from lbnn.ops.table import Use

SOFTPLUS = 22
"""Counted in c_runtime/lbnn_math.h: exponential 12, logarithm and the rest 10."""


def none(use: Use) -> int:
    """Elements only move."""
    return 0


def each(count: int) -> Callable[[Use], int]:
    """So many for each element of the result."""
    return lambda use: count * prod(use.output)


def weighted(products: Callable[[Use], int]) -> Callable[[Use], int]:
    """Products into mean, S V[w] and V E[w]^2; a square for each weight, S = V + E^2 for each input."""
    return lambda use: _in_mean_and_spread(use, products(use), 2) + int(use.params["weight"].mean.size)


def weighted_point(products: Callable[[Use], int]) -> Callable[[Use], int]:
    """Products into mean and x^2 V[w]; x^2 for each input."""
    return lambda use: _in_mean_and_spread(use, products(use), 1)


def _in_mean_and_spread(use: Use, products: int, known: int) -> int:
    """Products into `known` sums of means, and those with variances, which all outputs of a group may share."""
    weight, inputs = use.params["weight"], prod(use.inputs[0])
    if isinstance(weight, Factored):
        return known * products + products * weight.groups // len(weight.row) + prod(use.output) + inputs
    return (known + 1) * products + inputs


def pairs_inside(use: Use, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> int:
    """Pairs of a position and a tap inside the image: products with padding need not be computed."""
    axes = zip(use.inputs[0][1:], use.output[1:], kernel, stride, padding, dilation, strict=True)
    return prod(taps_inside(*axis) for axis in axes)


def taps_inside(size: int, positions: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Pairs of a position and a tap along one axis that lie inside, tap by tap or window by window."""
    if kernel <= positions:
        return sum(_steps_inside(tap * dilation - padding, stride, positions, size) for tap in range(kernel))
    return sum(_steps_inside(number * stride - padding, dilation, kernel, size) for number in range(positions))


def _steps_inside(start: int, step: int, count: int, size: int) -> int:
    """How many of start, start + step, ... (`count` of them) are in [0, size)."""
    first = max(0, -(start // step))
    beyond = max(0, (size - start + step - 1) // step)
    return max(0, min(count, beyond) - first)
