"""How rounding moves the moments of smooth activations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import UNIT, Signal32, both_errors
from lbnn.graph.rounding_tails import furthest
from lbnn.ops.smooth import grid_of
from lbnn.ops.smooth_rule import Grid

REACH = 6.0
"""The outermost point of the narrow rule, in sigmas, and a little."""
CUT = 1e-26
"""What is left of the normal tail, times the lines of a function, where the C kernels cut it off."""
UNDERFLOW = 2.0**-118
"""e^-87 times what stands before it in SiLU: the kernels take it for 0."""


def smooth_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """The rounding of the points at which the function is taken is that of E and of sigma: it moves with them."""
    (x,), (error,) = inputs, errors
    sigma = np.sqrt(x.var)
    moved = error.mean + 4.0 * UNIT * (np.abs(x.mean) + REACH * sigma)
    spread = error.var + 8.0 * UNIT * x.var
    corners = [
        Moments(x.mean + s * moved, np.maximum(x.var + t * spread, 0.0)) for s in (1.0, -1.0) for t in (1.0, -1.0)
    ]
    return both_errors(furthest(node, corners, out), _own(node, x, out))


def _own(node: Node, x: Moments[Array], out: Moments[Array]) -> Moments[Array]:
    """Of the sums: 11 terms, or 23 whose squares stand above the variance by (E g)^2, the distance from a line."""
    scale, grid = node.attrs["scale"], grid_of(node.attrs["function"])
    away = np.abs(x.mean) * scale
    limit = grid.limit + grid.growth * np.maximum(away - grid.near, 0.0)
    wide = x.var * scale * scale > limit
    g = out.mean - _line(x.mean * scale, grid) / scale
    tail = CUT * (wide | (grid.growth == 0.0)) * (1.0 / scale + np.sqrt(x.var))
    mean = 12.0 * UNIT * (np.abs(out.mean) + np.sqrt(out.var) + wide * np.abs(g)) + tail + UNDERFLOW / scale
    return Moments(mean, UNIT * (30.0 * out.var + 30.0 * wide * (out.var + g * g)) + tail * tail + tail / scale)


def _line(mean: Array, grid: Grid) -> Array:
    """What the function tends to on the side of E."""
    ends = [side.line[0] * -np.abs(mean) + side.line[1] for side in (grid.left, grid.right)]
    line: Array = np.where(mean < 0, *ends)
    return line


def smooth_point_error(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    """Of a known value: how far the function gets at the ends of the interval, and a few units of its own."""
    (x,), (error,) = inputs, errors
    moved = error + 3.0 * UNIT * np.abs(x)
    formula = ops.find(node.op).formula
    ends = [np.abs(formula(NUMPY, x + s * moved, **node.attrs) - out) for s in (1.0, -1.0)]
    tail = CUT * (grid_of(node.attrs["function"]).growth == 0.0)
    worst: Array = np.maximum(*ends) + 12.0 * UNIT * np.abs(out) + (UNDERFLOW + tail) / node.attrs["scale"]
    return worst
