"""How rounding moves the moments of max pooling: match by match, as the tournament goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32
from lbnn.graph.rounding_tails import tail_error
from lbnn.ops.max_pool import LOWEST, Parts, larger, tournament
from lbnn.ops.tail import SQRT_2PI, numpy_tail_moments


def max_pool_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """The tournament of the moments with their errors beside them."""
    (x,), (error,) = inputs, errors
    attrs: dict[str, Any] = dict(node.attrs)
    *_, mean, var = tournament(NUMPY, (*x, *error), (LOWEST, 0.0, 0.0, 0.0), _match, **attrs)
    return Moments(mean, var)


def max_pool_point_error(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    """Of known values: the largest moves at most as far as any of its window."""
    attrs: dict[str, Any] = dict(node.attrs)
    (moved,) = tournament(NUMPY, (errors[0],), (0.0,), lambda a, b: (np.maximum(a[0], b[0]),), **attrs)
    return np.asarray(moved)


def _match(one: Parts, other: Parts) -> Parts:
    """Moments and errors of the larger of two."""
    x, y = Moments(*one[:2]), Moments(*other[:2])
    out = larger(NUMPY, x, y)
    ends = [
        larger(NUMPY, *(Moments(e + s * de, np.maximum(u + s * du, 0.0)) for e, u, de, du in (one, other)))
        for s in (1.0, -1.0)
    ]
    moved = np.max([np.abs(end.mean - out.mean) for end in ends], axis=0)  # the mean grows with all four
    shifted = _variance_moved(one, other)
    own = _rounding(x, y, out)
    return out.mean, out.var, moved + own.mean, shifted + own.var


def _variance_moved(one: Parts, other: Parts) -> Array:
    """The slopes of V' in lbnn/ops/larger.py, each at its steepest within the errors, times the errors.

    |dV'/dE| <= 2 phi a. |dV'/dV| <= 1 for the larger mean, and for the other one Q + (1 + x) phi, which falls with x;
    where the means may change places both are 1.
    """
    (m, v, m_error, v_error), (n, w, n_error, w_error) = one, other
    width = np.sqrt(v + v_error + w + w_error)
    x = np.minimum(NUMPY.ratio(np.maximum(np.abs(m - n) - m_error - n_error, 0.0), width), 1e3)
    q, _, _ = numpy_tail_moments(x)
    phi = np.exp(-0.5 * x * x) / SQRT_2PI
    little = np.where(x > 0.0, q + (1.0 + x) * phi, 1.0)
    sides = np.where(m < n, little * v_error + w_error, v_error + little * w_error)
    moved: Array = sides + 2.0 * phi * width * (m_error + n_error)
    return moved


def _rounding(x: Moments[Array], y: Moments[Array], out: Moments[Array]) -> Moments[Array]:
    """Of E' = M + a I1 and V' = V (1 - 2 Q) + a^2 (J2 - I1^2): every term with its own roundings.

    a I1: sum, root, product, sum. V: product and sums. The tail in V': sum, two products, two sums.
    """
    square, first = x.var + y.var, x.mean >= y.mean
    width = np.sqrt(square)
    at = NUMPY.ratio(np.abs(x.mean - y.mean), width)
    q, i1, j2 = numpy_tail_moments(at)
    own, tail = np.where(first, x.var, y.var), tail_error(at)
    mean = (tail + 4.0 * UNIT) * width * i1 + UNIT * np.where(i1 > 0.0, np.abs(out.mean), 0.0)
    beyond = 2.0 * own * q + square * (j2 + 2.0 * i1 * i1)
    var = (tail + 6.0 * UNIT) * beyond + 3.0 * UNIT * own + UNIT * out.var + 4.0 * LEAST * (square > 0.0)
    return Moments(mean, var)
