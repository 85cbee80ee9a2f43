"""Smooth activations of a Gaussian: sigmoid, tanh, SiLU, GELU and softplus as one operator."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each
from lbnn.ops.attributes import number
from lbnn.ops.leaky_relu import same_shape
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace
from lbnn.ops.smooth_functions import FUNCTIONS
from lbnn.ops.smooth_rule import Grid, make_grid, smooth_moments
from lbnn.ops.table import Op, Sample, register_forms


def smooth(xp: Namespace, x: Moments[Any], function: str, scale: float) -> Moments[Any]:
    """The moments of f(scale a) / scale for a ~ N(E, V), by the rule of lbnn/ops/smooth_rule.py."""
    if scale != 1.0:
        inner = smooth(xp, Moments(x.mean * scale, x.var * (scale * scale)), function, 1.0)
        return Moments(inner.mean * (1.0 / scale), inner.var * (1.0 / (scale * scale)))
    return smooth_moments(xp, x, FUNCTIONS[function], grid_of(function))


def smooth_point(xp: Namespace, x: Any, function: str, scale: float) -> Any:
    """The plain function of a known value."""
    value = FUNCTIONS[function].value
    return value(xp, x) if scale == 1.0 else value(xp, x * scale) * (1.0 / scale)


@lru_cache
def grid_of(function: str) -> Grid:
    """The stored numbers of a function."""
    return make_grid(FUNCTIONS[function])


def stored_table(function: str) -> Array:
    """The same numbers in the order of c_runtime/lbnn_smooth.h."""
    grid = grid_of(function)
    head = [grid.limit, grid.growth, grid.near, grid.points[0], grid.step, grid.end]
    lines = [number for side in (grid.left, grid.right) for number in (*side.line, *side.far)]
    rows = np.stack([grid.left.g, grid.left.slope, grid.right.g, grid.right.slope], axis=1)
    return np.concatenate([head, lines, rows.reshape(-1)])


def _name(key: str, value: Any) -> str:
    if type(value) is not str or value not in FUNCTIONS:
        raise LbnnError(f"{key} must be one of {', '.join(FUNCTIONS)}")
    return value


def _oracle(x: Any, function: str, scale: float) -> Any:
    return FUNCTIONS[function].oracle(x * scale) / scale


# Per element, counted in the formulas of c_runtime/lbnn_smooth.h for the logistic function and sigma within a unit:
#   limit and root 6; of each of 11 points its place 1, e^-|x| 13, q, value and slope 5; sums 11 + 66, squares 11.
_ARITHMETIC, _POINT_ARITHMETIC = each(6 + 19 * 11 + 88), each(18)

register_forms(
    Op(
        "smooth",
        smooth,
        shape=same_shape,
        oracle=_oracle,
        kind="smooth",
        samples=(
            *(Sample(((64,),), {}, {"function": name, "scale": 1.0}) for name in FUNCTIONS),
            Sample(((2, 3, 4),), {}, {"function": "softplus", "scale": 2.5}),
        ),
        arithmetic=_ARITHMETIC,
        memory=IN_PLACE,
        attributes={"function": _name, "scale": number(1e-6, 1e6)},
        tolerance=2e-6,
    ),
    smooth_point,
    _POINT_ARITHMETIC,
)
