"""Owns the tail moments of the standard normal distribution, which every activation is made of.

For x >= 0, Z standard normal and phi its density:

    Q(x)  = P(Z > x)         = int_0^inf       phi(x + t) dt      Q'  = -phi
    I1(x) = E[(Z - x)+]      = int_0^inf t     phi(x + t) dt      I1' = -Q
    J2(x) = E[((Z - x)+)^2]  = int_0^inf t^2   phi(x + t) dt      J2' = -2 I1

I1 = phi - x Q and J2 = Q - x I1 cancel as x grows. Their ratio rho = J2 / I1 is smooth, falls from
sqrt(pi/2) to 2/x, and gives back all three with positive terms only, so that nothing cancels:

    I1 = phi / (1 + x (x + rho)),   Q = (x + rho) I1,   J2 = rho I1

rho is a short continued fraction; tools/fit_tail.py derives it, and the quadrature below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# rho(x) = b1 / (x + a1 + b2 / (x + a2 + ...)), one (b, a) a level.
# Relative error 4e-7 on [0, 10.5]; more levels gain nothing once computed in float32.
RATIO_FLOAT32 = (
    (1.9979594335714363, -0.05142261555035198),
    (4.183716120126006, 4.019790395813252),
    (-20.443868134686532, 2.7959597647774874),
    (32.12674470929369, 2.9094885427256694),
)
# Relative error 7e-16 on [0, 39].
RATIO_FLOAT64 = (
    (1.9999999999388578, -7.926781083513966e-09),
    (3.0000009536310466, 2.3705481547225598e-05),
    (3.998763541651266, -0.01207376818887096),
    (5.369511937225736, 1.704602365503238),
    (-26.210104133553955, 19.039213665863063),
    (130.3890479762612, -0.6060561561428793),
    (-15.669861649308967, -2.24617088357942),
    (89.28150974340254, 8.899955290486682),
    (1.9555851496801628, 10.411673485880652),
    (114.64345276807977, -6.89338020775951),
)

# [Q, I1, J2](x) = sum_k w_k [1, t_k, t_k^2] exp(-(x + t_k)^2 / 2): a generalised Gauss rule with positive terms
# for backends that have exponentials and matrix products but no special functions.
# Relative error 2.1e-7 on [0, 5], and beyond 5 less than that of the value at 5.
TAIL_NODES = (
    0.05865109309147081,
    0.3068511942099146,
    0.7467068033088445,
    1.3750230709283588,
    2.2056715847534027,
    3.3141831686100107,
)
TAIL_WEIGHTS = (
    0.059939985213672886,
    0.13768305278362114,
    0.21297218052131217,
    0.2890743603403786,
    0.3776370298769798,
    0.5275253178037499,
)

SQRT_2PI = math.sqrt(2 * math.pi)
FAR = 40.0  # exp(-FAR^2 / 2) is 0 in float64: clamping x here changes no result and keeps inf * 0 away


def numpy_tail_moments(
    x: npt.ArrayLike,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(Q, I1, J2) in float64 for x >= 0, relative error 2e-15; zeros where they underflow and at inf."""
    x = np.minimum(np.asarray(x, dtype=np.float64), FAR)
    f = x + RATIO_FLOAT64[-1][1]
    for (_, a), (b, _) in zip(RATIO_FLOAT64[-2::-1], RATIO_FLOAT64[:0:-1], strict=True):
        f = x + a + b / f
    rho = RATIO_FLOAT64[0][0] / f
    high = np.round(x * 2**20) / 2**20  # its square is exact, so x^2 loses nothing to rounding
    phi = np.exp(-0.5 * high * high) * np.exp(-0.5 * (x - high) * (x + high)) / SQRT_2PI
    i1 = phi / (1 + x * (x + rho))
    return (x + rho) * i1, i1, rho * i1


def torch_tail_moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(Q, I1, J2) for x in [0, inf], differentiable to any order; half precision is computed in float32."""
    if x.dtype in (torch.float32, torch.float64):
        q, i1, j2 = _TailMoments.apply(x)
    else:
        q, i1, j2 = (m.to(x.dtype) for m in _TailMoments.apply(x.float()))
    return q, i1, j2


class _TailMoments(torch.autograd.Function):
    """The forward pass is 20 kernels in place; the derivatives are those of the moments, not of the fit."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        table = RATIO_FLOAT64 if x.dtype == torch.float64 else RATIO_FLOAT32
        x = x.clamp(max=FAR)
        one = torch.ones_like(x)
        f = x + table[-1][1]
        for (_, a), (b, _) in zip(table[-2::-1], table[:0:-1], strict=True):
            f = torch.addcdiv(x, one, f, value=b).add_(a)
        b = table[0][0]
        x_plus_rho = torch.addcdiv(x, one, f, value=b)
        i1 = (x * x).mul_(-0.5).exp_() / (x * x_plus_rho).add_(1).mul_(SQRT_2PI)
        return x_plus_rho.mul_(i1), i1, (i1 / f).mul_(b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.save_for_backward(inputs[0], output[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad_q: Tensor, grad_i1: Tensor, grad_j2: Tensor) -> Tensor:
        x, q, i1 = ctx.saved_tensors
        phi = torch.addcmul(i1, x.clamp(max=FAR), q)
        return -torch.addcmul(torch.addcmul(phi * grad_q, q, grad_i1), i1, grad_j2, value=2)
