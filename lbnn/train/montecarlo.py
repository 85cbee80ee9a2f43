"""The check that needs no formula: draw weights, run the network on points, compare with the one-pass moments.

A drawn network is the model itself with every mu replaced by a draw and every rho by -inf (sigma = 0), so any
model can be checked. Its layers see points and take their forms for known values: the clamped activation, wrong
even at variance zero, is thus compared with the plain one. Only the covariances that one pass ignores make the
two differ, and in a VarianceHead E[softplus(s)], for which one pass takes softplus(E[s]).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.base.terminal import counted
from lbnn.nn import BayesianLayer, Layer
from lbnn.nn.heads import logits_only
from lbnn.nn.spread import Rho, rho_tensors, sigma_of

VARIANCE_FLOOR = 1e-300  # a value that is certain in both ways has no error
CHUNK_VALUES = 4_000_000  # weights and outputs drawn at once: about 32 MB in float64
PART_VALUES = 16_000_000  # of all layers, in networks that run at once: mean and variance take about 128 MB in float32


@dataclass(frozen=True)
class MonteCarlo:
    """Moments from `samples` drawn networks with their standard errors, beside those of one pass.

    `mean_se` and `var_se` are one standard error of `sampled.mean` and `sampled.var`.
    """

    sampled: Moments[Tensor]
    one_pass: Moments[Tensor]
    mean_se: Tensor
    var_se: Tensor
    samples: int

    @property
    def mean_error(self) -> float:
        """Largest |one pass - sampled| mean, in units of the sampled standard deviation."""
        return float(
            ((self.one_pass.mean - self.sampled.mean).abs() / self.sampled.var.clamp_min(VARIANCE_FLOOR).sqrt()).max()
        )

    @property
    def var_error(self) -> float:
        """Root mean square relative error of the one-pass variance, sampling noise included."""
        return float(self._relative(self.one_pass.var - self.sampled.var))

    @property
    def var_noise(self) -> float:
        """What `var_error` would be for an exact one-pass variance: the noise of the samples alone."""
        return float(self._relative(self.var_se))

    @property
    def sd_ratio(self) -> float:
        """The one-pass standard deviation over the sampled one: the geometric mean over all outputs."""
        one_pass, sampled = (part.var.clamp_min(VARIANCE_FLOOR).log() for part in (self.one_pass, self.sampled))
        return float((0.5 * (one_pass - sampled)).mean().exp())

    def _relative(self, error: Tensor) -> Tensor:
        return (error / self.sampled.var.clamp_min(VARIANCE_FLOOR)).square().mean().sqrt()

    def __str__(self) -> str:
        return (
            f"{counted(self.samples, 'sample')}: mean off by at most {self.mean_error:.2g} sd, "
            f"variance by {self.var_error:.2%} rms (sampling alone gives {self.var_noise:.2%})"
        )


@dataclass(frozen=True)
class Replaced:
    """How many sampled passes give a variance as accurate as one moment pass.

    If not `resolved`, the samples could not tell the one-pass variance from the truth and `passes` is a lower
    bound.
    """

    passes: float
    resolved: bool

    def __str__(self) -> str:
        return f"{'about' if self.resolved else 'at least'} {self.passes:.0f} passes"


@torch.no_grad()
def monte_carlo(
    model: nn.Module,
    x: Tensor | Moments[Tensor],
    samples: int = 10_000,
    generator: torch.Generator | None = None,
) -> MonteCarlo:
    """Moments of the model's output over its weights, and over its inputs if x is Moments.

    For a drawn network with output moments (m, v) the total variance is Var[m] + E[v]; v is zero unless a head
    adds the noise of the target. Of a model that ends in a head these are the moments of its logits.
    """
    if samples < 2:
        raise LbnnError(f"Monte Carlo needs at least 2 samples, got {samples}")
    was_training = model.training
    model.eval()
    try:
        parameters = _gaussian_parameters(model)
        with logits_only(model), _values_counted() as values:
            one_pass = _doubled(model(x))
        sums = PowerSums(one_pass.mean)
        with _layers_on_points(), logits_only(model):
            part = max(1, PART_VALUES // max(1, sum(values)))
            for drawn in _outputs(model, parameters, x, samples, generator, part):
                sums.add(drawn)
    finally:
        model.train(was_training)
    return sums.result(one_pass)


def samples_replaced(check: MonteCarlo) -> Replaced:
    """The number of passes n at which the sampling error of a variance, sqrt(Var[u]/n), equals the one-pass error.

    The one-pass error comes from the check itself, less its own noise; where it is below about twice that noise
    only an upper bound of it is known, and so a lower bound of n.
    """
    error, noise = check.var_error**2, check.var_noise**2
    per_pass = noise * check.samples
    if error > 5.0 * noise:
        return Replaced(per_pass / (error - noise), resolved=True)
    return Replaced(per_pass / (math.sqrt(error) + 2.0 * math.sqrt(noise)) ** 2, resolved=False)


class PowerSums:
    """Sums over samples of d = m - pivot, a = d^2 + v and their products, from which all moments follow.

    The pivot is the one-pass mean: near the sampled one, so nothing cancels.
    """

    def __init__(self, pivot: Tensor) -> None:
        self.pivot = pivot
        self.count = 0
        self.d, self.dd, self.a, self.aa, self.ad, self.v = (torch.zeros_like(pivot) for _ in range(6))

    def add(self, drawn: Moments[Tensor]) -> None:
        """Adds the outputs of drawn networks, one along the first axis each."""
        d = drawn.mean - self.pivot
        a = d**2 + drawn.var
        self.count += len(d)
        for total, term in (
            (self.d, d), (self.dd, d**2), (self.a, a), (self.aa, a**2), (self.ad, a * d), (self.v, drawn.var),
        ):  # fmt: skip
            total += term.sum(0)

    def result(self, one_pass: Moments[Tensor]) -> MonteCarlo:
        """The samples' moments and standard errors, with Var[u] of u = (m - mean)^2 + v, whose mean is the variance.

        With s the mean of d: Var[u] = Var[a] - 4 s Cov[a, d] + 4 s^2 Var[d].
        """
        n, unbiased = self.count, self.count / (self.count - 1)
        s, a = self.d / n, self.a / n
        var_d = (self.dd / n - s**2) * unbiased
        var_a = (self.aa / n - a**2) * unbiased
        cov = (self.ad / n - a * s) * unbiased
        var_u = var_a - 4.0 * s * cov + 4.0 * s**2 * var_d
        return MonteCarlo(
            sampled=Moments(self.pivot + s, var_d + self.v / n),
            one_pass=one_pass,
            mean_se=(var_d / n).sqrt(),
            var_se=(var_u.clamp_min(0.0) / n).sqrt(),
            samples=n,
        )


class _Point(Moments[Tensor]):
    """Moments known to have no variance, through a user's arithmetic too."""

    def __add__(self, other: Any) -> Moments[Any]:
        return _still_a_point(super().__add__(other), other)

    def __mul__(self, scale: Any) -> Moments[Any]:
        return _still_a_point(super().__mul__(scale), scale)

    def flatten(self, start_dim: int = 1, end_dim: int = -1) -> Moments[Any]:
        return _Point(*super().flatten(start_dim, end_dim))


def _still_a_point(result: Moments[Any], other: Any) -> Moments[Any]:
    uncertain = isinstance(other, Moments) and not isinstance(other, _Point)
    return result if result is NotImplemented or uncertain else _Point(*result)


@contextmanager
def _layers_on_points() -> Iterator[None]:
    """While it lasts, every layer whose inputs are points gets them as tensors and gives a point."""

    def before(module: nn.Module, args: tuple[Any, ...]) -> Any:
        known = isinstance(module, Layer) and all(isinstance(a, (_Point, Tensor)) for a in args)
        return tuple(_mean(a) for a in args) if known else None

    def after(module: nn.Module, args: tuple[Any, ...], out: Any) -> Any:
        if not isinstance(module, Layer) or any(isinstance(a, Moments) for a in args):
            return out
        if isinstance(out, Tensor) or isinstance(module, BayesianLayer):  # whose weights have no variance here
            return _Point(_mean(out), torch.zeros_like(_mean(out)))
        return out

    handles = [register_module_forward_pre_hook(before), register_module_forward_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _values_counted() -> Iterator[list[int]]:
    """While it lasts, the list gets the number of means that each layer gives."""
    values: list[int] = []

    def after(module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        if isinstance(module, Layer) and isinstance(out, (Moments, Tensor)):
            values.append(_mean(out).numel())

    handle = register_module_forward_hook(after)
    try:
        yield values
    finally:
        handle.remove()


def _outputs(
    model: nn.Module,
    parameters: tuple[dict[str, tuple[Tensor, Rho]], dict[str, Tensor]],
    x: Tensor | Moments[Tensor],
    samples: int,
    generator: torch.Generator | None,
    part: int,
) -> Iterator[Moments[Tensor]]:
    """Outputs of drawn networks along a new first axis; of a chunk that is drawn, `part` networks run at once."""

    def run(weights: dict[str, Tensor], point: Tensor) -> tuple[Tensor, Tensor]:
        out = functional_call(model, {**certain, **weights}, (point,))
        return out.mean, out.var

    means, certain = parameters
    size = sum(mu.numel() for mu, _ in means.values()) + _mean(x).numel()
    chunk = max(1, CHUNK_VALUES // max(1, size))
    for start in range(0, samples, chunk):
        count = min(chunk, samples - start)
        weights = {name: _draw(mu, sigma_of(rho, mu), count, generator) for name, (mu, rho) in means.items()}
        points, axis = (x, None) if isinstance(x, Tensor) else (_draw(x.mean, x.var.sqrt(), count, generator), 0)
        for begin in range(0, count, part):
            some = {name: drawn[begin : begin + part] for name, drawn in weights.items()}
            given = points if axis is None else points[begin : begin + part]
            yield _doubled(Moments(*vmap(run, in_dims=(0, axis))(some, given)))


def _gaussian_parameters(model: nn.Module) -> tuple[dict[str, tuple[Tensor, Rho]], dict[str, Tensor]]:
    """(mu, rho) of each Gaussian parameter by the name of its mu, and rho = -inf by the names of its rhos."""
    names = {id(p): name for name, p in model.named_parameters()}
    means: dict[str, tuple[Tensor, Rho]] = {}
    for layer in model.modules():
        if isinstance(layer, BayesianLayer):
            means.update({names[id(mu)]: (mu, rho) for _, mu, rho in layer.named_gaussians()})
    if not means:
        raise LbnnError("the model has no Bayesian layer, so there are no weights to draw")
    rhos = [part for _, rho in means.values() for part in rho_tensors(rho)]
    certain = {names[id(part)]: torch.full_like(part, -math.inf) for part in rhos}
    return means, certain


def _draw(mean: Tensor, std: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    noise = torch.randn((count, *mean.shape), generator=generator, dtype=mean.dtype, device=mean.device)
    return mean + std * noise


def _mean(x: Tensor | Moments[Tensor]) -> Tensor:
    return x.mean if isinstance(x, Moments) else x


def _doubled(moments: Moments[Tensor]) -> Moments[Tensor]:
    """In float64 on the CPU: not every device has it."""
    return Moments(moments.mean.cpu().double(), moments.var.cpu().double())
