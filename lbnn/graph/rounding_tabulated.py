"""How rounding moves the moments of a stored function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32, both_errors
from lbnn.graph.rounding_tails import furthest
from lbnn.ops.stored_function import stored_function
from lbnn.ops.tabulated import tabulated_point

ROUNDED_REACH = 7.0
"""Standard deviations beyond which knots have no share worth mentioning."""
KNOT_CUT = 1e-11
"""What C leaves out of the shares of knots, times all that the function may be there."""


def tabulated_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """The rounding of the places of knots is that of E and of sigma: it moves with them."""
    (x,), (error,) = inputs, errors
    sigma = np.sqrt(x.var)
    places = np.abs(x.mean) + abs(node.attrs["start"]) + ROUNDED_REACH * sigma
    moved = error.mean + 4.0 * UNIT * places
    spread = error.var + 8.0 * UNIT * x.var
    corners = [
        Moments(x.mean + s * moved, np.maximum(x.var + t * spread, 0.0)) for s in (1.0, -1.0) for t in (1.0, -1.0)
    ]
    return both_errors(furthest(node, corners, out), _own(node, x, out))


def _own(node: Node, x: Moments[Array], out: Moments[Array]) -> Moments[Array]:
    """Of the sums: g is the difference of a stored number and F(E), both rounded; what it adds to the variance stands
    above it by (E g)^2 inside the table, and by what the line's slope makes of V outside."""
    function = stored_function(**node.attrs)
    plain: Array = tabulated_point(NUMPY, x.mean, **node.attrs)
    steepest = float(np.abs(function.rows[1]).max()) / function.step
    size, sd = np.abs(out.mean) + np.abs(plain), np.sqrt(out.var)
    apart, line = np.abs(out.mean - plain), steepest * np.sqrt(x.var)
    cut = KNOT_CUT * (steepest * function.step * function.count + line) * (x.var > 0.0)
    mean = UNIT * (12.0 * size + 30.0 * (sd + apart)) + cut + 8.0 * LEAST
    var = UNIT * (40.0 * out.var + 40.0 * apart**2 + 8.0 * (size + apart) * sd + 4.0 * line * sd) + cut * (sd + cut)
    return Moments(mean, var + (8.0 * UNIT * np.minimum(size, line)) ** 2 + 8.0 * LEAST)


def tabulated_point_error(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    """Of a known value: how far the function gets at the ends of the interval, and a few units of its own cubic."""
    (x,), (error,) = inputs, errors
    moved = error + 4.0 * UNIT * (np.abs(x) + abs(node.attrs["start"]))  # its place in the table is rounded
    formula = ops.find(node.op).formula
    ends = [np.abs(formula(NUMPY, x + s * moved, **node.attrs) - out) for s in (1.0, -1.0)]
    cells = stored_function(**node.attrs).cells
    steepest = float(np.abs(cells[:, 1:]).max())
    worst: Array = np.maximum(*ends) + UNIT * (12.0 * np.abs(out) + 8.0 * steepest) + 8.0 * LEAST
    return worst
