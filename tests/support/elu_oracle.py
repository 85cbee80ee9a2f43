"""ELU of a Gaussian by the textbook's form, which cancels, with as many digits as that takes."""

from __future__ import annotations

from typing import Any

from mpmath import mp

FAR = 30
"""Standard deviations beyond which one side of zero has everything: what is left is 1e-197."""


def elu_moments(mean: Any, var: Any, alpha: float, beta: float, scale: float) -> tuple[Any, Any]:
    """Mean and variance of scale a for a > 0 and scale alpha (e^(a / beta) - 1) below, a ~ N(mean, var)."""
    if not var:
        return scale * (mean if mean > 0 else alpha * mp.expm1(mp.mpf(mean) / beta)), mp.mpf(0)
    cancelled = abs(mp.log10(var)) + min(abs(mp.mpf(mean)) / beta, 200) + min(mp.mpf(mean) ** 2 / var, FAR**2) / 4
    with mp.workdps(40 + int(2 * cancelled)):
        m, v, k = mp.mpf(mean) / beta, mp.mpf(var) / mp.mpf(beta) ** 2, mp.mpf(alpha) / beta
        first, second = _raw(m, v, k)
        factor = mp.mpf(scale) * beta
        return factor * first, factor**2 * (second - first**2)


def _raw(m: Any, v: Any, k: Any) -> tuple[Any, Any]:
    """E f and E f^2 of the function in units of beta."""
    s = mp.sqrt(v)
    x = m / s
    if x > FAR:
        return m, m * m + v
    above, below, density = (mp.ncdf(x), mp.ncdf(-x), mp.npdf(x)) if x > -FAR else (0, 1, 0)
    once, twice = (_exponential(m, v, s, h) for h in (1, 2))
    first, second = k * (once - below), k * k * (twice - 2 * once + below)
    return m * above + s * density + first, (m * m + v) * above + m * s * density + second


def _exponential(m: Any, v: Any, s: Any, h: int) -> Any:
    """E[e^(h x); x < 0] = e^(h m + h^2 v / 2) P(Z > z), and far out, where these are endless, phi(m / s) times the
    asymptotic series of the tail over its density."""
    z = (m + h * v) / s
    if z < 100:
        return mp.exp(h * m + h * h * v / 2) * mp.ncdf(-z)
    term, total = 1 / z, mp.mpf(0)
    for n in range(1, 60):
        total += term
        term *= -(2 * n - 1) / z**2
    return mp.npdf(m / s) * total
