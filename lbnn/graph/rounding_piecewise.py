"""How rounding moves the moments of piecewise-linear functions: the errors of the cells that `ops.piecewise` sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32, both_errors
from lbnn.graph.rounding_tails import furthest, tail_error
from lbnn.ops.pieces import Pieces, make_pieces
from lbnn.ops.piecewise import piecewise_point
from lbnn.ops.tail import NARROW_FLOAT32, numpy_tail_moments

NARROW_RULE_ERROR = 3e-6
"""The relative error of the rule for narrow cells at w (1 + r) = NARROW_FLOAT32; it falls with the 8th power."""


def piecewise_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """What the inputs may have moved the moments, at the ends of their intervals and at kinks and pieces between."""
    (x,), (error,), pieces = inputs, errors, make_pieces(**node.attrs)
    low, high = x.mean - error.mean, x.mean + error.mean
    between = (*pieces.kinks, *(0.5 * (a + b) for a, b in pairwise(pieces.kinks)))
    means = [low, high, *(np.clip(place, low, high) for place in between if np.any((low < place) & (place < high)))]
    places = [Moments(mean, np.maximum(x.var + s * error.var, 0.0)) for mean in means for s in (1.0, -1.0)]
    return both_errors(furthest(node, places, out), _own(x, pieces, out))


def piecewise_point_error(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    """Of a known value: the steepest slope that the interval reaches, and the line."""
    (x,), (error,), pieces = inputs, errors, make_pieces(**node.attrs)
    ends = ((-np.inf, *pieces.kinks), (*pieces.kinks, np.inf), pieces.slopes)
    steepest = np.max([abs(b) * ((x + error >= s) & (x - error <= e)) for s, e, b in zip(*ends, strict=True)], axis=0)
    moved: Array = steepest * error + _line_error(x, pieces)
    return moved


def _line_error(x: Array, pieces: Pieces) -> Array:
    """Of f(x), a sum from where f is smallest: every piece on the way with its slope, product and sum."""
    anchor = pieces.anchor()
    sizes = Pieces(pieces.kinks, tuple(map(abs, pieces.slopes)), 0.0)
    way = np.abs(_at(sizes, x) - sizes.at(anchor)) + abs(pieces.at(anchor))
    return (3.0 + len(pieces.slopes)) * UNIT * way + 4.0 * LEAST * (way > 0)


def _at(pieces: Pieces, x: Array) -> Array:
    values: Array = piecewise_point(NUMPY, x, pieces.kinks, pieces.slopes, pieces.value)
    return values


@dataclass(frozen=True)
class _End:
    """An end of a cell: x, and Q, I1, J2 with their relative error there."""

    x: Any
    q: Any
    i1: Any
    j2: Any
    error: Any


_AT_MEAN = _End(0.0, 0.5, 0.3989422804014327, 0.5, 2.0 * UNIT)
_AT_INFINITY = _End(40.0, 0.0, 0.0, 0.0, 0.0)


def _own(x: Moments[Array], pieces: Pieces, out: Moments[Array]) -> Moments[Array]:
    """E' = f(E) + first and V' = second - first^2, each sum with the errors of its cells and its own roundings."""
    sides = [_side(x, part, sign) for part, sign in ((pieces, 1.0), (pieces.mirrored(), -1.0))]
    first, moved, second, spread = (one + other for one, other in zip(*sides, strict=True))
    growth = UNIT * (4.0 + np.log2(len(pieces.slopes)))
    mean_error = moved + growth * first
    square = 2.0 * np.abs(out.mean - _at(pieces, x.mean)) * mean_error + mean_error**2
    return Moments(_line_error(x.mean, pieces) + mean_error, spread + growth * second + square + 2.0 * UNIT * out.var)


def _side(x: Moments[Array], pieces: Pieces, sign: float) -> tuple[Array, Array, Array, Array]:
    """The sizes of all terms of first and second of one side of E, each followed by their error."""
    sigma, height, begin = np.sqrt(x.var), np.zeros_like(x.mean), _AT_MEAN
    first, moved, second, spread = (np.zeros_like(x.mean) for _ in range(4))
    for kink, slope, gap in zip((*pieces.kinks, np.inf), np.abs(pieces.slopes), pieces.gaps, strict=True):
        ahead = np.maximum(kink - sign * x.mean, 0.0)
        end, length = _end(ahead, sigma), np.where(kink < np.inf, np.minimum(ahead, gap), 0.0)
        (b, b_error), (m, m_error) = _cell(begin, end, length, sigma, min(pieces.gaps))
        first, moved = first + slope * b, moved + slope * b_error
        second = second + slope * (2.0 * height * b + slope * m)
        spread = spread + slope * (2.0 * height * (b_error + 4.0 * UNIT * b) + slope * m_error)
        height, begin = height + slope * length, end
    return first, moved, second, spread


def _end(ahead: Array, sigma: Array) -> _End:
    if np.all(np.isinf(ahead)):
        return _AT_INFINITY
    at = NUMPY.ratio(ahead, sigma)
    return _End(np.minimum(at, 40.0), *numpy_tail_moments(at), tail_error(at) + 6.0 * UNIT)


def _cell(begin: _End, end: _End, length: Array, sigma: Array, shortest: float) -> tuple[tuple[Array, Array], ...]:
    """B and M with their errors: of the differences, or of the rule for narrow cells.

    C takes differences of whole pieces where none is shorter than sigma, so that parts of a piece may be narrow there.
    """
    width = np.minimum(NUMPY.ratio(length, sigma), 40.0) * (1.0 + end.x)
    b, m = sigma * (begin.i1 - end.i1), sigma**2 * (begin.j2 - end.j2) - 2.0 * sigma * end.i1 * length
    b_wide = sigma * (begin.error * begin.i1 + end.error * end.i1)
    m_wide = sigma**2 * (begin.error * begin.j2 + end.error * end.j2) + 2.0 * end.error * sigma * end.i1 * length
    relative = begin.error + end.error + 12.0 * UNIT + NARROW_RULE_ERROR * np.minimum(width / NARROW_FLOAT32, 1.0) ** 8
    tail = np.minimum(0.5 * (begin.q + end.q), 0.5)
    narrow = (width < 0.95 * NARROW_FLOAT32) & (sigma > shortest) & (end is not _AT_INFINITY)
    b, m = np.where(narrow, length * tail, b), np.where(narrow, length**2 * tail, m)
    return (b, np.where(narrow, relative * b, b_wide)), (m, np.where(narrow, relative * m, m_wide))
