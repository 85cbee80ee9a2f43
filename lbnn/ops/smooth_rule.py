"""The moments of a smooth function of a Gaussian, by one rule for every mean and variance.

**Narrow** (sigma below the width of the bend): f and f' at the 11 Gauss-Hermite points x_i of the Gaussian. With He_m
Hermite's polynomials, c_m = E[He_m(Z) f'(E + sigma Z)] and

    E' = f(E) + sum_i w_i (f(x_i) - f(E))           V' = V sum_m c_m^2 / (m! (m + 1))

The second is the expansion of the variance in Hermite polynomials: squares only, nothing cancels, and f'(E)^2 V is what
remains as sigma -> 0. (A mean by the slopes too, as that of their integral, is a hundred times less accurate.)

**Wide**: fixed points y_j, a step apart, where g = f - (the line that f tends to on E's side) is known, and beyond the
last point, at its distance a, the line that g becomes there. With G_j the Gaussian's share of point j and T_k the
moments of its tail beyond a,

    E' = line(E) + E g        V' = slope^2 V + 2 slope V E g' + E g^2 - (E g)^2
    E g^k = sum_j g_j^k G_j + (moments of the line beyond a by T_0, T_1, T_2)

A sum over equidistant points of a smooth function times a Gaussian is right to e^(-2 pi^2 (sigma/step)^2): it takes no
more than the points do, for every sigma from one step to infinity, where the kinked or stepped function is left.

Between the two, where V is from T to 1.5 T, both are mixed. T grows with the distance of E beyond 6 units: what matters
there is the exponential tail of f, on which the first rule is right far longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.polynomial.hermite_e import hermegauss, hermeval

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.ops.namespace import Namespace
from lbnn.ops.smooth_functions import Line, Smooth
from lbnn.ops.tail import SQRT_2PI

POINTS = 11
NODES, _MASSES = hermegauss(POINTS)
WEIGHTS = _MASSES / _MASSES.sum()
HERMITE = np.array(
    [WEIGHTS * hermeval(NODES, [0.0] * m + [1.0]) / math.sqrt(math.factorial(m) * (m + 1.0)) for m in range(POINTS)]
)
"""Rows that make c_m / sqrt(m! (m + 1)) of the slopes."""

STEP, GRID = 1.1, 23
"""Of the fixed points, in units of the function, and their number."""
NARROW, MIXED, NEAR = 1.1, 1.5, 6.0
"""Up to NARROW units of sigma the first rule alone; the second alone from MIXED times that variance; NEAR units from 0
the limit begins to grow."""


@dataclass(frozen=True)
class Side:
    """A function as seen from one of its ends: its line there, and g = f - line with its slope at the fixed points,
    from this end to the other; beyond them g is a line again, `far` (slope, and value at a)."""

    line: Line
    g: Array
    slope: Array
    far: Line


@dataclass(frozen=True)
class Grid:
    """The fixed points of a function, which lie evenly around zero, and its two sides."""

    points: Array
    step: float
    end: float
    limit: float
    growth: float
    near: float
    left: Side
    right: Side


def make_grid(function: Smooth) -> Grid:
    """The numbers of the second rule, in float64."""
    step = STEP * function.unit
    points: Array = step * (np.arange(GRID, dtype=np.float64) - (GRID - 1) / 2)
    end = float(points[-1] + step / 2)
    sides = [
        _side(function, points, end, own, other, sign)
        for own, other, sign in ((function.left, function.right, 1.0), (function.right, function.left, -1.0))
    ]
    limit, growth = (NARROW * function.unit) ** 2, 0.5 * function.unit if function.tail else 0.0
    return Grid(points, step, end, limit, growth, NEAR * function.unit, *sides)


def _side(function: Smooth, points: Array, end: float, own: Line, other: Line, sign: float) -> Side:
    """In the coordinate y = sign x, in which E is not above zero."""
    line, far = (sign * own[0], own[1]), (sign * other[0], other[1])
    from lbnn.ops.torch import TORCH  # it imports the operators, this module among them

    value, slope = (part.numpy() for part in function.both(TORCH, torch.tensor(sign * points)))
    g, bent = value - (line[0] * points + line[1]), sign * slope - line[0]
    return Side(line, g, bent, (far[0] - line[0], (far[0] - line[0]) * end + far[1] - line[1]))


def smooth_moments(xp: Namespace, x: Moments[Any], function: Smooth, grid: Grid) -> Moments[Any]:
    """Both rules, mixed."""
    mean, var = x
    size = xp.abs(mean)
    limit = xp.maximum(size - grid.near, 0.0) * grid.growth + grid.limit
    ratio = var / limit
    share = xp.minimum(xp.maximum((ratio - 1.0) * (1.0 / (MIXED - 1.0)), 0.0), 1.0)
    narrow = narrow_moments(xp, Moments(mean, limit * xp.minimum(ratio, MIXED)), function)
    wide = wide_moments(xp, Moments(mean, limit * xp.maximum(ratio, 1.0)), grid)
    return mixed(narrow, wide, share)


def mixed(narrow: Moments[Any], wide: Moments[Any], share: Any) -> Moments[Any]:
    """From the one to the other."""
    return Moments(*(a + share * (b - a) for a, b in zip(narrow, wide, strict=True)))


def narrow_moments(xp: Namespace, x: Moments[Any], function: Smooth) -> Moments[Any]:
    """By values and slopes at the Gauss-Hermite points."""
    sigma = xp.sqrt(x.var)
    value, slope = function.both(xp, xp.fan(x.mean, (1.0,)) + xp.fan(sigma, tuple(NODES)))
    centre = function.value(xp, x.mean)
    rise = xp.drop_last(xp.mix(value - xp.fan(centre, (1.0,)), WEIGHTS[None]))
    parts = xp.mix(slope, HERMITE) * xp.fan(sigma, (1.0,))
    return Moments(centre + rise, xp.drop_last(xp.sum_last(parts * parts)))


def wide_moments(xp: Namespace, x: Moments[Any], grid: Grid) -> Moments[Any]:
    """By the fixed points, for a variance that is not below the limit."""
    away, sigma = xp.abs(x.mean), xp.sqrt(x.var)
    t = xp.shifts(away, tuple(grid.points)) / xp.fan(sigma, (1.0,))
    shares = xp.exp(t * t * -0.5) / xp.fan(sigma * (SQRT_2PI / grid.step), (1.0,))
    beyond = _beyond(xp, away, sigma, grid)
    sides = [_seen_from(xp, Moments(away, x.var), shares, beyond, side) for side in (grid.left, grid.right)]
    return Moments(*(xp.where_negative(x.mean, *parts) for parts in zip(*sides, strict=True)))


def _beyond(xp: Namespace, away: Any, sigma: Any, grid: Grid) -> tuple[Any, Any, Any]:
    """T_k = E[(y - a)^k; y > a] as the points beyond a would give it: the integral, and what a sum adds to it.

    Of a function F the sum over midpoints from a on is the integral plus step^2 F'(a) / 24.
    """
    d = (away + grid.end) / sigma
    q, i1, j2 = xp.tail_mix(d, [(0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)])
    bump = (i1 + d * q) * (grid.step * grid.step / 24.0) / sigma
    return q - bump * d / sigma, sigma * i1 + bump, sigma * sigma * j2


def _seen_from(
    xp: Namespace, x: Moments[Any], shares: Any, beyond: tuple[Any, Any, Any], side: Side
) -> tuple[Any, Any]:
    """Mean and variance by the line of one side, from which E lies `x.mean` away."""
    t0, t1, t2 = beyond
    (slope, height), (rate, start) = side.line, side.far
    first = xp.drop_last(xp.mix(shares, side.g[None])) + t0 * start
    second = xp.drop_last(xp.mix(shares, side.g[None] ** 2)) + t0 * (start * start)
    if rate != 0.0:
        first = first + t1 * rate
        second = second + t1 * (2.0 * start * rate) + t2 * (rate * rate)
    mean, var = first + height, second - first * first
    if slope == 0.0:
        return mean, var
    bent = xp.drop_last(xp.mix(shares, side.slope[None])) + t0 * rate
    return mean - x.mean * slope, var + x.var * (bent * (2.0 * slope) + slope * slope)
