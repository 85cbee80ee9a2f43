"""Priors over weights, the KL divergence from the posterior to them, and the weights KL gets while training.

The posterior of a weight is N(mu, sigma^2) with sigma = softplus(rho). Every formula here uses log(sigma)
straight from rho, so a sigma that underflows (rho = -200) still has its exact, finite KL and gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.nn import BayesianLayer
from lbnn.nn.spread import FactoredRho, Rho, sigma_of

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@runtime_checkable
class Prior(Protocol):
    """Anything with an elementwise log density; the KL to it is estimated by Monte Carlo."""

    def log_prob(self, w: Tensor) -> Tensor:
        """Log density of each element, in nats."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """N(0, sigma^2): the KL has a closed form, so it needs no samples."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        _require_positive(sigma=self.sigma)

    def log_prob(self, w: Tensor) -> Tensor:
        """Log density of each element, in nats."""
        return _log_normal(w, self.sigma)

    def factored_kl(self, mu: Tensor, rho: FactoredRho) -> Tensor:
        """The same, summed over all elements: the sum of products of factors is the product of their sums."""
        rows, columns = len(rho.row), mu[0].numel()
        row = log_softplus(rho.row) - math.log(self.sigma)
        column = torch.zeros_like(mu[0]) if rho.column is None else log_softplus(rho.column)
        squares = torch.exp(2.0 * row).sum() * torch.exp(2.0 * column).sum()
        logs = columns * row.sum() + rows * column.sum()
        return 0.5 * (squares - mu.numel()) - logs + 0.5 * ((mu / self.sigma) ** 2).sum()

    def kl(self, mu: Tensor, rho: Tensor) -> Tensor:
        """KL(N(mu, softplus(rho)^2) || N(0, sigma^2)) of each element: (r^2 - 1)/2 - log r + (mu/sigma)^2/2."""
        log_ratio = log_softplus(rho) - math.log(self.sigma)
        return 0.5 * torch.expm1(2.0 * log_ratio) - log_ratio + 0.5 * (mu / self.sigma) ** 2


@dataclass(frozen=True)
class SpikeSlab:
    """mix N(0, sigma1^2) + (1 - mix) N(0, sigma2^2): a broad slab and a narrow spike at zero."""

    mix: float = 0.5
    sigma1: float = 1.0
    sigma2: float = math.exp(-6.0)  # variance e^-12

    def __post_init__(self) -> None:
        _require_positive(sigma1=self.sigma1, sigma2=self.sigma2)
        if not 0.0 < self.mix < 1.0:
            raise LbnnError(f"SpikeSlab needs 0 < mix < 1, got {self.mix}; use Gaussian for a single component")

    def log_prob(self, w: Tensor) -> Tensor:
        """Log density of each element, by logsumexp: neither component underflows."""
        slab = math.log(self.mix) + _log_normal(w, self.sigma1)
        spike = math.log1p(-self.mix) + _log_normal(w, self.sigma2)
        return torch.logaddexp(slab, spike)


PRIORS: dict[str, Callable[[], Prior]] = {"spike_slab": SpikeSlab, "gaussian": Gaussian}


def as_prior(prior: str | Prior) -> Prior:
    """A prior from its name, or the prior itself."""
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise LbnnError(f"unknown prior '{prior}'; known: {', '.join(PRIORS)}")
        return PRIORS[prior]()
    if isinstance(prior, type) or not isinstance(prior, Prior):
        raise LbnnError(f"{prior!r} is not a prior; use {', '.join(PRIORS)} or an object with log_prob(w)")
    return prior


def named_gaussians(model: nn.Module) -> Iterator[tuple[str, Tensor, Rho]]:
    """(name, mu, rho) of every Gaussian parameter of the model, each once however often it is shared."""
    seen: set[int] = set()
    for path, layer in model.named_modules():
        if isinstance(layer, BayesianLayer):
            for name, mu, rho in layer.named_gaussians():
                if id(mu) not in seen:
                    seen.add(id(mu))
                    yield f"{path}.{name}" if path else name, mu, rho


def kl_elements(
    mu: Tensor, rho: Tensor, prior: Prior, samples: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """KL of each element of one Gaussian parameter: exact for a Gaussian prior, else from `samples` draws.

    The entropy of the posterior is exact in both cases: its gradient is the one of the fully sampled estimate
    log q(w) - log p(w), without that estimate's noise from log q.
    """
    if isinstance(prior, Gaussian):
        return prior.kl(mu, rho)
    return _sampled_kl(mu, F.softplus(rho), log_softplus(rho), prior, samples, generator)


def _sampled_kl(
    mu: Tensor, sigma: Tensor, log_sigma: Tensor, prior: Prior, samples: int, generator: torch.Generator | None
) -> Tensor:
    if samples < 1:
        raise LbnnError(f"the Monte Carlo KL needs at least one sample, got {samples}")
    noise = torch.randn((samples, *mu.shape), generator=generator, dtype=mu.dtype, device=mu.device)
    log_p = prior.log_prob(mu + sigma * noise).mean(0)
    return -log_sigma - HALF_LOG_2PI - 0.5 - log_p


def factored_kl(
    mu: Tensor, rho: FactoredRho, prior: Prior, samples: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """KL of one weight whose standard deviations are products of factors, summed over its elements."""
    if isinstance(prior, Gaussian):
        return prior.factored_kl(mu, rho)
    log_sigma = log_softplus(rho.row).reshape((-1,) + (1,) * (mu.ndim - 1))
    log_sigma = log_sigma if rho.column is None else log_sigma + log_softplus(rho.column)
    return _sampled_kl(mu, sigma_of(rho, mu), log_sigma.expand(mu.shape), prior, samples, generator).sum()


def kl_divergence(
    model: nn.Module, prior: str | Prior, samples: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """KL(posterior || prior) in nats, summed over every Gaussian weight and bias of the model."""
    gaussians, chosen = [(mu, rho) for _, mu, rho in named_gaussians(model)], as_prior(prior)
    if not gaussians:
        raise LbnnError("the model has no Bayesian layer, so it has no KL; build it from lbnn.nn")
    factored = [factored_kl(mu, r, chosen, samples, generator) for mu, r in gaussians if isinstance(r, FactoredRho)]
    free = [(mu, rho) for mu, rho in gaussians if isinstance(rho, Tensor)]
    if not free:
        return torch.stack(factored).sum()
    mu, rho = (torch.cat([t.flatten() for t in each]) for each in zip(*free, strict=True))
    return sum(factored, start=kl_elements(mu, rho, chosen, samples, generator).sum())


def log_softplus(rho: Tensor) -> Tensor:
    """log(softplus(rho)), finite and differentiable where softplus underflows: rho - e^rho/2 there."""
    small = rho < -16.0  # the next term of the series, 5 e^(2 rho)/24, is below 3e-15
    safe = torch.where(small, torch.zeros_like(rho), rho)
    tail = torch.where(small, rho, torch.zeros_like(rho))
    return torch.where(small, tail - 0.5 * torch.exp(tail), torch.log(F.softplus(safe)))


def _log_normal(w: Tensor, sigma: float) -> Tensor:
    return -0.5 * (w / sigma) ** 2 - math.log(sigma) - HALF_LOG_2PI


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0.0 and math.isfinite(value)):
            raise LbnnError(f"{name} must be a positive number, got {value}")


# --- KL weights -----------------------------------------------------------------------------------------------
# A schedule maps (step, total) to the weight w in  loss = mean NLL + w KL.  step counts from 0, total is the
# number of steps of the whole training.


class Schedule(Protocol):
    """The weight of the KL at a training step."""

    def __call__(self, step: int, total: int) -> float:
        """The weight at `step` of `total`."""
        ...


@dataclass(frozen=True)
class ConstantWeight:
    """The same weight at every step; 1/N for N observed values makes the loss the ELBO per value."""

    value: float

    def __call__(self, step: int, total: int) -> float:
        """The constant."""
        return self.value


@dataclass(frozen=True)
class PaperDecay:
    """2^(M-i) / (2^M - 1) for i = 1..M over the whole training: the weights halve and sum to one.

    The paper's log-likelihood is a sum over the batch; scale = 1 / (values in a batch) fits them to a mean.
    """

    scale: float = 1.0

    def __call__(self, step: int, total: int) -> float:
        """2^-i / (1 - 2^-M), scaled."""
        return self.scale * halving(step, total)


@dataclass(frozen=True)
class Blundell:
    """The same halving weights over the `batches` of each epoch, so that each epoch counts the KL once.

    scale = 1 / (values in a batch) fits them to a loss that is a mean over the batch.
    """

    batches: int
    scale: float = 1.0

    def __call__(self, step: int, total: int) -> float:
        """The weight of this step's batch within its epoch."""
        return self.scale * halving(step % self.batches, self.batches)


@dataclass(frozen=True)
class LinearWarmup:
    """Rises from 0 to `value` over the first `fraction` of the training and stays there."""

    value: float
    fraction: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise LbnnError(f"LinearWarmup needs 0 < fraction <= 1, got {self.fraction}")

    def __call__(self, step: int, total: int) -> float:
        """The ramp, then the value."""
        return self.value * min(1.0, step / (self.fraction * total))


def halving(step: int, total: int) -> float:
    """2^-i / (1 - 2^-M) with i = step + 1, M = total: the form that does not overflow for M = 10000."""
    if not 0 <= step < total:
        raise LbnnError(f"step {step} is outside 0..{total - 1}")
    return math.ldexp(1.0, -(step + 1)) / -math.expm1(-total * math.log(2.0))


@dataclass(frozen=True)
class TrainingSize:
    """What a named schedule is scaled by: observed values in all, values in a batch, batches in an epoch."""

    values: int
    batch_values: int
    batches: int


SCHEDULES: dict[str, Callable[[TrainingSize], Schedule]] = {
    "elbo": lambda size: ConstantWeight(1.0 / size.values),
    "paper": lambda size: PaperDecay(1.0 / size.batch_values),
    "blundell": lambda size: Blundell(size.batches, 1.0 / size.batch_values),
    "warmup": lambda size: LinearWarmup(1.0 / size.values),
}


def as_schedule(weight: str | float | Schedule, size: TrainingSize) -> Schedule:
    """A KL weight schedule from its name, a constant, or any callable (step, total) -> float."""
    if isinstance(weight, str):
        if weight not in SCHEDULES:
            raise LbnnError(f"unknown KL weight '{weight}'; known: {', '.join(SCHEDULES)}, or a number")
        return SCHEDULES[weight](size)
    if isinstance(weight, (int, float)):
        return ConstantWeight(float(weight))
    if not callable(weight):
        raise LbnnError(f"{weight!r} is not a KL weight; use {', '.join(SCHEDULES)}, a number or a schedule")
    return weight
