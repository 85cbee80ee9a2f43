"""The moments of hard-swish by definition, and inputs that reach every case of its formula."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import mp


def hardswish_moments(mean: Any, var: Any) -> tuple[Any, Any]:
    """Mean and variance of f(a) for a ~ N(mean, var), with 120 digits.

    Partial moments of the density by erfc, piece by piece; the digits are for what cancels where sigma is 1e15.
    """
    with mp.workdps(120):
        mean, var = mp.mpf(mean), mp.mpf(var)
        if var == 0:
            return (0 if mean < -3 else mean if mean > 3 else mean * (mean + 3) / 6), mp.mpf(0)
        sigma = mp.sqrt(var)
        low, high = (_partial((kink - mean) / sigma) for kink in (-3, 3))
        parts = [[b - a for a, b in zip(*ends, strict=True)] for ends in ((low, high), (high, [1, 0, 1, 0, 3]))]
        middle, right = [mean * (mean + 3) / 6, (2 * mean + 3) * sigma / 6, var / 6], [mean, sigma]
        first = sum(
            c * m for piece, part in zip((middle, right), parts, strict=True) for c, m in zip(piece, part, strict=False)
        )
        squares = [(a * b, i + j) for i, a in enumerate(middle) for j, b in enumerate(middle)]
        second = sum(c * parts[0][k] for c, k in squares)
        second += mean**2 * parts[1][0] + 2 * mean * sigma * parts[1][1] + var * parts[1][2]
        return first, second - first**2


def _partial(z: Any) -> list[Any]:
    """The moments of a standard normal below z, from the zeroth to the fourth."""
    density = mp.npdf(z)
    moments = [mp.erfc(-z / mp.sqrt(2)) / 2, -density]
    for k in range(2, 5):
        moments.append((k - 1) * moments[k - 2] - z ** (k - 1) * density)
    return moments


def hardswish_places(count: int, seed: int = 0) -> tuple[Any, Any]:
    """E and V in float32: E on kinks, at the minimum, next to them and up to 8 sigma away; sigma from 1e-15 to 1e15."""
    rng = np.random.default_rng(seed)
    sigma = 10.0 ** np.where(rng.random(count) < 0.7, rng.uniform(-1.5, 2.0, count), rng.uniform(-15, 15, count))
    away = rng.uniform(-8.0, 8.0, count) * rng.choice([0.0, 1e-3, 0.1, 1.0, 1.0], count)
    mean = rng.choice([-3.0, -3.0, 3.0, 0.0, -1.5], count) + sigma * away
    return mean.astype(np.float32), (sigma**2).astype(np.float32)
