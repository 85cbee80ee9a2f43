"""What a model's intervals are worth on rows that it was not trained on, and from when on it should be called unsure.

Split conformal calibration. Of n rows the scores |y - mean| / sigma are sorted, and the factor of the interval

    mean - factor sigma  to  mean + factor sigma

is the ceil((n + 1) level)-th smallest: a new row like these falls inside with a probability of at least `level`, and
less than `level` + 1 / (n + 1) where no two scores are equal, whatever the model is worth. That is an average over all
rows: where sigma is large, coverage can be lower. The limit of sigma is found likewise: a new row like these exceeds it
with a probability of at most `false_alarms`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.losses import check_shapes, check_values

LEVEL = 0.9
FALSE_ALARMS = 0.05
KEY = "calibration"
"""Of a model file's metadata."""


@dataclass(frozen=True)
class Calibration:
    """The constants of each output; `variance_scale` is the mean of ((y - mean) / sigma)^2, 1 for an honest model."""

    level: float
    false_alarms: float
    rows: int
    factor: tuple[float, ...]
    variance_scale: tuple[float, ...]
    unsure_sd: tuple[float, ...]

    def interval(self, moments: Moments[Tensor]) -> tuple[Tensor, Tensor]:
        """Low and high ends; moments [n, outputs]."""
        half = moments.std * torch.tensor(self.factor, dtype=moments.mean.dtype)
        return moments.mean - half, moments.mean + half

    def is_unsure(self, moments: Moments[Tensor]) -> Tensor:
        """Whether an output of a row is less sure than nearly all of the calibration rows were."""
        limits = torch.tensor(self.unsure_sd, dtype=moments.mean.dtype)
        return torch.any(moments.std > limits, dim=1)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for a model file or JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def calibrate(
    moments: Moments[Tensor], target: Tensor, level: float = LEVEL, false_alarms: float = FALSE_ALARMS
) -> Calibration:
    """The calibration by predictions [n, outputs] and what was observed."""
    check_shapes(moments, target)
    check_values(moments, target)
    mean, sd, seen = moments.mean.double(), moments.var.double().sqrt(), target.double()
    scores = (seen - mean).abs() / sd
    return Calibration(
        level,
        false_alarms,
        len(target),
        exceeded_rarely(scores, level, f"an interval of {level:.4g}"),
        tuple(scores.square().mean(dim=0).tolist()),
        exceeded_rarely(sd, 1.0 - false_alarms, f"a limit with {false_alarms:.4g} of false alarms"),
    )


def exceeded_rarely(values: Tensor, share: float, what: str) -> tuple[float, ...]:
    """The value of each column that a new row stays below with a probability of at least `share`."""
    if not 0.0 < share < 1.0:
        raise LbnnError(f"{what} is none; choose a share between 0 and 1")
    rank = math.ceil((len(values) + 1) * share - 1e-9)  # 0.9 * 10 is not exactly 9
    if rank > len(values):
        fewest = math.ceil(1.0 / (1.0 - share) - 1e-9) - 1
        raise LbnnError(f"{what} needs at least {fewest} calibration rows, got {len(values)}")
    return tuple(values.sort(dim=0).values[rank - 1].tolist())


def read_calibration(metadata: Mapping[str, Any], outputs: int) -> Calibration | None:
    """The calibration of a model file; None if it has none."""
    given = metadata.get(KEY)
    if given is None:
        return None
    try:
        return Calibration(
            _number(given["level"]),
            _number(given["false_alarms"]),
            int(_number(given["rows"])),
            *(_numbers(given[key], outputs) for key in ("factor", "variance_scale", "unsure_sd")),
        )
    except (KeyError, TypeError, ValueError):
        raise LbnnError("its calibration is not as lbnn calibrate writes it; calibrate it again") from None


def _number(value: Any) -> float:
    """A number that float32 can hold, not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1e38:
        raise ValueError(value)
    return float(value)


def _numbers(values: Sequence[Any], count: int) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)) or len(values) != count:
        raise ValueError(values)
    return tuple(map(_number, values))
