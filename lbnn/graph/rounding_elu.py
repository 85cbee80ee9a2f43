"""How rounding moves the moments of ELU: the errors of the terms that `ops.elu` sums, by the form that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32, both_errors
from lbnn.graph.rounding_tails import furthest, tail_error
from lbnn.ops.elu import LIMIT
from lbnn.ops.tail import NARROW_FLOAT32, numpy_tail_moments

END = 2.0**-121
"""e^-87 and a little: where the kernels' exponential stays."""


@dataclass(frozen=True)
class _Input:
    """In units of beta, with the tail beyond x and its relative error."""

    mean: Array
    var: Array
    sigma: Array
    q: Array
    i1: Array
    j2: Array
    error: Array

    @property
    def wide(self) -> Any:
        """Where the differences may be taken."""
        return self.sigma > 0.99 * LIMIT * NARROW_FLOAT32


def elu_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """At the corners of what the inputs, the division by beta and the exponents may be off, and at 0 between them."""
    (x,), (error,) = inputs, errors
    moved, spread = error.mean + 3.0 * UNIT * np.abs(x.mean), error.var + 6.0 * UNIT * x.var
    means = [x.mean + moved, x.mean - moved, np.where(np.abs(x.mean) < moved, 0.0, x.mean)]
    corners = [Moments(mean, np.maximum(x.var + s * spread, 0.0)) for mean in means for s in (1.0, -1.0)]
    return both_errors(furthest(node, corners, out), _own(x, out, **node.attrs))


def _own(x: Moments[Array], out: Moments[Array], alpha: float, beta: float, scale: float) -> Moments[Array]:
    k, factor, var = alpha / beta, scale * beta, x.var / beta**2
    at = NUMPY.ratio(np.abs(x.mean) / beta, np.sqrt(var))
    given = _Input(x.mean / beta, var, np.sqrt(var), *numpy_tail_moments(at), tail_error(at) + 12.0 * UNIT)
    mean, spread = (np.where(x.mean < 0, *parts) for parts in zip(_below(given, k), _above(given, k), strict=True))
    return Moments(
        factor * (mean + 2.0 * LEAST * (1.0 + k)) + 2.0 * UNIT * np.abs(out.mean),
        factor**2 * (spread + 2.0 * END * k * k) + 4.0 * UNIT * out.var + LEAST,
    )


def _above(x: _Input, k: float) -> tuple[Array, Array]:
    """E' = E + B: differences of Q where sigma is large, sums that are smaller than sigma I1 where it is not."""
    tail = x.sigma * x.i1
    first = x.error * (tail * (1.0 + k) + 3.0 * k * x.q * x.wide) + UNIT * np.abs(x.mean)
    second = x.var * (x.j2 + 2.0 * x.q) + 2.0 * k * x.mean * np.where(x.wide, x.q, tail)
    square = k * k * np.where(x.wide, 4.0 * x.q, x.var * x.j2)
    return first, 6.0 * UNIT * x.var + x.error * (second + square) + 2.0 * (1.0 + k) * tail * first


def _below(x: _Input, k: float) -> tuple[Array, Array]:
    """The sums, and what lies below zero in the other form, which is 1 at most."""
    narrow, wide = _below_narrow(x, k), _below_wide(x, k)
    mean, var = (np.where(x.wide, np.maximum(a, b), a) for a, b in zip(narrow, wide, strict=True))
    return mean, var


def _below_narrow(x: _Input, k: float) -> tuple[Array, Array]:
    """E[e^t - 1] over the tail is at most 2 sigma I1 there, its square 3 V J2."""
    sigma = np.minimum(x.sigma, LIMIT * NARROW_FLOAT32)
    power = np.minimum(x.mean, 0.0) + 0.5 * sigma**2
    tail, rise, size = sigma * x.i1, k * np.abs(np.expm1(power)), k * np.exp(power)
    first = 4.0 * UNIT * rise + x.error * tail * (1.0 + 2.0 * k)
    own = 10.0 * UNIT * size**2 * sigma**2 + x.error * sigma**2 * x.j2 * (1.0 + 3.0 * k * k)
    return first, own + 2.0 * (rise + 2.0 * (1.0 + k) * tail) * first


def _below_wide(x: _Input, k: float) -> tuple[Array, Array]:
    """All terms of E' + k and of V', whose squares are taken off."""
    mean, var = np.minimum(x.mean, 0.0), np.maximum(x.var, (0.9 * LIMIT * NARROW_FLOAT32) ** 2)
    once, twice = (np.exp(np.minimum(h * mean + 0.5 * h * h * var, 0.0)) for h in (1.0, 2.0))
    tail, far = x.sigma * x.i1, mean + 2.0 * var < 0.0
    taken = np.where(far, k * once, 0.0)
    first = k * (x.q + np.where(far, x.q * 4.0, np.minimum(once, 1.0))) + tail
    second = k * k * (twice + 4.0 * x.q) + 2.0 * k * tail + x.var * x.j2
    moved = x.error * first + 2.0 * UNIT * (taken + k)
    return moved, x.error * (second + first * (first + 2.0 * taken)) + 2.0 * (first + taken) * x.error * first


def elu_point_error(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    """Of a known value: how far the function gets at the ends of the interval, and a few units of its own."""
    (x,), (error,) = inputs, errors
    moved, formula = error + 3.0 * UNIT * np.abs(x), ops.find(node.op).formula
    ends: list[Any] = [np.abs(formula(NUMPY, x + s * moved, **node.attrs) - out) for s in (1.0, -1.0)]
    worst: Array = np.maximum(*ends) + 8.0 * UNIT * np.abs(out) + 4.0 * LEAST
    return worst
