"""The integer kernels of sums, concatenation and the variance head in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from lbnn.graph.ints.fixed import SHIFT, Whole, apart, bits, down, held, near, scale, up
from lbnn.graph.ints.tables import SOFT_CELLS, soft_table
from lbnn.graph.ints.values import Narrow, Wide

_SOFT = soft_table()
MOST = (1 << 30) - 1
LOG2_E = 29013
"""log2(e) - 1 in units of 2^-16."""


def int_add(a: Narrow, b: Narrow) -> Wide:
    """Means and variances add."""
    top = np.maximum(a.mean_exponent, b.mean_exponent)
    mean = sum(down(x.mean * (1 << 14), apart(top, x.mean_exponent)[:, None]) for x in (a, b))
    var_top = np.maximum(2 * a.sigma_exponent, 2 * b.sigma_exponent)
    var = sum(up(x.sigma * x.sigma, apart(var_top, 2 * x.sigma_exponent)[:, None]) for x in (a, b))
    return Wide(held(mean), top - 14, held(var), var_top)


def int_concat(parts: Sequence[Narrow], order: Whole) -> Narrow:
    """All elements at the largest exponents; `order` are their places in the parts one behind the other."""
    top = reduce(np.maximum, (x.mean_exponent for x in parts))
    sigma_top = reduce(np.maximum, (x.sigma_exponent for x in parts))
    means, sigmas = [], []
    for x in parts:
        drop = apart(top, x.mean_exponent)[:, None]
        means.append(np.where(drop > 0, near(x.mean, np.maximum(drop, 1)), x.mean))
        sigmas.append(up(x.sigma, apart(sigma_top, x.sigma_exponent)[:, None]))
    return Narrow(np.concatenate(means, 1)[:, order], top, np.concatenate(sigmas, 1)[:, order], sigma_top)


def int_variance_head(x: Wide) -> Wide:
    """E' = E of the first half;  V' = its V + softplus(E of the second half)."""
    k = x.mean.shape[1] // 2
    noise, exponent = int_softplus(x.mean[:, k:], x.mean_exponent[:, None])
    top = (np.maximum(exponent.max(axis=1), x.var_exponent) + 3) & ~1
    var = up(x.var[:, :k], apart(top, x.var_exponent)[:, None]) + up(noise, apart(top[:, None], exponent))
    return Wide(x.mean[:, :k], x.mean_exponent, held(var), top)


def int_softplus(mean: Whole, exponent: Whole) -> tuple[Whole, Whole]:
    """log(1 + e^x) of x = mean 2^exponent as mantissas of 29 bits and an exponent for each.

    log(1 + e^x) = max(x, 0) + u R(u), u = e^-|x| = 2^-q 2^-f, R(u) = log(1+u)/u.
    """
    size = np.abs(held(mean))
    left = np.clip(exponent + 15, 0, 30)
    whole = down(size, np.clip(-(exponent + 15), 0, SHIFT))
    within = whole <= (MOST >> left)
    a = np.where(within, np.where(within, whole, 0) << left, MOST)
    power = held(a + scale(a, LOG2_E))
    q, f = power >> 15, power & 32767
    p = _between(f, 0)
    tail = up(p * _between(p >> np.minimum(q, SHIFT), SOFT_CELLS + 1), 15)
    above = np.where(within, a + up(tail, np.minimum(q, SHIFT)), size)
    below = mean < 0
    mantissa = np.where(below, tail, above)
    own = np.where(below, -15 - q, np.where(within, -15, exponent))
    spare = np.maximum(29 - bits(mantissa), 0)
    return held(mantissa << spare), own - spare


def _between(x: Whole, start: int) -> Whole:
    """The table at x / 2^15, 0 <= x <= 2^15."""
    cell = np.minimum(x >> 10, SOFT_CELLS - 1)
    first, second = _SOFT[start + cell], _SOFT[start + cell + 1]
    found: Whole = first + (((second - first) * (x - (cell << 10))) >> 10)
    return found
