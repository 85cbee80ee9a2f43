"""Leaky-ReLU of a Gaussian: the exact moments, and the clamped form of the paper."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each
from lbnn.ops.attributes import number
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, register, register_forms


def leaky_relu(xp: Namespace, x: Moments[Any], negative_slope: float) -> Moments[Any]:
    """Exact moments of max(a, l a) for a ~ N(E, V).

    With sigma = sqrt(V), x = |E|/sigma, k = 1-l, and Q, I1, J2 the probability and the first two moments of the
    normal tail beyond x (the part of the distribution on the other side of the kink):

        E' = m E + k sigma I1                                             m = 1 if E >= 0 else l
        V' = V [ m^2 - 2 s k m Q + k^2 (J2 - I1^2) ]                      s = 1 if E >= 0 else -1

    Nothing cancels as x grows, so both limits come out right without a clamp.
    """
    slope, k = negative_slope, 1.0 - negative_slope
    sigma = xp.sqrt(x.var)
    excess, above, below = xp.tail_mix(
        xp.ratio(xp.abs(x.mean), sigma),
        [(0.0, 0.0, k, 0.0), (1.0, -2.0 * k, 0.0, k * k), (slope * slope, 2.0 * k * slope, 0.0, k * k)],
    )
    return Moments(
        xp.leaky_relu(x.mean, slope) + sigma * excess,
        x.var * (xp.where_negative(x.mean, below, above) - excess * excess),
    )


def leaky_relu_point(xp: Namespace, x: Any, negative_slope: float) -> Any:
    """The plain function of a known value."""
    return xp.leaky_relu(x, negative_slope)


def leaky_relu_clamped(xp: Namespace, x: Moments[Any], negative_slope: float, clamp: float) -> Moments[Any]:
    """The paper's form: total expectation and variance over the two sides of the kink, |E|/sigma clamped.

    x = min(|E|/sigma, clamp) divides the distribution into the tail beyond the kink (probability Q, slope m' of the
    other side) and the body (probability 1-Q, slope m of E's own side). With A = |E|:

        body: mean m (A + sigma phi/(1-Q)),    variance m^2 V [1 - x phi/(1-Q) - (phi/(1-Q))^2]
        tail: mean m' (A - sigma (x + I1/Q)),  variance m'^2 V [J2/Q - (I1/Q)^2]

    Beyond the clamp the tail is placed where E is, not where the kink is: the variance is then too large.
    """
    size, sigma = xp.abs(x.mean), xp.sqrt(x.var)
    at = xp.minimum(xp.ratio(size, sigma), clamp)
    q, i1, j2, p = xp.tail_mix(
        at, [(0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0), (1.0, -1.0, 0.0, 0.0)]
    )
    hazard = (i1 + at * q) / p  # phi / (1 - Q)
    step = i1 / q
    own = xp.where_negative(x.mean, negative_slope, 1.0)
    other = xp.where_negative(x.mean, 1.0, negative_slope)
    body, tail = own * (size + sigma * hazard), other * (size - sigma * (at + step))
    within = p * own * own * (1.0 - at * hazard - hazard * hazard) + q * other * other * (j2 / q - step * step)
    gap = body - tail
    return Moments(xp.where_negative(x.mean, -1.0, 1.0) * (p * body + q * tail), x.var * within + p * q * gap * gap)


def same_shape(x: Shape, **_: Any) -> Shape:
    """Pointwise operators keep the shape."""
    return x


def _clamped_oracle(x: Any, mean: Any, sigma: Any, negative_slope: float, clamp: float) -> Any:
    """The same function with its kink moved to the clamped place."""
    kink = mean + sigma * torch.clamp(-mean / sigma, -clamp, clamp)
    return torch.where(x < kink, negative_slope * x, x)


# Per element, counted in the formulas of c_runtime/lbnn_math.h and lbnn_activation.h:
#   sigma, |E|, x = |E| / sigma and its bound 4; x^2, e^(-x^2/2) 12; N, P, T, D, quotient 10; E', V' and sign 11.
_ARITHMETIC, _POINT_ARITHMETIC = each(37), each(2)

_SLOPES = (0.0, 0.01, 0.1, 0.3, 1.0)
_SLOPE = number(0.0, 1.0)
register_forms(
    Op(
        "leaky_relu",
        leaky_relu,
        shape=same_shape,
        oracle=F.leaky_relu,
        kind="pointwise",
        samples=tuple(Sample(((64,),), {}, {"negative_slope": slope}) for slope in _SLOPES),
        arithmetic=_ARITHMETIC,
        memory=IN_PLACE,
        attributes={"negative_slope": _SLOPE},
        identity=lambda use: bool(use.attrs["negative_slope"] == 1.0),
        kinks=(0.0,),
    ),
    leaky_relu_point,
    _POINT_ARITHMETIC,
)
register(
    Op(
        "leaky_relu_clamped",
        leaky_relu_clamped,
        shape=same_shape,
        oracle=_clamped_oracle,
        kind="clamped",
        samples=tuple(Sample(((64,),), {}, {"negative_slope": slope, "clamp": 3.0}) for slope in _SLOPES),
        arithmetic=_ARITHMETIC,
        memory=IN_PLACE,
        attributes={"negative_slope": _SLOPE, "clamp": number(1e-6, 1e6)},
        point_form="leaky_relu_point",
    )
)
