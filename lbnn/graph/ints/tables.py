"""Tables of the integer kernels: 1/sqrt, the moments of a leaky-ReLU, and softplus."""

from __future__ import annotations

import numpy as np

from lbnn.base.arrays import Array
from lbnn.graph.ints.fixed import Whole
from lbnn.ops.tail import numpy_tail_moments

ROOT_CELLS = 96
"""Cells of 1/sqrt(x) over [1/4, 1), each of width 1/128."""

TAIL_CELLS = 64
"""Cells of the activation over 0 <= |E|/sigma < 4, sixteen a sigma."""

SOFT_CELLS = 32
"""Cells of 2^-f over [0, 1], and of log(1+u)/u over [0, 1]."""

EXCESS_BITS, GAIN_BITS = 17, 15
"""k I1 stands in units of 2^-17 and the gain of sigma in units of 2^-15."""


def root_table() -> Whole:
    """1/sqrt(x) in units of 2^-15 at the ends of all cells; 2.0 is one unit short, to fit 16 bits."""
    x = (32 + np.arange(ROOT_CELLS + 1)) / 128.0
    return np.minimum(np.ceil(2.0**15 / np.sqrt(x)), 65535).astype(np.int64)


def tail_table(slope: float) -> Whole:
    """k I1, then sqrt(g) for means above and below zero, at the ends of all cells; then the slope and its shift.

    g = V'/V of lbnn/ops/leaky_relu.py. What is beyond the last cell has its end, which is therefore a bound.
    """
    k = 1.0 - slope
    q, i1, j2 = numpy_tail_moments(np.arange(TAIL_CELLS + 1) / 16.0)
    excess = k * i1
    above = 1.0 - 2.0 * k * q + k * k * j2 - excess**2
    below = slope**2 + 2.0 * k * slope * q + k * k * j2 - excess**2
    above[-1], below[-1] = 1.0, max(below[-1], slope**2)
    gains = [_ended(np.ceil(2.0**GAIN_BITS * np.sqrt(g))) for g in (above, below)]
    mantissa, shift = slope_parts(slope)
    parts = [np.rint(2.0**EXCESS_BITS * excess), *gains, np.array([mantissa, shift])]
    return np.concatenate(parts).astype(np.int64)


def _ended(table: Array) -> Array:
    """With an end that is reached at 255/256 of the last cell, where z is held."""
    step = np.ceil((table[-1] - table[-2]) * 256.0 / 255.0)
    return np.append(table[:-1], table[-2] + step)


def match_table() -> Whole:
    """Of the larger of two: I1, what remains of its own variance, and the root of what it gains of the other's.

    I1 is in units of 2^-17, 1 - 2 Q + J2 - I1^2 of 2^-15 and sqrt(J2 - I1^2) of 2^-16, the last two upwards; the end of
    a table is a bound.
    """
    q, i1, j2 = numpy_tail_moments(np.arange(TAIL_CELLS + 1) / 16.0)
    gained = j2 - i1 * i1
    kept = np.append((1.0 - 2.0 * q + gained)[:-1], 1.0)
    upwards = [_ended(np.ceil(2.0**bits * part)) for bits, part in ((GAIN_BITS, kept), (16, np.sqrt(gained)))]
    return np.concatenate([np.rint(2.0**EXCESS_BITS * i1), *upwards]).astype(np.int64)


def slope_parts(slope: float) -> tuple[int, int]:
    """The slope as mantissa / 2^shift, with 15 bits and a shift that C can do."""
    shift = min(30, 15 - int(np.frexp(slope)[1])) if slope else 15
    return min(round(slope * 2.0**shift), 32767), shift


def soft_table() -> Whole:
    """2^-f, then log(1+u)/u, in units of 2^-15, at the ends of all cells, rounded up."""
    x = np.arange(SOFT_CELLS + 1) / SOFT_CELLS
    ratio = np.log1p(x[1:]) / x[1:]
    return np.ceil(2.0**15 * np.concatenate([2.0**-x, [1.0], ratio])).astype(np.int64)
