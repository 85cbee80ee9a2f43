"""Hard-swish of a Gaussian: exact moments, at every variance.

f(x) = 0 below -3, x (x + 3) / 6 between, x above 3. Since f(-x) = f(x) - x, everything follows from m = |E| and the
sign s of E. With T_k = sigma^k J_k the moments of the tails beyond the kink that is nearer to E (n, at the distance
|m - 3|) and beyond the other one (f, at m + 3), from the polynomial of E's own piece outwards:

inside (m < 3), a = f'(E), h = (9 - m^2) / 6, W = (T1 + T2 / 3) / 2 of both tails:

    E' = f(E) + V / 6 - W        V' = a^2 V + V^2 / 18 - W^2 + sum over the tails of (alpha T1 + beta T2)

    u = V / 6 - h,  d = 3 -+ m,  k = 1 / 3 - d / 36,  -+ the sign -s of the near tail and s of the far one:
    alpha = u - 2 V k -+ (d / 2 + V / 3)        beta = u / 3 - 3 / 4 + d k - V / 12 -+ 1 / 2

outside, g = f for E < 0 and f - x for E > 0, both the same function of the distance:

    E[g]   = T2 / 6 - T1 / 2 (n) - [T1 / 2 + T2 / 6] (f)
    E[g^2] = T2 / 4 - T3 / 6 + T4 / 36 (n) - [3 T1 + 9 T2 / 4 + T3 / 2 + T4 / 36] (f)
    E' = f(E) + E[g]        V' = E[g^2] - E[g]^2, and for E > 0: + V [1 + Q_n + Q_f - 2 (T1_n - T1_f) / 3]

The exponentials computed are that of the near tail and the quotient of both, e^(-6 m / V): an error of the first is
common to all terms. In float32 this is right to 1e-5 while 6 (m + sigma) > 1.4 V. Beyond, powers of sigma cancel, and
the density is smooth beside the kinks: f = max(x, 0) - b, b = |x| (3 - |x|) / 6 within 3 of zero, and at 3 v it is

    phi(m / sigma) / sigma sum_n c_n v^n        c_(n+1) = (t c_n - w^2 c_(n-1)) / (n + 1),   c_0 = 1,   c_1 = t

for w = 3 / sigma, t = w E / sigma; the moments of b and of b^2 - 2 b max(x, 0) against v^n are fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch.nn.functional as F

from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each
from lbnn.ops.leaky_relu import same_shape
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace
from lbnn.ops.table import Op, Sample, register_forms
from lbnn.ops.tail import FAR, SQRT_2PI

BUMP_TERMS = 9
"""Terms of the density's series beside a large sigma: what is left out is below 1e-7 of the moments."""

LARGEST_SIGMA = 2000.0
"""No smaller sigma has a tail within FAR and is computed from the pieces: its powers stay in the range of float32."""


def hardswish(xp: Namespace, x: Moments[Any]) -> Moments[Any]:
    """Exact moments of f(a) for a ~ N(E, V): what the docstring of this module derives."""
    sigma, size = xp.sqrt(x.var), xp.abs(x.mean)
    width, at = _places(xp, size * 0.0 + 6.0, sigma), _places(xp, size, sigma)
    is_small = width * (at + 1.0) - xp.narrow(width)
    small = _by_pieces(xp, x, size, sigma, width * at)
    large = _by_bump(xp, x, sigma, at, xp.minimum(width, xp.narrow(width)) * 0.5)
    mean, var = (xp.where_negative(is_small, b, a) for a, b in zip(small, large, strict=True))
    return Moments(mean, xp.maximum(var, 0.0))


def hardswish_point(xp: Namespace, x: Any) -> Any:
    """The function of a known value."""
    return x * (xp.between(x + 3.0, 0.0, 6.0) * (1 / 6))


def _places(xp: Namespace, distance: Any, sigma: Any) -> Any:
    return xp.minimum(xp.ratio(distance, sigma), FAR)


def _by_pieces(xp: Namespace, x: Moments[Any], size: Any, sigma: Any, apart: Any) -> tuple[Any, Any]:
    """From E's own piece outwards; `apart` is the exponent between both tails."""
    near_place, far_place = (_places(xp, distance, sigma) for distance in (xp.abs(size - 3.0), size + 3.0))
    bell = xp.exp(near_place * near_place * -0.5)
    sigma, var = xp.minimum(sigma, LARGEST_SIGMA), xp.minimum(x.var, LARGEST_SIGMA**2)
    near = _tail(xp, near_place, sigma, var, bell)
    far = _tail(xp, far_place, sigma, var, bell * xp.exp(apart * -1.0))
    inside, outside = _inside(xp, x.mean, var, near, far), _outside(xp, x, sigma, var, near_place, near, far)
    mean, spread = (xp.where_negative(size - 3.0, a, b) for a, b in zip(inside, outside, strict=True))
    return mean, spread


def _tail(xp: Namespace, x: Any, sigma: Any, var: Any, bell: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Q, T1, T2, and J3 and J4 without the powers of sigma."""
    m0, m1, m2, m3, m4 = xp.mills(x)
    return bell * m0, (bell * sigma) * m1, (bell * var) * m2, bell * m3, bell * m4


def _inside(xp: Namespace, mean: Any, var: Any, near: Any, far: Any) -> tuple[Any, Any]:
    """Where E lies between the kinks."""
    mean, sign = xp.between(mean, -3.0, 3.0), xp.where_negative(mean, -1.0, 1.0)
    size = xp.abs(mean)
    (_, n1, n2, *_), (_, f1, f2, *_) = near, far
    to_near, to_far = 3.0 - size, 3.0 + size
    u, third = var * (1 / 6) - to_near * to_far * (1 / 6), var * (1 / 3)

    def weighted(distance: Any, sign: Any, t1: Any, t2: Any) -> Any:
        k = 1 / 3 - distance * (1 / 36)
        alpha = u - 2.0 * var * k - sign * (distance * 0.5 + third)
        return alpha * t1 + (u * (1 / 3) - 0.75 + distance * k - var * (1 / 12) - sign * 0.5) * t2

    lost = (n1 + f1) * 0.5 + (n2 + f2) * (1 / 6)
    slope = (mean + 1.5) * (1 / 3)
    beyond = weighted(to_near, sign, n1, n2) + weighted(to_far, sign * -1.0, f1, f2)
    moved = mean * ((mean + 3.0) * (1 / 6)) + (var * (1 / 6) - lost)
    return moved, slope * slope * var + var * var * (1 / 18) + (beyond - lost * lost)


def _outside(xp: Namespace, x: Moments[Any], sigma: Any, var: Any, place: Any, near: Any, far: Any) -> tuple[Any, Any]:
    """Where E lies beyond a kink; J2 = (J4 + x J3) / 3 in E[g^2] of the near tail."""
    (n0, n1, n2, n3, n4), (f0, f1, f2, f3, f4) = near, far
    first = n2 * (1 / 6) - n1 * 0.5 - (f1 * 0.5 + f2 * (1 / 6))
    square = var * (1 / 36) * (n4 * (var + 3.0) + n3 * (place * 3.0 - sigma * 6.0))
    spread = square - (f1 * 3.0 + f2 * 2.25 + sigma * var * (f3 * 0.5 + sigma * f4 * (1 / 36))) - first * first
    line = x.var * (n0 + f0 - (n1 - f1) * (2 / 3) + 1.0) + spread
    return xp.leaky_relu(x.mean, 0.0) + first, xp.where_negative(x.mean, spread, line)


def bump_moments(count: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The integrals of 3 b(3 v) v^n and of 3 (b^2 - 2 b max(x, 0)) v^n over -1 < v < 1, for n < count."""
    means = [Fraction(9, (n + 2) * (n + 3)) * ((n + 1) % 2) for n in range(count)]
    right = [-Fraction(3, n + 3) + Fraction(2, n + 4) + Fraction(1, n + 5) for n in range(count)]
    left = [Fraction(1, n + 3) - Fraction(2, n + 4) + Fraction(1, n + 5) for n in range(count)]
    squares = [Fraction(27, 4) * (r + (-1) ** n * s) for n, (r, s) in enumerate(zip(right, left, strict=True))]
    return tuple(map(float, means)), tuple(map(float, squares))


def _by_bump(xp: Namespace, x: Moments[Any], sigma: Any, at: Any, width: Any) -> tuple[Any, Any]:
    """The moments of max(x, 0) - b where sigma is large beside the kinks."""
    bell = xp.exp(at * at * -0.5)
    q, i1, j2 = (bell * moment for moment in xp.mills(at)[:3])
    tilt = xp.where_negative(x.mean, width * -1.0, width) * at
    bump, cross = (sum_ * bell * width * (1 / 3 / SQRT_2PI) for sum_ in _series(tilt, width * width))
    mean = xp.leaky_relu(x.mean, 0.0) + sigma * i1
    spread = x.var * (xp.where_negative(x.mean, j2, j2 - q * 2.0 + 1.0) - i1 * i1)
    return mean - bump, spread + (cross + (mean * (2.0 * bump) - bump * bump))


def _series(tilt: Any, square: Any) -> tuple[Any, Any]:
    """The sums of c_n times the moments of b, and of b^2 - 2 b max(x, 0)."""
    means, squares = bump_moments(BUMP_TERMS)
    before, now = 1.0, tilt
    first: Any = means[0]
    second = now * squares[1] + squares[0]
    for n in range(2, BUMP_TERMS):
        before, now = now, (tilt * now - square * before) * (1 / n)
        first = now * means[n] + first if means[n] else first
        second = second + now * squares[n]
    return first, second


register_forms(
    Op(
        "hardswish",
        hardswish,
        shape=same_shape,
        oracle=F.hardswish,
        kind="pointwise",
        samples=(Sample(((64,),)), Sample(((2, 3, 4),))),
        arithmetic=each(90),
        memory=IN_PLACE,
        kinks=(-3.0, 3.0),
        tolerance=1e-5,
    ),
    hardswish_point,
    each(4),
)
