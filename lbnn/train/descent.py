"""Gradient descent on the ELBO: the loss of a step is  mean NLL + w KL,  with w from a schedule (lbnn.train.priors).

A step calls the model the user passed (DistributedDataParallel and torch.compile need that), but reads the KL from the
module inside, with a generator that every process seeds alike. Each process scales its part of a batch so that the
averaged gradient is that of the whole batch, or its sum where processes add up the gradients themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.heads import head_of
from lbnn.nn.wrapped import unwrap
from lbnn.train.batches import Input, Source, check_finite, to_device
from lbnn.train.class_losses import binary_nll, categorical_nll
from lbnn.train.compiled import CompiledStep
from lbnn.train.flat import FlatPosterior
from lbnn.train.losses import check_shapes, check_values, gaussian_nll, gaussian_nll_gradients
from lbnn.train.optimizer import FlatAdamW
from lbnn.train.priors import Gaussian, Prior, Schedule, TrainingSize, as_schedule, kl_divergence, kl_elements
from lbnn.train.processes import device_of, processes_of
from lbnn.train.rates import PlateauRate, RateSchedule
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

    @property
    def is_gaussian_nll(self) -> bool:
        """Whether its gradients are known in closed form."""
        return self.loss is unreduced_nll

    def kl(self, model: nn.Module) -> Tensor:
        """The KL divergence of the model's weights from the prior."""
        return kl_divergence(model, self.prior, self.kl_samples, self.generator)

    def flat_kl(self, flat: FlatPosterior) -> Tensor:
        """The same from the vectors."""
        return kl_elements(flat.mu, flat.rho, self.prior, self.kl_samples, self.generator).sum()


@dataclass
class Descent:
    """Everything a gradient step needs; counts the steps for the KL schedule."""

    model: nn.Module
    source: Source
    elbo: Elbo
    optimizer: torch.optim.Optimizer
    clip_norm: float | None
    epochs: int
    flat: FlatPosterior | None = None
    compiled: CompiledStep | None = None
    rate: RateSchedule | None = None  # None leaves the learning rate to the optimizer's owner
    count: int = 0
    schedule: Schedule | None = None
    per_row: int | None = None

    def __post_init__(self) -> None:
        self.processes, self.device = processes_of(self.model), device_of(unwrap(self.model))
        self.lrs = [float(group["lr"]) for group in self.optimizer.param_groups]

    def epoch(self, number: int, score: Score | None) -> Epoch:
        """One pass over the source, then the validation."""
        self.model.train()
        rows, sums = 0, [0.0, 0.0, 0.0, 0.0]
        for x, y, whole in self.source.batches(number):
            values = self.step(to_device(x, self.device), y.to(self.device), whole, number)
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
        if isinstance(self.rate, PlateauRate):
            self.rate.see(value)
        return value

    def step(self, x: Input, y: Tensor, whole: int, number: int) -> tuple[float, float, float, float]:
        """Loss, NLL, KL and its weight of one step; `whole` counts the rows over all processes."""
        if not self.source.checked:
            check_finite(x, y)
        rate = self._set_rate()
        if self.compiled is not None and self.compiled.takes(x, y):
            values = self._compiled_step(x, y, whole, rate)
            if not math.isfinite(values[0]):
                raise LbnnError(f"the loss is {values[0]} in epoch {number}: {self._reason(x, y)}")
        elif self.flat is not None:
            values = self._flat_step(self.flat, x, y, whole, number)
        else:
            values = self._plain_step(x, y, whole, number)
        self.count += 1
        return values

    def _compiled_step(self, x: Input, y: Tensor, whole: int, rate: float) -> tuple[float, float, float, float]:
        assert self.compiled is not None
        per_row = math.prod(y.shape[1:]) if self.elbo.is_gaussian_nll else self._per_row(x, y)
        weight = self._weight(whole, per_row)
        loss, nll, kl = self.compiled(x, y, 1.0 / (whole * per_row), weight, rate)
        return loss, nll, kl, weight

    def _per_row(self, x: Input, y: Tensor) -> int:
        """Values of the loss in a row, asked once."""
        if self.per_row is None:
            with torch.no_grad():
                self.per_row = math.prod(_per_value(self.elbo.loss(_as_moments(self.model(x)), y), y).shape[1:])
        return self.per_row

    def _flat_step(
        self, flat: FlatPosterior, x: Input, y: Tensor, whole: int, number: int
    ) -> tuple[float, float, float, float]:
        """Gradients of NLL and Gaussian KL in closed form; autograd goes through the layers only."""
        with flat.variances():
            moments = _as_moments(self.model(x))
            nll, per_row, backward = self._nll(moments, y, whole if self.source.cuts else whole * self.processes.world)
            prior = self.elbo.prior
            kl = flat.gaussian_kl(prior) if isinstance(prior, Gaussian) else self.elbo.flat_kl(flat)
            weight = self._weight(whole, per_row)
            backward()
        nll = nll.detach()
        self.processes.add_up([flat.of_data, *(p.grad for p in flat.others if p.grad is not None), nll])
        values = self._finite(nll, kl, weight, moments, y, number)
        flat.finish(prior if isinstance(prior, Gaussian) else None, weight)
        if isinstance(kl, Tensor) and weight > 0.0:
            (weight * kl).backward()  # type: ignore[no-untyped-call]
        self._move([flat.mu, flat.rho, *flat.others])
        return values

    def _nll(self, moments: Moments[Tensor], y: Tensor, whole: int) -> tuple[Tensor, int, Callable[[], None]]:
        """The mean NLL, the number of values in a row, and what sends gradients into the network."""
        if not self.elbo.is_gaussian_nll:
            values = _per_value(self.elbo.loss(moments, y), y)
            per_row = math.prod(values.shape[1:])
            nll = values.sum() * (1.0 / (whole * per_row))
            return nll, per_row, nll.backward
        per_row = math.prod(y.shape[1:])
        scale = 1.0 / (whole * per_row)
        total, *towards = gaussian_nll_gradients(moments, y)
        paths = [(part, grad.mul_(scale)) for part, grad in zip(moments, towards, strict=True) if part.requires_grad]
        outs, grads = [p for p, _ in paths], [g for _, g in paths]
        return total.mul_(scale), per_row, lambda: torch.autograd.backward(outs, grads)

    def _plain_step(self, x: Input, y: Tensor, whole: int, number: int) -> tuple[float, float, float, float]:
        """All by autograd, through the module that the user wrapped."""
        world = self.processes.world if self.source.cuts else 1
        self.optimizer.zero_grad(set_to_none=True)
        moments = _as_moments(self.model(x))
        nll_values = _per_value(self.elbo.loss(moments, y), y)
        per_row = math.prod(nll_values.shape[1:])
        nll = nll_values.sum() * (world / (whole * per_row))
        kl = self.elbo.kl(unwrap(self.model))
        weight = self._weight(whole, per_row)
        values = self._finite(nll, kl, weight, moments, y, number)
        (nll + weight * kl).backward()  # type: ignore[no-untyped-call]
        parameters: list[Tensor] = list(unwrap(self.model).parameters())
        self._average([p.grad for p in parameters if p.grad is not None])
        self._move(parameters)
        return values

    def _average(self, gradients: list[Tensor]) -> None:
        """What DistributedDataParallel would do."""
        if self.processes.shares:
            self.processes.add_up(gradients)
            torch._foreach_div_(gradients, float(self.processes.world))

    def _finite(
        self, nll: Tensor, kl: Tensor | float, weight: float, moments: Moments[Tensor], y: Tensor, number: int
    ) -> tuple[float, float, float, float]:
        """Loss, NLL, KL and weight as numbers; refuses a loss that is none."""
        first, second = (float(v.detach()) if isinstance(v, Tensor) else v for v in (nll, kl))
        value = first + weight * second
        if not math.isfinite(value):
            raise LbnnError(f"the loss is {value} in epoch {number}: {_diagnose(moments, y)}")
        return value, first, second, weight

    def _move(self, parameters: list[Tensor]) -> None:
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, self.clip_norm)
        if isinstance(self.optimizer, FlatAdamW):
            self.optimizer.move()
        else:
            self.optimizer.step()

    def _set_rate(self) -> float:
        """The learning rate of this step, given to the optimizer."""
        total = self.epochs * self.source.length
        factor = 1.0 if self.rate is None else float(self.rate(self.count, total))
        if self.rate is not None:
            for group, lr in zip(self.optimizer.param_groups, self.lrs, strict=True):
                group["lr"] = lr * factor
        return self.lrs[0] * factor

    def _reason(self, x: Input, y: Tensor) -> str:
        with torch.no_grad():
            return _diagnose(_as_moments(self.model(x)), y)

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


def default_loss(model: nn.Module) -> Loss:
    """The loss that fits what the model ends in: Gaussian NLL, or that of classes by the delta rule."""
    return HEAD_LOSSES[head_of(model)]


def unreduced_categorical(moments: Moments[Tensor], y: Tensor) -> Tensor:
    """The expected NLL of each row's class."""
    return categorical_nll(moments, y, "none")


def unreduced_binary(moments: Moments[Tensor], y: Tensor) -> Tensor:
    """The expected NLL of each label."""
    return binary_nll(moments, y, "none")


HEAD_LOSSES: dict[str | None, Loss] = {
    None: unreduced_nll,
    "softmax": unreduced_categorical,
    "softmax_fast": unreduced_categorical,
    "sigmoid": unreduced_binary,
}


def _as_moments(out: Any) -> Moments[Tensor]:
    out = out.logits if isinstance(out, Classes) else out
    if not isinstance(out, Moments):
        raise LbnnError(f"the model must return Moments, not {type(out).__name__}; build it from lbnn.nn")
    return out


def _per_value(nll: Tensor, y: Tensor) -> Tensor:
    if nll.dim() == 0 or len(nll) != len(y):
        raise LbnnError("the loss must return one value per target value or row, unreduced (reduction='none')")
    return nll


def _diagnose(moments: Moments[Tensor], y: Tensor) -> str:
    """Why a loss is not finite, in words; class numbers have been checked by their loss."""
    try:
        if y.is_floating_point():
            check_shapes(moments, y)
            check_values(moments, y)
        elif not all(bool(torch.isfinite(part).all()) for part in moments):
            return "the logits hold NaN or infinity; check the data and lower the learning rate"
    except LbnnError as error:
        return str(error)
    return "lower the learning rate, set clip_norm, or check the loss and the prior"
