"""How good predicted Gaussians are against what was observed: sharpness subject to calibration.

Every function takes Moments and a target of the same shape and averages over all elements in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.losses import check_shapes, check_values, gaussian_nll

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
CURVE_LEVELS = tuple(i / 100 for i in range(1, 100))


@dataclass(frozen=True)
class Summary:
    """All metrics of one set of predictions; prints as a table."""

    count: int
    nll: float
    rmse: float
    crps: float
    sharpness: float
    calibration_error: float
    coverage: dict[float, float]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            ("values", f"{self.count}"),
            ("NLL (nats)", f"{self.nll:.4f}"),
            ("RMSE", f"{self.rmse:.4g}"),
            ("CRPS", f"{self.crps:.4g}"),
            ("sharpness (mean sd)", f"{self.sharpness:.4g}"),
            ("calibration error", f"{self.calibration_error:.4f}"),
            *((f"coverage of {level:.0%}", f"{share:.1%}") for level, share in self.coverage.items()),
        ]
        return "\n".join(f"{name:<20} {value:>9}" for name, value in rows)


def summary(moments: Moments[Tensor], target: Tensor, levels: Sequence[float] = LEVELS) -> Summary:
    """Every metric at once."""
    return Summary(
        count=target.numel(),
        nll=nll(moments, target),
        rmse=rmse(moments, target),
        crps=crps(moments, target),
        sharpness=sharpness(moments, target),
        calibration_error=calibration_error(moments, target),
        coverage=coverage(moments, target, levels),
    )


def nll(moments: Moments[Tensor], target: Tensor) -> float:
    """Mean negative log-likelihood in nats, with the predicted variance as the total variance."""
    return float(gaussian_nll(*_checked(moments, target), check=False))


def rmse(moments: Moments[Tensor], target: Tensor) -> float:
    """Root mean squared error of the predicted mean."""
    moments, target = _checked(moments, target)
    return float((target - moments.mean).square().mean().sqrt())


def crps(moments: Moments[Tensor], target: Tensor) -> float:
    """Mean continuous ranked probability score, in the unit of the target.

    For a Gaussian: sigma (z (2 Phi(z) - 1) + 2 phi(z) - 1/sqrt(pi)) with z = (target - mean) / sigma.
    """
    moments, target = _checked(moments, target)
    sigma = moments.var.sqrt()
    z = (target - moments.mean) / sigma
    density = torch.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    return float((sigma * (z * torch.erf(z / math.sqrt(2.0)) + 2.0 * density - 1.0 / math.sqrt(math.pi))).mean())


def sharpness(moments: Moments[Tensor], target: Tensor | None = None) -> float:
    """Mean predicted standard deviation: smaller is better among calibrated predictions."""
    moments, _ = _checked(moments, moments.mean if target is None else target)
    return float(moments.var.sqrt().mean())


def coverage(moments: Moments[Tensor], target: Tensor, levels: Sequence[float] = LEVELS) -> dict[float, float]:
    """For each level p, the share of targets inside the central interval of probability p."""
    _check_levels(levels)
    moments, target = _checked(moments, target)
    inside = torch.erf((target - moments.mean).abs() / (2.0 * moments.var).sqrt())  # P(|Z| < |z|)
    return {p: float((inside <= p).double().mean()) for p in levels}


def calibration_curve(
    moments: Moments[Tensor], target: Tensor, levels: Sequence[float] = CURVE_LEVELS
) -> dict[float, float]:
    """For each p, the share of targets below the predicted p-quantile: equal to p when calibrated."""
    _check_levels(levels)
    below = probability_integral(moments, target)
    return {p: float((below <= p).double().mean()) for p in levels}


def calibration_error(moments: Moments[Tensor], target: Tensor, levels: Sequence[float] = CURVE_LEVELS) -> float:
    """Mean |observed - expected| over the calibration curve: 0 is perfect, 0.5 a wholly wrong mean."""
    curve = calibration_curve(moments, target, levels)
    return sum(abs(share - p) for p, share in curve.items()) / len(curve)


def probability_integral(moments: Moments[Tensor], target: Tensor) -> Tensor:
    """P(Y < target) of each predicted Gaussian: uniform on [0, 1] when calibrated."""
    moments, target = _checked(moments, target)
    below: Tensor = torch.special.ndtr((target - moments.mean) / moments.var.sqrt())
    return below


def _checked(moments: Moments[Tensor], target: Tensor) -> tuple[Moments[Tensor], Tensor]:
    """Both in float64 on the CPU (not every device has it), after the checks of shapes and values."""
    check_shapes(moments, target)
    if not target.numel():
        raise LbnnError("there is nothing to score: the target is empty")
    check_values(moments, target)
    mean, var, target = (t.detach().cpu().double() for t in (moments.mean, moments.var, target))
    return Moments(mean, var), target


def _check_levels(levels: Sequence[float]) -> None:
    if not levels or not all(0.0 < p < 1.0 for p in levels):
        raise LbnnError(f"levels must be probabilities between 0 and 1, got {tuple(levels)}")
