"""A continuous piecewise-linear function of a Gaussian: exact moments, at every variance.

With X = E + sigma Z, h = f - f(E) and Q the normal tail, integration by parts gives, on the right of E,

    E[h; X > E]   = int f'(y)        Q((y - E) / sigma) dy
    E[h^2; X > E] = int 2 h(y) f'(y) Q((y - E) / sigma) dy

and the same on the left of E for the mirrored function. Each cell, that is the part of a piece of slope b on one side
of E, from a to a + d, then adds b B to the first and b (2 h(a) B + b M) to the second, where

    B = int_a^(a+d) Q((y - E) / sigma) dy     M = int_a^(a+d) 2 (y - a) Q((y - E) / sigma) dy

    E' = f(E) + first          V' = second - first^2

For an f that never falls all terms of a side have one sign, and V' >= second / 2, because f(E) is a median of f(X):
nothing cancels, however large or small sigma is beside the pieces, if B and M themselves are right. In standard
deviations, from l to r = l + w, they are differences of tail moments,

    B = sigma (I1(l) - I1(r))          M = sigma^2 (J2(l) - J2(r)) - 2 d sigma I1(r)

which cancel where w (1 + r) is small. There Hermite's rule with the values and three derivatives of Q at both ends is
right, to about w^8 / 2.5e7 of the result (narrow):

    B = d [(Q_l + Q_r) / 2 + 3 w (phi_r - phi_l) / 28 + w^2 (l phi_l + r phi_r) / 84
           + w^3 ((1 - l^2) phi_l - (1 - r^2) phi_r) / 1680]
    M = d^2 [(3 Q_l + 11 Q_r) / 14 + w (phi_r / 6 - phi_l / 21) + w^2 (3 l phi_l + 17 r phi_r) / 840
             - w^3 (1 - r^2) phi_r / 840]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.ops.leaky_relu import same_shape
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.pieces import Pieces, make_pieces, read_kinks, read_slopes, read_value
from lbnn.ops.table import Op, Sample, Use, register_forms
from lbnn.ops.tail import FAR


@dataclass(frozen=True)
class End:
    """An end of a cell: its distance from E in standard deviations, and the tail moments and the density there."""

    x: Any
    q: Any
    i1: Any
    j2: Any

    @property
    def phi(self) -> Any:
        """The density."""
        return self.i1 + self.x * self.q


AT_MEAN = End(0.0, 0.5, 0.3989422804014327, 0.5)
AT_INFINITY = End(0.0, 0.0, 0.0, 0.0)


def piecewise(
    xp: Namespace, x: Moments[Any], kinks: Sequence[float], slopes: Sequence[float], value: float
) -> Moments[Any]:
    """Exact moments of f(a) for a ~ N(E, V): what the docstring of this module derives."""
    pieces, sigma = make_pieces(kinks, slopes, value), xp.sqrt(x.var)
    right = _side(xp, x, sigma, pieces, 1.0)
    left = _side(xp, x, sigma, pieces.mirrored(), -1.0)
    first, second = (one + other for one, other in zip(right, left, strict=True))
    return Moments(_plain(xp, x.mean, pieces) + first, xp.maximum(second - first * first, 0.0))


def _side(xp: Namespace, x: Moments[Any], sigma: Any, pieces: Pieces, sign: float) -> tuple[Any, Any]:
    """First and second moment of h on one side of E; sign -1: on the left, of the mirrored function."""
    begin, height, first, second = AT_MEAN, 0.0, x.mean * 0.0, x.mean * 0.0
    for start, kink, slope in zip((-math.inf, *pieces.kinks), pieces.kinks, pieces.slopes, strict=False):
        end = _end(xp, _within(xp, x.mean, -math.inf, kink, sign), sigma)
        if slope != 0.0:
            length = _within(xp, x.mean, start, kink, sign)
            b, m = _cell(xp, x.var, sigma, begin, end, length)
            first = first + slope * b
            second = second + slope * (2.0 * height * b + slope * m)
            height = height + slope * length
        begin = end
    slope = pieces.slopes[-1]
    b, m = sigma * begin.i1, x.var * begin.j2
    return first + slope * b, second + slope * (2.0 * height * b + slope * m)


def _within(xp: Namespace, mean: Any, start: float, stop: float, sign: float) -> Any:
    """How much of a piece lies beyond E; comparisons are all of E itself, so that rounding can't make two disagree."""
    if sign > 0.0:
        return stop - xp.between(mean, start, stop)
    return xp.between(mean, -stop, -start) + stop


def _end(xp: Namespace, distance: Any, sigma: Any) -> End:
    x = xp.minimum(xp.ratio(distance, sigma), FAR)
    return End(x, *xp.tail_mix(x, [(0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)]))


def _cell(xp: Namespace, var: Any, sigma: Any, begin: End, end: End, length: Any) -> tuple[Any, Any]:
    """B and M of a cell, by whichever form is right for its width."""
    w = xp.minimum(xp.ratio(length, sigma), FAR)
    start, stop = begin.phi, end.phi
    lean, bend = begin.x * start, end.x * stop
    turn = stop - end.x * bend
    b3 = (start - begin.x * lean - turn) * (1 / 1680)
    narrow = 0.5 * (begin.q + end.q) + w * ((stop - start) * (3 / 28) + w * ((lean + bend) * (1 / 84) + w * b3))
    m2 = lean * (3 / 840) + bend * (17 / 840) - w * turn * (1 / 840)
    square = begin.q * (3 / 14) + end.q * (11 / 14) + w * (stop * (1 / 6) - start * (1 / 21) + w * m2)
    spread = var * (begin.j2 - end.j2) - 2.0 * (sigma * end.i1) * length
    is_wide = w * (end.x + 1.0) - xp.narrow(w)
    b = xp.where_negative(is_wide, length * narrow, sigma * (begin.i1 - end.i1))
    return b, xp.where_negative(is_wide, length * length * square, spread)


def piecewise_point(xp: Namespace, x: Any, kinks: Sequence[float], slopes: Sequence[float], value: float) -> Any:
    """The function of a known value."""
    return _plain(xp, x, make_pieces(kinks, slopes, value))


def _plain(xp: Namespace, x: Any, pieces: Pieces) -> Any:
    """f as a sum over its pieces, outwards from where it is smallest."""
    anchor = pieces.anchor()
    total = x * 0.0 + pieces.at(anchor)
    for low, high, slope in zip((-math.inf, *pieces.kinks), (*pieces.kinks, math.inf), pieces.slopes, strict=True):
        if slope != 0.0 and high > anchor:
            start = max(low, anchor)
            total = total + slope * (xp.between(x, start, high) - start)
        if slope != 0.0 and low < anchor:
            stop = min(high, anchor)
            total = total + slope * (xp.between(x, low, stop) - stop)
    return total


def _oracle(x: Tensor, kinks: Sequence[float], slopes: Sequence[float], value: float) -> Tensor:
    """f by linear interpolation between its kinks, and by a line beyond them."""
    pieces = make_pieces(kinks, slopes, value)
    piece = torch.searchsorted(torch.tensor(pieces.kinks, dtype=x.dtype), x.contiguous(), right=True)
    last = (piece - 1).clamp(min=0)
    table = (torch.tensor(numbers, dtype=x.dtype) for numbers in (pieces.values, pieces.kinks, pieces.slopes))
    values, places, steps = table
    return values[last] + steps[piece] * (x - places[last])


def piecewise_shape(x: Shape, kinks: Sequence[float], slopes: Sequence[float], value: float) -> Shape:
    """Of the input; refuses kinks and slopes that do not fit."""
    make_pieces(kinks, slopes, value)
    return same_shape(x)


def _arithmetic(use: Use) -> int:
    """Per element: sigma, the plain function, E' and V' 8; a kink: distance 3, the tail 22, its cells 14."""
    return prod(use.output) * (8 + 39 * len(use.attrs["kinks"]))


def _point_arithmetic(use: Use) -> int:
    """A comparison a kink, and the line."""
    return prod(use.output) * (2 + len(use.attrs["kinks"]))


def _is_line(use: Use) -> bool:
    """The function is x itself."""
    pieces = make_pieces(**use.attrs)
    return set(pieces.slopes) == {1.0} and pieces.value == pieces.kinks[0]


PIECEWISE_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"kinks": (0.0, 6.0), "slopes": (0.0, 1.0, 0.0), "value": 0.0},  # ReLU6
    {"kinks": (-1.0, 1.0), "slopes": (0.0, 1.0, 0.0), "value": -1.0},  # hard-tanh
    {"kinks": (-3.0, 3.0), "slopes": (0.0, 1 / 6, 0.0), "value": 0.0},  # hard-sigmoid
    {"kinks": (0.0,), "slopes": (-1.7, 1.0), "value": 0.0},  # PReLU
    {"kinks": (0.5,), "slopes": (1.0, 0.0), "value": 0.5},  # clamp from above
    {"kinks": (-2.0, -0.5, 0.25, 1.0, 3.0), "slopes": (0.1, 1.0, -0.5, 2.0, 0.0, 0.3), "value": 40.0},
)
"""Examples: those that have names, and one that rises and falls."""

register_forms(
    Op(
        "piecewise",
        piecewise,
        shape=piecewise_shape,
        oracle=_oracle,
        kind="pointwise",
        samples=tuple(Sample(((64,),), {}, attrs) for attrs in PIECEWISE_EXAMPLES),
        arithmetic=_arithmetic,
        memory=IN_PLACE,
        attributes={"kinks": read_kinks, "slopes": read_slopes, "value": read_value},
        identity=_is_line,
        kinks=tuple(sorted({kink for attrs in PIECEWISE_EXAMPLES for kink in attrs["kinks"]})),
    ),
    piecewise_point,
    _point_arithmetic,
)
