"""Gradient descent on the ELBO: the loss of a step is  mean NLL + w KL,  with w from a schedule (lbnn.train.priors).

A step calls the model the user passed (DistributedDataParallel and torch.compile need that), but reads the KL from the
module inside, with a generator that every process seeds alike. Each process scales its part of a batch so that the
averaged gradient is that of the whole batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.wrapped import unwrap
from lbnn.train.batches import Input, Source, check_finite, to_device
from lbnn.train.losses import check_shapes, check_values, gaussian_nll
from lbnn.train.priors import Prior, Schedule, TrainingSize, as_schedule, kl_divergence
from lbnn.train.processes import Processes
from lbnn.train.result import Epoch
from lbnn.train.validation import Loss, Score


@dataclass(frozen=True)
class Elbo:
    """What is minimised: the loss of each value, and the KL from the prior with its weight."""

    loss: Loss
    prior: Prior
    kl_weight: str | float | Schedule
    kl_samples: int
    generator: torch.Generator

    def kl(self, model: nn.Module) -> Tensor:
        """The KL divergence of the model's weights from the prior."""
        return kl_divergence(model, self.prior, self.kl_samples, self.generator)


@dataclass
class Descent:
    """Everything a gradient step needs; counts the steps for the KL schedule."""

    model: nn.Module
    source: Source
    elbo: Elbo
    optimizer: torch.optim.Optimizer
    clip_norm: float | None
    epochs: int
    processes: Processes
    device: torch.device
    count: int = 0
    schedule: Schedule | None = None

    def epoch(self, number: int, score: Score | None) -> Epoch:
        """One pass over the source, then the validation."""
        self.model.train()
        rows, sums = 0, [0.0, 0.0, 0.0, 0.0]
        for x, y, whole in self.source.batches(number):
            values = self._step(to_device(x, self.device), y.to(self.device), whole, number)
            rows += whole
            sums = [s + whole * v for s, v in zip(sums, values, strict=True)]
        if not rows:
            raise LbnnError("the data gave no batch; check the DataLoader or the sampler")
        loss, nll, kl, weight = self.processes.mean([s / rows for s in sums], self.device)
        return Epoch(number, loss, nll, kl, weight, self._validated(score))

    @torch.no_grad()
    def _validated(self, score: Score | None) -> float | None:
        """The validation NLL, the same number in every process so that all select and stop alike."""
        if score is None:
            return None
        self.model.eval()
        value = self.processes.mean([score(unwrap(self.model))], self.device)[0]
        if math.isnan(value):
            raise LbnnError("the validation NLL is NaN; check the validation data and lower the learning rate")
        return value

    def _step(self, x: Input, y: Tensor, whole: int, number: int) -> tuple[float, float, float, float]:
        """Loss, NLL, KL and its weight of one step; `whole` counts the rows over all processes."""
        check_finite(x, y)
        world = self.processes.world if self.source.cuts else 1
        self.optimizer.zero_grad(set_to_none=True)
        moments = _as_moments(self.model(x))
        nll_values = _per_value(self.elbo.loss(moments, y), y)
        per_row = math.prod(nll_values.shape[1:])
        nll = nll_values.sum() * (world / (whole * per_row))
        kl = self.elbo.kl(unwrap(self.model))
        weight = self._weight(whole, per_row)
        total = nll + weight * kl
        value = float(total.detach())
        if not math.isfinite(value):
            raise LbnnError(f"the loss is {value} in epoch {number}: {_diagnose(moments, y)}")
        total.backward()  # type: ignore[no-untyped-call]
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(unwrap(self.model).parameters(), self.clip_norm)
        self.optimizer.step()
        self.count += 1
        return value, float(nll.detach()), float(kl.detach()), weight

    def _weight(self, rows: int, per_row: int) -> float:
        """The KL weight now; named schedules are scaled when the first batch tells its number of values."""
        total = self.epochs * self.source.length
        if self.schedule is None:
            if not self.source.cuts:  # a DataLoader gives each process its own batch
                rows *= self.processes.world
            size = TrainingSize(self.source.rows(rows, self.epochs) * per_row, rows * per_row, self.source.length)
            self.schedule = as_schedule(self.elbo.kl_weight, size)
        weight = float(self.schedule(self.count, total))
        if not (math.isfinite(weight) and weight >= 0.0):
            raise LbnnError(f"the KL weight of step {self.count} is {weight}; it must be finite and not negative")
        return weight


def unreduced_nll(moments: Moments[Tensor], y: Tensor) -> Tensor:
    """The loss unless another is given: the Gaussian NLL of each value."""
    return gaussian_nll(moments, y, "none", check=False)


def _as_moments(out: Any) -> Moments[Tensor]:
    if not isinstance(out, Moments):
        raise LbnnError(f"the model must return Moments, not {type(out).__name__}; build it from lbnn.nn")
    return out


def _per_value(nll: Tensor, y: Tensor) -> Tensor:
    if nll.dim() == 0 or len(nll) != len(y):
        raise LbnnError("the loss must return one value per target value or row, unreduced (reduction='none')")
    return nll


def _diagnose(moments: Moments[Tensor], y: Tensor) -> str:
    """Why a loss is not finite, in words."""
    try:
        check_shapes(moments, y)
        check_values(moments, y)
    except LbnnError as error:
        return str(error)
    return "lower the learning rate, set clip_norm, or check the loss and the prior"
