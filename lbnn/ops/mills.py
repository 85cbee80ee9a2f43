"""Owns the tail moments of the standard normal distribution up to the fourth, over exp(-x^2 / 2).

With J0 = Q, J1 = I1 and J2 of lbnn/ops/tail.py, and J3 and J4 the next ones,

    M_k(x) = exp(x^2 / 2) E[((Z - x)+)^k]        M_k' = -M_(k+1)        M_(k+1) = k M_(k-1) - x M_k

The recurrence cancels upwards as x grows; downwards, from the ratio N / D = J4 / J3, all terms are positive:

    [6 M0, 6 M1, 3 M2, M3, M4] = [2 A2 + x A1, A1 = 3 D + x A2, A2 = N + x D, D, N] 6 / sqrt(2 pi) / (A1 + x A0)

The exponential is left to whoever uses them: of two tails of one Gaussian the quotient of the exponentials is known
better than each of them. tools/derive/fit_mills.py derives the coefficients, and the quadrature below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lbnn.base.arrays import Array
from lbnn.ops.namespace import Namespace
from lbnn.ops.tail import FAR, SQRT_2PI
from lbnn.ops.traced import is_traced

# Coefficients, highest power first; each denominator has a leading 1 that is not listed.
# float32: relative error of J4 / J3 4e-7 on [0, 10.5]; float64: 2e-15 on [0, 39].
MILLS_TABLES = {
    torch.float32: (
        (3.990915367642221, 47.89855666266349, 261.08566698281555, 857.0477950102368),
        (11.87332201774865, 72.23855969342738, 251.80630863011055, 455.8835631224049),
    ),
    torch.float64: (
        (
            3.9999999995381024,
            133.81539932058968,
            2274.976261376069,
            25307.40820697888,
            201371.1789841329,
            1186022.5614852922,
            5184845.196465845,
            16360528.101906188,
            34385042.05849137,
            38282175.1652422,
        ),
        (
            33.4538498019733,
            573.7440684793374,
            6494.1210888516225,
            53156.52486481722,
            327135.9558677722,
            1531261.3448258229,
            5395734.993186212,
            13784717.930017393,
            23334580.314433202,
            20363171.012198426,
        ),
    ),
}

# M_k(x) = sum_i w_i t_i^k exp(-x t_i): relative error 6e-8 on [0, 10], for backends without gradients.
MILLS_NODES = (
    0.024896593369626106,
    0.13181165694434388,
    0.32686671236482934,
    0.6152314056493603,
    1.005338281878298,
    1.509913374756949,
    2.1479128713093663,
    2.9522267659664685,
    4.009635029815032,
)
MILLS_WEIGHTS = (
    0.025509943523747677,
    0.05946122728682557,
    0.09099543089101972,
    0.11143079236209322,
    0.10705397414746805,
    0.0724024351023701,
    0.028350913709769655,
    0.00463312452372441,
    0.0001621584537590437,
)


def numpy_mills(x: Array) -> tuple[Array, ...]:
    """M0 to M4 in float64 for x >= 0."""
    x = np.minimum(x, FAR)
    numerator, denominator = MILLS_TABLES[torch.float64]
    return _downwards(x, np.polyval(numerator, x), np.polyval((1.0, *denominator), x))


def torch_mills(x: Tensor) -> tuple[Tensor, ...]:
    """M0 to M4 for x >= 0, differentiable to any order, in float32 and float64."""
    compute: Any = _by_tables if is_traced() else _Mills.apply
    found: tuple[Tensor, ...] = compute(x)
    return found


def mills_by_quadrature(xp: Namespace, x: Any) -> tuple[Any, ...]:
    """M0 to M4 for x >= 0 by exponentials and one matrix product."""
    nodes, weights = np.array(MILLS_NODES), np.array(MILLS_WEIGHTS)
    table = xp.mix(xp.exp(xp.fan(x, tuple(-nodes))), np.array([weights * nodes**k for k in range(5)]))
    return tuple(xp.drop_last(xp.every(table, -1, k, 1, 1)) for k in range(5))


def _downwards(x: Any, n: Any, d: Any) -> tuple[Any, ...]:
    a2 = n + x * d
    a1 = 3.0 * d + x * a2
    a0 = 2.0 * a2 + x * a1
    scale = (1.0 / SQRT_2PI) / (a1 + x * a0)
    return a0 * scale, a1 * scale, (2.0 * scale) * a2, (6.0 * scale) * d, (6.0 * scale) * n


def _by_tables(x: Tensor) -> tuple[Tensor, ...]:
    numerator, denominator = MILLS_TABLES[x.dtype]
    x = x.clamp(max=FAR)
    n, d = x * numerator[0] + numerator[1], x + denominator[0]
    for c in numerator[2:]:
        n = n * x + c
    for c in denominator[1:]:
        d = d * x + c
    return _downwards(x, n, d)


class _Mills(torch.autograd.Function):
    """The derivatives are those of the moments, not of the fit."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, ...]:
        return _by_tables(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, *slopes = ctx.saved_tensors
        fifth = 4.0 * slopes[2] - x.clamp(max=FAR) * slopes[3]
        pairs = zip(grads, (*slopes, fifth), strict=True)
        return -sum((grad * slope for grad, slope in pairs), start=torch.zeros_like(x))
