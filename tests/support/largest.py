"""The largest of independent Gaussians, by other ways than lbnn's: pairs in 50 digits, brackets, and quadrature."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from mpmath import mp
from scipy.special import ndtr

Gaussian = tuple[Any, Any]


def pair_moments(one: Gaussian, other: Gaussian) -> Gaussian:
    """Clark's raw moments of max(x, y) in 50 digits: E[max^2] - E[max]^2 cancels, which 50 digits afford."""
    with mp.workdps(50):
        (m, v), (n, w) = (tuple(map(mp.mpf, moments)) for moments in (one, other))
        a = mp.sqrt(v + w)
        if a == 0:
            return max(m, n), mp.mpf(0)
        alpha = (m - n) / a
        above, below, density = mp.ncdf(alpha), mp.ncdf(-alpha), mp.npdf(alpha)
        mean = m * above + n * below + a * density
        return mean, (m * m + v) * above + (n * n + w) * below + (m + n) * a * density - mean * mean


def bracket(values: list[Gaussian | None]) -> Gaussian | None:
    """The tournament: the largest power of two of them against the rest; None, a place outside, loses."""
    if len(values) == 1:
        return values[0]
    half = 1 << (len(values) - 1).bit_length() - 1
    one, other = bracket(values[:half]), bracket(values[half:])
    return pair_moments(one, other) if one and other else one or other


def pooled_moments(mean: Any, var: Any, shape: tuple[int, ...], geometry: dict[str, Any]) -> tuple[Any, Any]:
    """Max pooling of (C, H, W) or (C, L): each row of each window by its bracket, then the rows; float64 arrays."""
    out = np.empty((2, *shape))
    keys = ("kernel_size", "stride", "padding", "dilation")
    axes = list(zip(*(geometry[key] for key in keys), strict=True))
    for place in product(*map(range, shape)):
        taps = [
            [p * jump - pad + i * step for i in range(kernel)]
            for p, (kernel, jump, pad, step) in zip(place[1:], axes, strict=True)
        ]
        rows = [_row(mean, var, (place[0], *lead), taps[-1]) for lead in product(*taps[:-1])]
        found = bracket([bracket(row) for row in rows])
        assert found is not None
        out[(0, *place)], out[(1, *place)] = map(float, found)
    return out[0], out[1]


def _row(mean: Any, var: Any, lead: tuple[int, ...], taps: list[int]) -> list[Gaussian | None]:
    """The elements of one row."""
    places = [(*lead, at) for at in taps]
    inside = [all(0 <= at < size for at, size in zip(place, mean.shape, strict=True)) for place in places]
    return [(mean[place], var[place]) if here else None for place, here in zip(places, inside, strict=True)]


def largest_moments(mean: Any, var: Any) -> tuple[Any, Any]:
    """Mean and variance of the largest along the last axis by quadrature: F(t) is the product of the normal CDFs.

    E = b - int F and E[(b - max)^2] = 2 int (b - t) F(t) dt over [a, b] that holds everything; 4001 nodes of Simpson's.
    """
    sigma = np.sqrt(var)
    low, high = (mean - 9 * sigma).max(-1), (mean + 9 * sigma).max(-1)
    share = np.linspace(0.0, 1.0, 4001)
    t = low[..., None] + (high - low)[..., None] * share
    below = np.ones_like(t)
    for k in range(mean.shape[-1]):
        below *= ndtr((t - mean[..., k, None]) / sigma[..., k, None])
    weights = np.where(np.arange(4001) % 2 == 1, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    weights = weights * (high - low)[..., None] / 12000.0
    first = (weights * below).sum(-1)
    second = 2.0 * (weights * (high[..., None] - t) * below).sum(-1)
    return high - first, second - first**2


def rectified_largest_moments(mean: Any, var: Any) -> tuple[Any, Any]:
    """The same of max(0, largest): E = int_0 (1 - F), E[max^2] = 2 int_0 t (1 - F) dt, by Simpson's rule."""
    sigma = np.sqrt(var)
    high = np.maximum((mean + 9 * sigma).max(-1), sigma.max(-1))
    t = high[..., None] * np.linspace(0.0, 1.0, 4001)
    below = np.ones_like(t)
    for k in range(mean.shape[-1]):
        below *= ndtr((t - mean[..., k, None]) / sigma[..., k, None])
    weights = np.where(np.arange(4001) % 2 == 1, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    weights = weights * high[..., None] / 12000.0
    first = (weights * (1.0 - below)).sum(-1)
    return first, 2.0 * (weights * t * (1.0 - below)).sum(-1) - first**2


def moments_of_largest(function: Any, mean: Any, var: Any) -> tuple[Any, Any]:
    """Mean and variance of f(largest along the last axis): f in the middle of 6000 steps, each with its probability."""
    sigma = np.sqrt(var)
    low, high = (mean - 9 * sigma).max(-1), (mean + 9 * sigma).max(-1)
    t = low + (high - low) * np.linspace(0.0, 1.0, 6001).reshape(-1, *[1] * low.ndim)
    below = ndtr((t[..., None] - mean) / sigma).prod(-1)
    mass, value = np.diff(below, axis=0), function(0.5 * (t[1:] + t[:-1]))
    centre = (mass * value).sum(0)
    return centre, (mass * (value - centre) ** 2).sum(0)
