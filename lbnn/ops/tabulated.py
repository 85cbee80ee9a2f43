"""Any function of a Gaussian, stored as a table: one rule for every mean and variance.

All lengths are in cells of the table, V too. Let F be the stored function, X = E + sigma Z, and split off a small part
of the noise: X = Y + b Z', with b = 0.6 and Var Y = W = V - b^2. With L(y) and S(y) the mean and the variance of F over
N(y, b^2), stored at the knots y_j, the law of total variance says

    E' = E L(Y)          V' = Var L(Y) + E S(Y)

L and S are smooth on the scale of a cell, whatever F is, and a sum over even places of a smooth function times a
Gaussian is an integral: sum_j L(y_j) G_j with G_j = phi((y_j - E) / sqrt W) / sqrt W is right to 1e-4 from V = 1.2 on,
and to 1e-3 for a kink. Beyond the knots F is a line, and the moments of the normal tail give the rest. To keep digits,
what is summed is g = L - (p + m (y - c)): p is F at c, the place in the table that is nearest to E, and m is 0 inside
the table and the slope of the line outside.

    E' = F(E) + E g        V' = m^2 V + 2 m W E g' + E g^2 - (E g)^2 + E (S - m^2 b^2)

**Narrow** (V < K = 1.2): E' and V' are polynomials in V between V = 0, where F, F' and F'' are known, and K. With
r = V / K, and the results at K marked by 1,

    E' = F + V (f + r (E g_1 / K - f))               f = F'' / 2
    V' = V (F' + r (E f'_1 - F'))^2 + V^2 (f_0 + r (f_1 - f_0)) / 2

where f_0 = F''^2 and f_1 makes V'(K) right: all terms are squares, V' = F'^2 V as V -> 0, and gradients are finite at
0. F'' is the difference of the slopes half a cell to both sides, corrected by what it and E g_1 say of the fourth
derivative, of which it holds 1/24.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.ops.leaky_relu import same_shape
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.stored_function import (
    BLUR,
    KNOT_MARGIN,
    TABLE_ATTRIBUTES,
    StoredFunction,
    check_table,
    make_table,
    stored_function,
)
from lbnn.ops.table import Op, Sample, Use, register_forms
from lbnn.ops.tail import FAR, SQRT_2PI

NARROW_CELL = 1.2
"""The variance, in cells, from which on the sums are right."""
FOURTH = (1.0 / 48.0) / (NARROW_CELL / 8.0 - 1.0 / 48.0)
"""How far the difference of slopes is from F'', as a share of its distance from the chord."""
BLURRED = BLUR * BLUR
LINES_START = KNOT_MARGIN + 0.5
"""Where the lines alone begin: half a cell behind the last knot."""
KNOT_REACH = 40.0
"""Standard deviations beyond which a knot has no share, in float64 too."""


@dataclass(frozen=True)
class Here:
    """F at E, which lies `t` behind the beginning of cell `row`, at `place`, all in cells.

    `inside` is the place of that cell which is nearest to E, with `value` and `slope`, and `m` is the slope of the line
    outside, 0 inside. Places are measured from the cell: from the start they would lose digits.
    """

    place: Any
    row: Any
    t: Any
    inside: Any
    value: Any
    slope: Any
    m: Any

    def plain(self) -> Any:
        """F(E)."""
        return self.value + self.slope * (self.t - self.inside)


def tabulated(xp: Namespace, x: Moments[Any], start: float, step: float, values: Any, slopes: Any) -> Moments[Any]:
    """The moments of F(a) for a ~ N(E, V): what the docstring of this module derives."""
    function = stored_function(start, step, values, slopes)
    here, var = _here(xp, x.mean, function), x.var * (1.0 / (step * step))
    sums = _sums(xp, here, xp.maximum(var, NARROW_CELL), function)
    narrow = _narrow(xp, here, xp.minimum(var, NARROW_CELL), sums, function)
    wide = here.plain() + sums[0], sums[1]
    return Moments(*(xp.where_negative(var - NARROW_CELL, a, b) for a, b in zip(narrow, wide, strict=True)))


def _here(xp: Namespace, x: Any, function: StoredFunction) -> Here:
    place = (x - function.start) * (1.0 / function.step)
    columns, row = xp.cells(place, function.cells)
    t = (x - (row * function.step + function.start)) * (1.0 / function.step)
    inside = xp.between(t, 0.0, 1.0)
    value, slope = _cubic(columns, inside)
    m = xp.where_negative(place, slope, xp.where_negative(function.count - place, slope, 0.0))
    return Here(place, row, t, inside, value, slope, m)


def _cubic(columns: Any, t: Any) -> tuple[Any, Any]:
    """Value and slope within a cell."""
    a, b, c, d = columns
    return a + t * (b + t * (c + t * d)), b + t * (2.0 * c + t * d * 3.0)


def _slope_near(xp: Namespace, here: Here, apart: float, function: StoredFunction) -> Any:
    """F' at a place `apart` from E."""
    columns, row = xp.cells(here.place + apart, function.cells)
    return _cubic(columns, xp.between((here.row - row) + (here.t + apart), 0.0, 1.0))[1]


def _sums(xp: Namespace, here: Here, var: Any, function: StoredFunction) -> tuple[Any, Any, Any]:
    """E g, V' and E F' for a variance that is not below NARROW_CELL."""
    w = var - BLURRED
    sigma, ahead = xp.sqrt(w), xp.shifts(here.row * -1.0, function.knots)
    t = xp.between((ahead - xp.fan(here.t, (1.0,))) / xp.fan(sigma, (1.0,)), -KNOT_REACH, KNOT_REACH)
    shares = xp.exp(t * t * -0.5) / xp.fan(sigma * SQRT_2PI, (1.0,))
    line = (ahead - xp.fan(here.inside, (1.0,))) * xp.fan(here.m, (1.0,))
    g = xp.shifts(here.value * -1.0, function.level) - line
    whole, tilt, spread = (_total(xp, xp.mix(shares, function.rows[i : i + 1])) for i in range(3))
    square = here.m * here.m
    first, second = _total(xp, xp.sum_last(shares * g)), _total(xp, xp.sum_last(shares * g * g))
    bent, second = tilt - here.m * whole, second + spread - square * whole * BLURRED
    for parts in (_beyond(xp, sigma, here, function, side) for side in (-1.0, 1.0)):
        first, second, bent = (a + b for a, b in zip((first, second, bent), parts, strict=True))
    total = second - first * first + square * var + here.m * bent * w * 2.0
    return first, xp.maximum(total, 0.0), here.m + bent


def _total(xp: Namespace, x: Any) -> Any:
    return xp.drop_last(x)


def _beyond(xp: Namespace, sigma: Any, here: Here, function: StoredFunction, side: float) -> tuple[Any, Any, Any]:
    """What the line beyond one end adds to E g, to E g^2 + E (S - m^2 b^2) and to E g'; nothing if E lies on it.

    T_k = E[(y - a)^k; y > a] as knots beyond a would give it: of a function F the sum over midpoints from a on is the
    integral plus F'(a) / 24.
    """
    slope, value = function.ends[0 if side < 0.0 else 1]
    end = 0.0 if side < 0.0 else float(function.count)
    ahead = (end - here.place) * side
    d = xp.minimum(xp.maximum((ahead + LINES_START) / sigma, 0.0), FAR)
    q, i1, j2 = xp.tail_mix(d, [(0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)])
    bump = (i1 + d * q) * (1.0 / 24.0) / sigma
    t0, t1, t2 = q - bump * d / sigma, sigma * i1 + bump, sigma * sigma * j2
    rate = (slope - here.m) * side
    start = (
        value + slope * side * LINES_START - here.value - here.m * (end - (here.row + here.inside) + side * LINES_START)
    )
    noise = (slope * slope - here.m * here.m) * BLURRED
    parts = (
        t0 * start + t1 * rate,
        t0 * (start * start + noise) + t1 * start * rate * 2.0 + t2 * rate * rate,
        t0 * rate * side,
    )
    first, second, bent = (xp.where_negative(ahead, 0.0, part) for part in parts)
    return first, second, bent


def _narrow(xp: Namespace, here: Here, var: Any, at: tuple[Any, Any, Any], function: StoredFunction) -> tuple[Any, Any]:
    """Between the plain function and the sums at NARROW_CELL."""
    first, wide, slope = at
    right, left = (_slope_near(xp, here, apart, function) for apart in (0.5, -0.5))
    chord, half, r = first * (1.0 / NARROW_CELL), (right - left) * 0.5, var * (1.0 / NARROW_CELL)
    bend = half - (chord - half) * FOURTH
    rest = xp.maximum(wide - slope * slope * NARROW_CELL, 0.0) * (2.0 / (NARROW_CELL * NARROW_CELL))
    steep = here.slope + r * (slope - here.slope)
    curved = bend * bend * 4.0
    return (
        here.plain() + var * (bend + r * (chord - bend)),
        var * (steep * steep + var * (curved + r * (rest - curved)) * 0.5),
    )


def tabulated_point(xp: Namespace, x: Any, start: float, step: float, values: Any, slopes: Any) -> Any:
    """F of a known value."""
    return _here(xp, x, stored_function(start, step, values, slopes)).plain()


def torch_tabulated(xp: Namespace, x: Any, **table: Any) -> Any:
    """Either form over tensors; half precision, which has no digits for places in a table, is computed in float32."""
    mean = x.mean if isinstance(x, Moments) else x
    if mean.dtype in (torch.float32, torch.float64):
        return (tabulated if isinstance(x, Moments) else tabulated_point)(xp, x, **table)
    if isinstance(x, Moments):
        out = tabulated(xp, Moments(x.mean.float(), x.var.float()), **table)
        return Moments(out.mean.to(mean.dtype), out.var.to(mean.dtype))
    return tabulated_point(xp, x.float(), **table).to(mean.dtype)


def _oracle(x: Tensor, start: float, step: float, values: Any, slopes: Any) -> Tensor:
    """F by Hermite's form of the cubics: values and slopes at both ends, each times its own polynomial."""
    height, slope = (torch.tensor(numbers, dtype=x.dtype) for numbers in (values, slopes))
    place = (x - start) / step
    inside = place.clamp(0.0, len(values) - 1.0)
    left = inside.floor().clamp(max=len(values) - 2.0).long()
    t, right = inside - left, left + 1
    u = 1.0 - t
    value = u * u * (1.0 + 2.0 * t) * height[left] + t * t * (1.0 + 2.0 * u) * height[right]
    value = value + step * t * u * (u * slope[left] - t * slope[right])
    return value + step * torch.where(place < 0.0, slope[0], slope[-1]) * (place - inside)


def tabulated_shape(x: Shape, start: float, step: float, values: Any, slopes: Any) -> Shape:
    """Of the input; refuses a table whose parts do not fit."""
    check_table(values, slopes)
    return same_shape(x)


def _held(use: Use) -> int:
    """A number for each knot."""
    return prod(use.output) * (len(use.attrs["values"]) + 2 * KNOT_MARGIN)


def _arithmetic(use: Use) -> int:
    """Per element: the cubics 30, roots and ends 60, the narrow rule 25; a knot: its share 12, its sums 9."""
    return prod(use.output) * (115 + 21 * 12)


def _point_arithmetic(use: Use) -> int:
    """The place, its cell and a cubic."""
    return prod(use.output) * 12


def _wave(count: int, step: float) -> dict[str, Any]:
    """A function that rises and falls, with a corner of its slope in the middle, and lines of both signs."""
    places = [step * i - 0.5 * step * count for i in range(count + 1)]
    values = [0.25 * x * abs(x) / (1.0 + abs(x)) - 0.1 * x + 0.5 for x in places]
    slopes = [0.25 * abs(x) * (2.0 + abs(x)) / (1.0 + abs(x)) ** 2 - 0.1 for x in places]
    return make_table(places[0], step, values, slopes)


TABLE_EXAMPLES = (_wave(16, 0.5), _wave(40, 0.3))

register_forms(
    Op(
        "tabulated",
        tabulated,
        shape=tabulated_shape,
        oracle=_oracle,
        kind="smooth",
        samples=tuple(
            Sample((shape,), {}, attrs) for shape, attrs in zip(((64,), (2, 3, 4)), TABLE_EXAMPLES, strict=True)
        ),
        arithmetic=_arithmetic,
        memory=IN_PLACE,
        attributes=TABLE_ATTRIBUTES,
        held=_held,
        tolerance=2e-6,
    ),
    tabulated_point,
    _point_arithmetic,
)
