"""Owns the tail moments of the standard normal distribution, which every activation is made of.

For x >= 0, Z standard normal and phi its density:

    Q(x)  = P(Z > x)         = int_0^inf       phi(x + t) dt      Q'  = -phi
    I1(x) = E[(Z - x)+]      = int_0^inf t     phi(x + t) dt      I1' = -Q
    J2(x) = E[((Z - x)+)^2]  = int_0^inf t^2   phi(x + t) dt      J2' = -2 I1

I1 = phi - x Q and J2 = Q - x I1 cancel as x grows. Their ratio rho = J2 / I1 is smooth, falls from
sqrt(pi/2) to 2/x, and gives back all three with positive terms only, so that nothing cancels:

    I1 = phi / (1 + x (x + rho)),   Q = (x + rho) I1,   J2 = rho I1

With rho = N(x) / D(x), two polynomials with positive coefficients, one division serves all:

    [Q, I1, J2] = [x D + N, D, N] phi / (D + x (x D + N))

tools/derive/fit_tail.py derives the coefficients, and the quadrature below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lbnn.base.arrays import Array
from lbnn.ops.traced import is_traced

# Coefficients, highest power first; each denominator has a leading 1 that is not listed.
# float32: relative error of rho 4e-7 on [0, 10.5], about what float32 rounding adds.
NUMERATOR_FLOAT32 = (
    1.9979594335714363,
    19.430632411025062,
    85.41755246933624,
    204.51476889675394,
)
DENOMINATOR_FLOAT32 = (
    9.673816087766056,
    46.43601469560934,
    124.03335854191762,
    163.17921495250513,
)
# float64: relative error of rho 1e-15 on [0, 39].
NUMERATOR_FLOAT64 = (
    1.9999999999388578,
    60.595574993236525,
    919.5308385292009,
    9021.677737772501,
    62604.34045135782,
    317992.56693305186,
    1185109.7815029905,
    3148210.4518699287,
    5490121.232961572,
    4955434.681499167,
)
DENOMINATOR_FLOAT64 = (
    30.297787489617722,
    462.7654199921231,
    4601.73218564877,
    32669.468438053744,
    172165.16598379644,
    681053.6396386622,
    2000210.1731749221,
    4195798.776870453,
    5734503.685053646,
    3953864.82443525,
)
RATIO_TABLES = {
    torch.float32: (NUMERATOR_FLOAT32, DENOMINATOR_FLOAT32),
    torch.float64: (NUMERATOR_FLOAT64, DENOMINATOR_FLOAT64),
}

# [Q, I1, J2](x) = sum_k w_k [1, t_k, t_k^2] exp(-(x + t_k)^2 / 2): a generalised Gauss rule with positive
# terms, for backends that have exponentials and matrix products but no special functions.
# Relative error at most 2.0e-7 (that of J2) on [0, 8.5]; beyond 8.5 the terms only fall. Six points would reach
# 5, enough for a leaky slope; the seventh keeps the variance of a dead ReLU right to 8.5 standard deviations.
TAIL_NODES = (
    0.03716008492636786,
    0.19696895837135656,
    0.48964612548306624,
    0.9255613331527331,
    1.5228723048525834,
    2.3146150423864453,
    3.3875135419703546,
)
TAIL_WEIGHTS = (
    0.038097091605069064,
    0.0897659960933967,
    0.14442907975363264,
    0.2045558389576676,
    0.2740678719747002,
    0.3623555507199295,
    0.5144546004476485,
)

NARROW_FLOAT32, NARROW_FLOAT64 = 1.4, 0.08
"""Widths w (1 + r) of an interval that ends at r, in standard deviations: below, Hermite's rule of order 8 gives the
integral of the tail better than differences of the moments do."""
NARROW_CELLS = {torch.float32: NARROW_FLOAT32, torch.float64: NARROW_FLOAT64}

SQRT_2PI = math.sqrt(2 * math.pi)
FAR = 40.0  # exp(-FAR^2 / 2) is 0 even in float64: clamping x here changes no result and avoids inf * 0


def numpy_tail_moments(x: npt.ArrayLike) -> tuple[Array, Array, Array]:
    """(Q, I1, J2) in float64 for x >= 0, relative error 2e-15; zeros where they underflow and at inf."""
    x = np.minimum(np.asarray(x, dtype=np.float64), FAR)
    j2, i1 = np.polyval(NUMERATOR_FLOAT64, x), np.polyval((1.0, *DENOMINATOR_FLOAT64), x)
    q = x * i1 + j2
    high = np.round(x * 2**20) / 2**20  # has an exact square, so that x^2 loses nothing to rounding
    phi = np.exp(-0.5 * high * high) * np.exp(-0.5 * (x - high) * (x + high)) / SQRT_2PI
    divisor = i1 + x * q  # up to 1e19: divide phi last, or it underflows too early
    return q / divisor * phi, i1 / divisor * phi, j2 / divisor * phi


def torch_tail_moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(Q, I1, J2) for x in [0, inf], differentiable to any order; half precision is computed in float32.

    In float32 the relative error is 1.0e-6 up to x = 4.5 and 2.4e-6 up to 10. It grows as x^2/2 times the
    rounding unit, because x^2 is rounded before the exponential. Splitting x would avoid that, for a third
    more time and no use: x is itself a rounded quotient, which costs at least twice as much accuracy.
    """
    wide = x if x.dtype in RATIO_TABLES else x.float()
    compute: Any = _by_plain_operators if is_traced() else _TailMoments.apply
    q, i1, j2 = compute(wide)
    return q.to(x.dtype), i1.to(x.dtype), j2.to(x.dtype)


def _by_plain_operators(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a traced module is made of: functions of our own and in-place ones could not be converted further."""
    n, d = RATIO_TABLES[x.dtype]
    x = x.clamp(max=FAR)
    j2, i1 = x * n[0] + n[1], x + d[0]
    for c in n[2:]:
        j2 = j2 * x + c
    for c in d[1:]:
        i1 = i1 * x + c
    q = j2 + x * i1
    scale = torch.exp(x * x * -0.5) / (i1 + x * q) * (1 / SQRT_2PI)
    return q * scale, i1 * scale, j2 * scale


def _horner_(start: Tensor, x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    for c in coefficients:
        start.mul_(x).add_(c)
    return start


class _TailMoments(torch.autograd.Function):
    """Works in place on a few buffers; the derivatives are those of the moments, not of the fit."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n, d = RATIO_TABLES[x.dtype]
        x = x.clamp(max=FAR)
        j2 = _horner_((x * n[0]).add_(n[1]), x, n[2:])
        i1 = _horner_(x + d[0], x, d[1:])
        q = torch.addcmul(j2, x, i1)
        divisor = torch.addcmul(i1, x, q)
        scale = x.mul_(x).mul_(-0.5).exp_().div_(divisor).mul_(1 / SQRT_2PI)
        return q.mul_(scale), i1.mul_(scale), j2.mul_(scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        q, i1, _ = output
        ctx.save_for_backward(inputs[0], q, i1)

    @staticmethod
    def backward(ctx: Any, grad_q: Tensor, grad_i1: Tensor, grad_j2: Tensor) -> Tensor:
        x, q, i1 = ctx.saved_tensors
        phi = torch.addcmul(i1, x.clamp(max=FAR), q)
        return -torch.addcmul(torch.addcmul(phi * grad_q, q, grad_i1), i1, grad_j2, value=2)
