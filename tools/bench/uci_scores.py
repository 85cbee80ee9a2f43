"""Predictive distributions of the methods and their scores: every one is a mixture of Gaussians, mostly of one.

A mixture is scored as it is: its own density, its own quantiles, its own CRPS. `gaussian` is the log-likelihood of the
one Gaussian with the mixture's mean and variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LEVELS = (0.9, 0.95)
PAIRS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Prediction:
    """Equally likely Gaussians for each of n rows: mean and var [components, n], float64."""

    mean: Tensor
    var: Tensor

    def moments(self) -> Prediction:
        """The one Gaussian of the same mean and variance."""
        mean = self.mean.mean(dim=0)
        var = self.var.mean(dim=0) + (self.mean - mean).square().mean(dim=0)
        return Prediction(mean[None], var[None])


@dataclass(frozen=True)
class Scores:
    """Means over the rows of one split; `coverage` is of central intervals, in the order of LEVELS."""

    log_likelihood: float
    gaussian: float
    rmse: float
    crps: float
    coverage: tuple[float, ...]


def score(prediction: Prediction, target: Tensor) -> Scores:
    """All scores of targets [n]."""
    below = probability_below(prediction, target)
    return Scores(
        log_likelihood=float(log_density(prediction, target).mean()),
        gaussian=float(log_density(prediction.moments(), target).mean()),
        rmse=float((prediction.mean.mean(dim=0) - target).square().mean().sqrt()),
        crps=float(crps(prediction, target).mean()),
        coverage=tuple(float(((2.0 * below - 1.0).abs() <= level).double().mean()) for level in LEVELS),
    )


def log_density(prediction: Prediction, target: Tensor) -> Tensor:
    """log of the mean of the components' densities, for each row."""
    each = -0.5 * (torch.log(2.0 * math.pi * prediction.var) + (target - prediction.mean).square() / prediction.var)
    return torch.logsumexp(each, dim=0) - math.log(len(each))


def probability_below(prediction: Prediction, target: Tensor) -> Tensor:
    """P(Y < target) for each row."""
    return torch.special.ndtr((target - prediction.mean) / prediction.var.sqrt()).mean(dim=0)


def crps(prediction: Prediction, target: Tensor) -> Tensor:
    """E|Y - target| - E|Y - Y'| / 2 for each row, Y and Y' drawn from its mixture."""
    mean, var = prediction.mean, prediction.var
    near = expected_distance(target - mean, var).mean(dim=0)
    rows = max(1, PAIRS_AT_ONCE // len(mean) ** 2)
    parts = [
        expected_distance(m[:, None] - m, v[:, None] + v).mean(dim=(0, 1))
        for m, v in zip(mean.split(rows, dim=1), var.split(rows, dim=1), strict=True)
    ]
    return near - 0.5 * torch.cat(parts)


def expected_distance(mean: Tensor, var: Tensor) -> Tensor:
    """E|X| of X ~ N(mean, var): m (2 Phi(m / s) - 1) + 2 s phi(m / s)."""
    sigma = var.sqrt()
    z = mean / sigma
    return mean * torch.erf(z / math.sqrt(2.0)) + sigma * math.sqrt(2.0 / math.pi) * torch.exp(-0.5 * z.square())
