"""ELU, CELU and SELU of a Gaussian: exact moments, at every variance.

With X = E + sigma Z in units of `beta`, the function is u = X above zero and k (e^X - 1) below. Let x = |E| / sigma, Q,
I1, J2 the normal tail beyond x, phi its density there, and m(z) = Q(z) / phi(z), so that for any h

    E[e^(-h t)] = phi m(x + h sigma)      over the tail, t the distance from zero

Products such as e^(E + V/2) Phi(-(E + V) / sigma), which overflow and underflow, do not occur. On the tail

    D1 = E[1 - e^-t] = phi [m(x) - m(x + s)]      D2 = E[(1 - e^-t)^2] = phi [m(x) - 2 m(x + s) + m(x + 2s)]

with s = sigma where E >= 0, and, for E < 0, where the tail lies above zero and e^t rises, with s = -sigma. Then

    E >= 0   E' = E + B                V' = V (1 - 2Q + J2) + 2 k E D1 + k^2 D2 - B^2
    E < 0    E' = k (A - 1) + B        V' = V J2 + k^2 (A^2 (e^V - 1) - D2) + 2 k (1 - A) B - B^2

where A = e^(E + V/2) and B, what the tail adds to the mean, is sigma I1 - k D1 for E >= 0 and sigma I1 + k D1 below.

The differences D1 and D2 cancel where sigma is small. There (`_narrow`) they are sums around their middles of the
moments I_n = int_0^inf w^n e^(-z w - w^2/2) dw, which converge fast:

    D1 = s phi [I1 + V I3 / 24 + V^2 I5 / 1920 + V^3 I7 / 322560]      at z = x + s/2
    D2 = V phi [I2 + V I4 / 12 + V^2 I6 / 360 + V^3 I8 / 20160]        at z = x + s

and e^V - 1 is a series too. For larger sigma (`_wide`) and E < 0, e^t on the tail would overflow. What lies below zero
is taken instead: with P1 = E[e^X; X < 0] and P2 = E[e^2X; X < 0], all terms positive,

    E' + k = k (P1 + Q) + sigma I1         V' = k^2 (P2 + Q) + 2 k sigma I1 + V J2 - (E' + k)^2

    P1 = phi m(sigma - x) or, where that argument is negative, e^(E + V/2) - phi m(x - sigma)
    P2 = phi m(2 sigma - x) or, likewise, e^(2E + 2V) - phi m(x - 2 sigma)

The last form of P2 leaves out k^2 e^(2E + V) in both terms of V': far below zero k^2 e^(2E + 2V) (1 - e^-V) is left,
and its rounding is that of E.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each
from lbnn.ops.attributes import number
from lbnn.ops.leaky_relu import same_shape
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace
from lbnn.ops.table import Op, Sample, register_forms
from lbnn.ops.tail import FAR

LIMIT = 0.25
"""Times `xp.narrow`: below this sigma the sums are better than the differences, 0.35 in float32 and 0.02 in float64."""


@dataclass(frozen=True)
class Tail:
    """E and V with sigma, x = |E| / sigma limited, and the normal tail beyond it."""

    mean: Any
    var: Any
    sigma: Any
    x: Any
    q: Any
    i1: Any
    j2: Any

    @property
    def phi(self) -> Any:
        """The density at x."""
        return self.i1 + self.x * self.q


def elu(xp: Namespace, x: Moments[Any], alpha: float, beta: float, scale: float) -> Moments[Any]:
    """Exact moments of scale a for a > 0 and scale alpha (e^(a / beta) - 1) below: what this module derives."""
    inner = x if beta == 1.0 else Moments(x.mean * (1.0 / beta), x.var * (1.0 / (beta * beta)))
    sigma = xp.sqrt(inner.var)
    at = xp.minimum(xp.ratio(xp.abs(inner.mean), sigma), FAR)
    moments = xp.tail_mix(at, [(0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)])
    tail, k, limit = Tail(inner.mean, inner.var, sigma, at, *moments), alpha / beta, LIMIT * xp.narrow(sigma)
    narrow, wide = _narrow(xp, tail, k, limit), _wide(xp, tail, k, limit)
    mean, var = (xp.where_negative(sigma - limit, *parts) for parts in zip(narrow, wide, strict=True))
    factor = scale * beta
    return Moments(mean * factor, xp.maximum(var, 0.0) * (factor * factor))


def _narrow(xp: Namespace, tail: Tail, k: float, limit: float) -> tuple[Any, Any]:
    """Mean and variance for sigma below the limit."""
    sigma, var = xp.minimum(tail.sigma, limit), xp.minimum(tail.var, limit * limit)
    step = xp.where_negative(tail.mean, sigma * -1.0, sigma)
    d1 = tail.phi * _first(xp, tail.x + step * 0.5, var)
    d2 = tail.phi * _second(xp, tail.x + step, var)
    rise = tail.i1 - k * d1
    own = 1.0 - 2.0 * tail.q + tail.j2 + (2.0 * k) * (tail.x * d1) + (k * k) * d2 - rise * rise
    power = xp.minimum(tail.mean, 0.0) + var * 0.5
    short, size = xp.expm1(power), xp.exp(power)
    growth = 1.0 + var * (0.5 + var * (1 / 6 + var * (1 / 24 + var * (1 / 120))))  # (e^V - 1) / V
    below = tail.j2 - rise * rise + (k * k) * (size * size * growth - d2)
    added = sigma * rise
    mean = xp.where_negative(tail.mean, short * k, tail.mean) + added
    return mean, xp.where_negative(tail.mean, var * below - (2.0 * k) * (short * added), var * own)


def _first(xp: Namespace, z: Any, var: Any) -> Any:
    """D1 / (s phi)."""
    _, i1, i2 = xp.scaled_tail(z)
    i3 = 2.0 * i1 - z * i2
    i4 = 3.0 * i2 - z * i3
    i5 = 4.0 * i3 - z * i4
    i6 = 5.0 * i4 - z * i5
    i7 = 6.0 * i5 - z * i6
    return i1 + var * (i3 * (1 / 24) + var * (i5 * (1 / 1920) + var * (i7 * (1 / 322560))))


def _second(xp: Namespace, z: Any, var: Any) -> Any:
    """D2 / (V phi)."""
    _, i1, i2 = xp.scaled_tail(z)
    i3 = 2.0 * i1 - z * i2
    i4 = 3.0 * i2 - z * i3
    i5 = 4.0 * i3 - z * i4
    i6 = 5.0 * i4 - z * i5
    i7 = 6.0 * i5 - z * i6
    i8 = 7.0 * i6 - z * i7
    return i2 + var * (i4 * (1 / 12) + var * (i6 * (1 / 360) + var * (i8 * (1 / 20160))))


def _wide(xp: Namespace, tail: Tail, k: float, limit: float) -> tuple[Any, Any]:
    """Mean and variance for sigma above the limit."""
    sigma, var = xp.maximum(tail.sigma, limit), xp.maximum(tail.var, limit * limit)
    tail = replace(tail, sigma=sigma, var=var)
    place = xp.where_negative(tail.mean, tail.x * -1.0, tail.x)
    once, twice = place + sigma, place + sigma * 2.0
    p1, p2 = (tail.phi * xp.scaled_tail(xp.abs(z))[0] for z in (once, twice))
    above, below = _from_above(tail, k, p1, p2), _from_below(xp, tail, k, (once, twice), (p1, p2))
    mean, var = (xp.where_negative(tail.mean, *parts) for parts in zip(below, above, strict=True))
    return mean, var


def _from_above(tail: Tail, k: float, p1: Any, p2: Any) -> tuple[Any, Any]:
    """E >= 0."""
    d1, d2 = tail.q - p1, tail.q - 2.0 * p1 + p2
    added = tail.sigma * tail.i1 - k * d1
    own = tail.var * (1.0 - 2.0 * tail.q + tail.j2) + (2.0 * k) * (tail.mean * d1) + (k * k) * d2
    return tail.mean + added, own - added * added


def _from_below(xp: Namespace, tail: Tail, k: float, places: Any, parts: Any) -> tuple[Any, Any]:
    """E < 0."""
    (once, twice), (p1, p2), mean = places, parts, xp.minimum(tail.mean, 0.0)
    size = xp.where_negative(once, xp.exp(xp.minimum(mean + tail.var * 0.5, 0.0)), 0.0)
    square = xp.exp(xp.minimum(mean + tail.var, 0.0) * 2.0) * xp.expm1(tail.var * -1.0) * -1.0
    taken = xp.where_negative(twice, size, 0.0)  # what is left out of E' + k and, squared, of P2
    rest = xp.where_negative(once, p1 * -1.0, p1)
    first = k * (rest + (size - taken) + tail.q) + tail.sigma * tail.i1
    second = k * (xp.where_negative(twice, square - p2, p2) + tail.q) + (2.0 * tail.sigma) * tail.i1
    return first + k * taken - k, k * second + tail.var * tail.j2 - first * (first + (2.0 * k) * taken)


def elu_point(xp: Namespace, x: Any, alpha: float, beta: float, scale: float) -> Any:
    """The function of a known value."""
    inner = x if beta == 1.0 else x * (1.0 / beta)
    return xp.where_negative(inner, xp.expm1(xp.minimum(inner, 0.0)) * (alpha / beta), inner) * (scale * beta)


def _oracle(x: Tensor, alpha: float, beta: float, scale: float) -> Tensor:
    return scale * torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0.0) / beta))


# Per element, counted in the formulas of c_runtime/lbnn_elu.h where sigma is small: sigma, x and its tail 26; the sums
# at two places, each a quotient of polynomials, 2 x 19; terms, E' and V' 26; e^(E + V/2), for half of all, 12.
_ARITHMETIC, _POINT_ARITHMETIC = each(96), each(14)

ELU_EXAMPLES: tuple[dict[str, float], ...] = (
    {"alpha": 1.0, "beta": 1.0, "scale": 1.0},
    {"alpha": 1.6732632423543772, "beta": 1.0, "scale": 1.0507009873554805},  # SELU
    {"alpha": 2.5, "beta": 2.5, "scale": 1.0},  # CELU
    {"alpha": 0.05, "beta": 1.0, "scale": 1.0},
    {"alpha": 0.4, "beta": 0.3, "scale": 2.0},
)
"""Examples: those that have names, and others."""

register_forms(
    Op(
        "elu",
        elu,
        shape=same_shape,
        oracle=_oracle,
        kind="pointwise",
        samples=tuple(Sample(((64,),), {}, attrs) for attrs in ELU_EXAMPLES),
        arithmetic=_ARITHMETIC,
        memory=IN_PLACE,
        attributes={"alpha": number(0.0, 1e3), "beta": number(1e-3, 1e3), "scale": number(1e-3, 1e3)},
        kinks=(0.0,),
    ),
    elu_point,
    _POINT_ARITHMETIC,
)
