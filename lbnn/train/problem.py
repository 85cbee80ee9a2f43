"""The paper's regression problem (its section 4.1): a straight line whose noise changes with x.

    y = x + eps(x) + 1,   eps(x) ~ N(0, sigma(x)^2),   sigma(x) = 0.1 + 0.2 sin(2 pi x - pi/2)

Training inputs are uniform in [-0.5, 0.5]. The printed sigma changes its sign at |x| = 1/6: there is no noise there,
and only its square enters anywhere.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

INSIDE = 0.5  # training inputs are uniform in [-INSIDE, INSIDE]
OUTSIDE = 1.5  # how far beyond them the networks are asked
IDEAL_NLL = math.log(0.1) + 0.5 * (math.log(2.0 * math.pi) + 1.0)
"""Expected NLL of the true distribution inside: the mean of log|a + b sin t| over a period is log(b/2) for b > a."""


def true_mean(x: Tensor) -> Tensor:
    """x + 1."""
    return x + 1.0


def true_std(x: Tensor) -> Tensor:
    """|0.1 + 0.2 sin(2 pi x - pi/2)|."""
    return torch.abs(0.1 + 0.2 * torch.sin(2.0 * math.pi * x - 0.5 * math.pi))


def draw(rows: int, columns: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Fresh inputs and observations, each of shape (rows, columns)."""
    x = INSIDE * (2.0 * torch.rand(rows, columns, generator=generator) - 1.0)
    return x, true_mean(x) + true_std(x) * torch.randn(rows, columns, generator=generator)


def inside_grid(points: int) -> Tensor:
    """Midpoints of equal cells of the training range: their mean is the integral over it."""
    return INSIDE * ((2.0 * torch.arange(points, dtype=torch.float64) + 1.0) / points - 1.0)


def outside_grid(points: int) -> Tensor:
    """Midpoints of equal cells of [-OUTSIDE, -INSIDE] and [INSIDE, OUTSIDE]."""
    right = INSIDE + (OUTSIDE - INSIDE) * (torch.arange(points // 2, dtype=torch.float64) + 0.5) / (points // 2)
    return torch.cat([-right.flip(0), right])
