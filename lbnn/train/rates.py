"""Learning rates over a training: a schedule gives the factor of the rate at each step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lbnn.base.errors import LbnnError


class RateSchedule(Protocol):
    """The factor of the learning rate at a training step."""

    def __call__(self, step: int, total: int) -> float:
        """The factor at `step` (from 0) of `total`."""
        ...


@dataclass(frozen=True)
class ConstantRate:
    """The same rate at every step."""

    def __call__(self, step: int, total: int) -> float:
        """One."""
        return 1.0


@dataclass(frozen=True)
class CosineRate:
    """Rises linearly over the first `warmup` of the training, if any, and falls by half a cosine to 0 at its end."""

    warmup: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.warmup < 1.0:
            raise LbnnError(f"CosineRate needs 0 <= warmup < 1, got {self.warmup}")

    def __call__(self, step: int, total: int) -> float:
        """The ramp, then the cosine."""
        rise = self.warmup * total
        if step < rise:
            return (step + 1) / (rise + 1)
        return 0.5 * (1.0 + math.cos(math.pi * (step - rise) / (total - rise)))


@dataclass(frozen=True)
class WarmupRate:
    """Rises linearly over the first `fraction` of the training and stays."""

    fraction: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise LbnnError(f"WarmupRate needs 0 < fraction <= 1, got {self.fraction}")

    def __call__(self, step: int, total: int) -> float:
        """The ramp, then one."""
        return min(1.0, (step + 1) / (self.fraction * total))


@dataclass
class PlateauRate:
    """Falls by `factor` whenever the validation has not improved for `patience` validations; needs a validation set."""

    factor: float = 0.3
    patience: int = 5
    best: float = field(default=math.inf, init=False)
    waited: int = field(default=0, init=False)
    now: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.factor < 1.0 or self.patience < 1:
            raise LbnnError(f"PlateauRate needs 0 < factor < 1 and patience >= 1, got {self.factor}, {self.patience}")

    def __call__(self, step: int, total: int) -> float:
        """The factor of now."""
        return self.now

    def see(self, validation: float) -> None:
        """Counts a validation in vain."""
        self.waited = 0 if validation < self.best else self.waited + 1
        self.best = min(self.best, validation)
        if self.waited >= self.patience:
            self.now, self.waited = self.now * self.factor, 0


RATES: dict[str, Callable[[], RateSchedule]] = {
    "constant": ConstantRate,
    "cosine": CosineRate,
    "warmup": WarmupRate,
    "warmup_cosine": lambda: CosineRate(0.05),
    "plateau": PlateauRate,
}


def as_rate(schedule: str | RateSchedule | None, optimizer: object, validation: object) -> RateSchedule | None:
    """The schedule of a training; None leaves the rate to the optimizer that was given."""
    if schedule is None and optimizer is not None:
        return None
    rate = named_rate("cosine" if schedule is None else schedule)
    if isinstance(rate, PlateauRate) and validation is None:
        raise LbnnError("lr_schedule='plateau' needs a validation set; pass validation=(x, y)")
    return rate


def named_rate(schedule: str | RateSchedule) -> RateSchedule:
    """A learning-rate schedule from its name, or any callable (step, total) -> factor."""
    if isinstance(schedule, str):
        if schedule not in RATES:
            raise LbnnError(f"unknown lr_schedule '{schedule}'; known: {', '.join(RATES)}")
        return RATES[schedule]()
    if isinstance(schedule, type) or not callable(schedule):
        raise LbnnError(f"{schedule!r} is not an lr_schedule; use {', '.join(RATES)} or a function (step, total)")
    return schedule
