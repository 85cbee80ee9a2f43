"""How rounding moves the moments of hard-swish: every term of `ops.hardswish` with its own roundings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32, both_errors
from lbnn.graph.rounding_tails import furthest, tail_error
from lbnn.ops.hardswish import LARGEST_SIGMA, hardswish_point
from lbnn.ops.mills import numpy_mills
from lbnn.ops.tail import NARROW_FLOAT32

TURNS = (-3.0, -1.5, 0.0, 3.0)
"""Between these the moments have no extremes that the ends of an interval would miss by much."""


def hardswish_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """What the inputs may have moved the moments, at the ends of their intervals and at turns between."""
    (x,), (error,) = inputs, errors
    low, high = x.mean - error.mean, x.mean + error.mean
    means = [low, high, *(np.clip(turn, low, high) for turn in TURNS if np.any((low < turn) & (turn < high)))]
    places = [Moments(mean, np.maximum(x.var + s * error.var, 0.0)) for mean in means for s in (1.0, -1.0)]
    return both_errors(furthest(node, places, out), _own(x))


def hardswish_point_error(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    """Of a known value: the steepest slope that the interval reaches, the gate, and the product."""
    (x,), (error,) = inputs, errors
    ends = [np.clip(end, -3.0, 3.0) for end in (x - error, x + error)]
    steepest = np.max([np.abs(end / 3.0 + 0.5) for end in ends], axis=0)
    steepest = np.where(x + error < -3.0, 0.0, np.maximum(steepest, np.where(x + error > 3.0, 1.0, 0.0)))
    moved: Array = steepest * error + 4.0 * UNIT * np.abs(out) + LEAST
    return moved


@dataclass(frozen=True)
class _Tail:
    """A tail: Q, and T1 to T4."""

    q: Array
    t1: Array
    t2: Array
    t3: Array
    t4: Array


def _tail(x: Array, sigma: Array) -> _Tail:
    bell = np.exp(-0.5 * np.minimum(x, 38.0) ** 2)
    return _Tail(*(bell * sigma**k * moment for k, moment in enumerate(numpy_mills(x))))


def _own(x: Moments[Array]) -> Moments[Array]:
    """By whichever form is computed for each element."""
    sigma, size = np.minimum(np.sqrt(x.var), LARGEST_SIGMA), np.abs(x.mean)
    at, place = NUMPY.ratio(np.abs(size - 3.0), sigma), NUMPY.ratio(size, np.sqrt(x.var))
    near, far = _tail(at, sigma), _tail(NUMPY.ratio(size + 3.0, sigma), sigma)
    forms = (_inside(x, sigma**2, at, near, far), _outside(x, sigma**2, at, near, far), _beside(x, place))
    is_wide = 6.0 * (size + np.sqrt(x.var)) < NARROW_FLOAT32 * x.var
    mean, var = (np.where(is_wide, c, np.where(size < 3.0, a, b)) for a, b, c in zip(*forms, strict=True))
    return Moments(mean + 8.0 * LEAST, var + 8.0 * LEAST)


def _inside(x: Moments[Array], var: Array, at: Array, near: _Tail, far: _Tail) -> tuple[Array, Array]:
    size, tail = np.minimum(np.abs(x.mean), 3.0), tail_error(at) + 6.0 * UNIT
    line = np.abs(hardswish_point(NUMPY, x.mean)) + var / 6.0
    lost = 0.5 * (near.t1 + far.t1) + (near.t2 + far.t2) / 6.0
    u, own = (var + 9.0 - size**2) / 6.0, (x.mean + 1.5) ** 2 / 9.0 * var + var**2 / 18.0
    beyond = np.zeros_like(size)
    for d, part in ((3.0 - size, near), (3.0 + size, far)):
        k = 1.0 / 3.0 - d / 36.0
        alpha, beta = u + 2.0 * var * k + 0.5 * d + var / 3.0, u / 3.0 + 1.25 + d * k + var / 12.0
        beyond = beyond + alpha * part.t1 + beta * part.t2
    return 4.0 * UNIT * line + tail * lost, 6.0 * UNIT * own + tail * (beyond + lost**2)


def _outside(x: Moments[Array], var: Array, at: Array, near: _Tail, far: _Tail) -> tuple[Array, Array]:
    """The exponential is common to all terms, so that its error does not grow where they cancel."""
    tail, size = tail_error(at), np.abs(x.mean)
    fit = 16.0 * UNIT * tail / (UNIT * (10.0 + 3.5 * np.minimum(at, 8.5) ** 2))  # the same without the square
    apart = 4.0 * UNIT * np.minimum(NUMPY.ratio(6.0 * size, x.var), 1e3)
    first = near.t2 / 6.0 - 0.5 * near.t1 - 0.5 * far.t1 - far.t2 / 6.0
    sizes = near.t2 / 6.0 + 0.5 * near.t1 + 0.5 * far.t1 + far.t2 / 6.0
    rest = 3.0 * far.t1 + 2.25 * far.t2 + 0.5 * far.t3 + far.t4 / 36.0
    square = near.t2 / 4.0 - near.t3 / 6.0 + near.t4 / 36.0 - rest
    terms = near.t2 / 4.0 + near.t3 / 6.0 + near.t4 / 36.0 + rest
    spread = fit * (terms + 2.0 * np.abs(first) * sizes) + tail * (np.abs(square) + 2.0 * first**2) + apart * rest
    more = near.q + far.q + (near.t1 + far.t1) / 1.5
    line = np.where(x.mean < 0.0, 0.0, x.var * (4.0 * UNIT + (tail + 4.0 * UNIT) * more))
    return 3.0 * UNIT * np.maximum(x.mean, 0.0) + (tail + fit) * sizes, spread + line


def _beside(x: Moments[Array], at: Array) -> tuple[Array, Array]:
    """Beside a large sigma: ReLU and the bump, of whose mean and cross term 1.5 and 1.8 / sqrt(2 pi) are below 1."""
    sigma, line, tail = np.sqrt(x.var), np.where(x.mean < 0.0, 0.0, 1.0), tail_error(at) + 12.0 * UNIT
    bell = np.exp(-0.5 * np.minimum(at, 38.0) ** 2)
    q, i1, j2 = (bell * moment for moment in numpy_mills(at)[:3])
    mean, bump = line * x.mean + sigma * i1, bell * NUMPY.ratio(np.ones_like(at), sigma)
    ratio = 5.0 * UNIT * line + tail * (2.0 * line * q + j2 + 2.0 * i1**2)
    return (
        4.0 * UNIT * line * x.mean + tail * (sigma * i1 + bump),
        x.var * ratio + tail * (2.0 * bump + 2.0 * bump * mean + bump**2),
    )
