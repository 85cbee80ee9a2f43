"""Owns the tail moments of the standard normal divided by its density, for formulas with exponentials of their own.

With rho = J2 / I1 = N / D as in lbnn/ops/tail.py,

    [Q, I1, J2](x) / phi(x) = [x D + N, D, N] / (D + x (x D + N))

Products of such exponentials with the moments themselves would overflow and underflow. Here x may be a little below
zero, and for float32 the fit is made for that. Where powers of x would overflow the polynomials stay as they are: rho
is next to nothing there. lbnn/ops/mills.py has moments up to the fourth, of another ratio: two products more for these
three, and it is fitted from zero on: at -0.4 it is off by 6e-5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lbnn.ops.tail import RATIO_TABLES


@dataclass(frozen=True)
class ScaledTail:
    """N and D, highest power first, D without its leading 1, and the x beyond which they are not evaluated."""

    numerator: tuple[float, ...]
    denominator: tuple[float, ...]
    far: float


SCALED_FLOAT32 = ScaledTail(
    (1.9852188092344851, 23.119139997027656, 109.14411655964464, 322.1223582962168),
    (11.351839692141404, 60.21438246883358, 175.10093660907958, 257.016467130042),
    40.0,
)
"""Relative errors of Q 7e-8, I1 5e-8 and J2 5e-7 on [-0.4, 6], and of Q 2e-8 beyond; by tools/derive/fit_tail.py."""
SCALED_FLOAT64 = ScaledTail(*RATIO_TABLES[torch.float64], 1e12)


def scaled_tail(xp: Any, x: Any, fit: ScaledTail) -> tuple[Any, Any, Any]:
    """(Q, I1, J2) / phi by a fit, over any namespace."""
    near = xp.minimum(x, fit.far)
    j2, i1 = near * fit.numerator[0] + fit.numerator[1], near + fit.denominator[0]
    for c in fit.numerator[2:]:
        j2 = j2 * near + c
    for c in fit.denominator[1:]:
        i1 = i1 * near + c
    q = j2 + x * i1
    divisor = i1 + x * q
    return q / divisor, i1 / divisor, j2 / divisor


def torch_scaled_tail(xp: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By the fit for the tensor's type."""
    return scaled_tail(xp, x, SCALED_FLOAT64 if x.dtype == torch.float64 else SCALED_FLOAT32)
