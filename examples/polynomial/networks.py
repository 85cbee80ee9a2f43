"""The three networks compared, and many copies of them evaluated at once along a leading replica axis.

The formulas are those of `lbnn.ops`; only the matrix product knows about the extra axis. All networks are computed
as one with two outputs, so that small ones share the cost of each call: the embedded network ignores its second
output, which is neither counted nor regularised.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from choices import Choice
from torch import Tensor, nn

from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.nn.base import variance
from lbnn.ops.leaky_relu import leaky_relu, leaky_relu_clamped
from lbnn.ops.linear import linear, linear_point
from lbnn.ops.torch import TorchNamespace
from lbnn.ops.variance_head import variance_head, variance_head_point
from lbnn.train.priors import named_gaussians

CLAMP = 3.0  # of the paper's form
MAX_OUTPUTS = 2

Slope = float | Tensor  # of all copies, or (copies, 1, 1)
Activation = Callable[[Tensor, Tensor, Any], Moments[Tensor]]


class ReplicaNamespace(TorchNamespace):
    """Arrays of shape (replicas, batch, features), weights (replicas, out, in), biases (replicas, 1, out)."""

    def linear(self, bias: Any, *terms: tuple[Tensor, Tensor]) -> Any:
        """bias + the sum of x @ weight.T, for each replica its own."""
        return sum((_product(x, weight) for x, weight in terms), start=bias)

    def tail_mix(self, x: Tensor, rows: Any) -> list[Any]:
        """Linear combinations of the tail's moments; a factor may be a tensor, where copies differ in their slope."""
        moments = super().tail_mix(x, [(0.0, *unit) for unit in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))])
        return [sum((f * m for f, m in zip(row[1:], moments, strict=True) if _counts(f)), start=row[0]) for row in rows]

    def halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both halves of the features."""
        k = x.shape[-1] // 2
        return x[..., :k], x[..., k:]


def _counts(factor: Tensor | float) -> bool:
    return isinstance(factor, Tensor) or factor != 0.0


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight.mT as products and sums: with so few outputs they join the loops of the activation when compiled."""
    if x.shape[-1] == 1:
        return x * weight.mT
    return torch.stack([(x * row.unsqueeze(1)).sum(-1) for row in weight.unbind(1)], -1)


REPLICAS = ReplicaNamespace()


def exact(mean: Tensor, var: Tensor, slope: Any) -> Moments[Tensor]:
    """The exact moments of a leaky-ReLU."""
    return leaky_relu(REPLICAS, Moments(mean, var), slope)


def clamped(mean: Tensor, var: Tensor, slope: Any) -> Moments[Tensor]:
    """The paper's form, with the sign of P(a < 0) put right."""
    return leaky_relu_clamped(REPLICAS, Moments(mean, var), slope, CLAMP)


def mirrored(mean: Tensor, var: Tensor, slope: Any) -> Moments[Tensor]:
    """The paper's form letter by letter: its P(a < 0) is the probability of the other side."""
    sigma = torch.sqrt(var)
    alpha = (-mean / sigma).clamp(-CLAMP, CLAMP)
    phi = torch.exp(-0.5 * alpha * alpha) / math.sqrt(2.0 * math.pi)
    below = 0.5 * (1.0 + torch.erf(-alpha / math.sqrt(2.0)))
    above = 1.0 - below
    low, high = phi / below, phi / above
    left, right = slope * (mean - sigma * low), mean + sigma * high
    within = slope**2 * below * (1.0 - alpha * low - low * low) + above * (1.0 + alpha * high - high * high)
    return Moments(below * left + above * right, var * within + below * above * (left - right) ** 2)


ACTIVATIONS: dict[str, Activation] = {"exact": exact, "clamped": clamped}
FORMULAS: dict[str, Activation] = {**ACTIVATIONS, "mirrored": mirrored}
LINKS: dict[str, Callable[[Tensor], Tensor]] = {"softplus": nn.functional.softplus, "exp": torch.exp}


@dataclass(frozen=True)
class Head:
    """How the output layer's moments become a prediction: mean and total variance."""

    outputs: int
    apply: Callable[[Moments[Tensor], str], Moments[Tensor]]

    def parameters(self, hidden: int) -> int:
        """Trained numbers of the network: a mean and a rho for each weight and bias."""
        return 2 * (2 * hidden + self.outputs * (hidden + 1))

    def module(self, hidden: int, activation: str, choice: Choice = Choice()) -> nn.Module:  # noqa: B008 (frozen)
        """The layers up to the head as an ordinary model, which also gives the initial values."""
        middle = bnn.LeakyReLU(choice.slope, clamp=CLAMP if activation == "clamped" else None)
        first, last = bnn.Linear(1, hidden, sigma=choice.sigma), bnn.Linear(hidden, self.outputs, sigma=choice.sigma)
        return nn.Sequential(first, middle, last)


def embedded(out: Moments[Tensor], link: str) -> Moments[Tensor]:
    """The first output alone: its variance is the total variance."""
    return Moments(out.mean[..., :1], out.var[..., :1])


def learned(out: Moments[Tensor], link: str) -> Moments[Tensor]:
    """V[mu] + softplus(E[s]): epistemic and aleatoric."""
    if link == "softplus":
        return variance_head(REPLICAS, out)
    return Moments(out.mean[..., :1], out.var[..., :1] + LINKS[link](out.mean[..., 1:]))


def learned_alone(out: Moments[Tensor], link: str) -> Moments[Tensor]:
    """softplus(E[s]) alone."""
    if link == "softplus":
        return variance_head_point(REPLICAS, out.mean)
    return Moments(out.mean[..., :1], LINKS[link](out.mean[..., 1:]))


HEADS = {"embedded": Head(1, embedded), "learned": Head(2, learned), "learned_a": Head(2, learned_alone)}


class Copies(NamedTuple):
    """The parameters of many copies, all heads one after the other; the axis of two holds means and rhos.

    `units` (replicas, 2, 4, hidden): a hidden unit's weight and bias, and its weight to each output.
    `bias` (replicas, 2, 2): the output layer's.
    """

    units: Tensor
    bias: Tensor

    def where(self, better: Tensor, other: Copies) -> Copies:
        """Copy by copy, `other` where `better`, else this."""
        return Copies(
            *(torch.where(_column(better, old), new.detach(), old) for old, new in zip(self, other, strict=True))
        )

    def double(self) -> Copies:
        """The same numbers in float64."""
        return Copies(*(part.detach().double() for part in self))


def _column(flags: Tensor, like: Tensor) -> Tensor:
    return flags.view(-1, *(1,) * (like.ndim - 1))


def initial(hidden: int, seeds: tuple[int, ...], choices: Sequence[Choice] = (Choice(),)) -> Copies:
    """A copy for each head, choice and seed, as the library initialises its layers."""
    kinds = itertools.product(HEADS.values(), choices, seeds)
    copies = [_initial(head.module, hidden, seed, choice) for head, choice, seed in kinds]
    return Copies(*(torch.stack(each) for each in zip(*copies, strict=True)))


def _initial(module: Callable[..., nn.Module], hidden: int, seed: int, choice: Choice) -> Copies:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return pack(module(hidden, "exact", choice))


def pack(module: nn.Module) -> Copies:
    """A model's parameters, without the replica axis; a second output it does not have is zero."""
    w1, b1, w2, b2 = (torch.stack([mu, rho]).detach() for _, mu, rho in named_gaussians(module))
    missing = MAX_OUTPUTS - b2.shape[1]
    units = torch.cat([w1.mT, b1[:, None], w2], 1)
    return Copies(nn.functional.pad(units, (0, 0, 0, missing)), nn.functional.pad(b2, (0, missing)))


def unpack(copies: Copies, index: int, module: nn.Module) -> nn.Module:
    """Writes one copy into a model."""
    units, bias = copies.units[index], copies.bias[index]
    gaussians = list(named_gaussians(module))
    outputs = gaussians[-1][1].numel()
    parts = [units[:, :1].mT, units[:, 1], units[:, 2 : 2 + outputs], bias[:, :outputs]]
    with torch.no_grad():
        for (_, mu, rho), part in zip(gaussians, parts, strict=True):
            mu.copy_(part[0])
            rho.copy_(part[1])
    return module


def used(copies: Copies) -> Copies:
    """1 for the Gaussians a copy has, 0 for the second output of the embedded network; without the axis of two."""
    units, bias = torch.ones_like(copies.units[:, 0]), torch.ones_like(copies.bias[:, 0])
    for head, unit_rows, bias_rows in zip(HEADS.values(), units.chunk(len(HEADS)), bias.chunk(len(HEADS)), strict=True):
        unit_rows[:, 2 + head.outputs :] = 0.0
        bias_rows[:, head.outputs :] = 0.0
    return Copies(units, bias)


def predict(
    formula: Activation, copies: Copies, x: Tensor, slope: Slope = 0.01, link: str = "softplus"
) -> Moments[Tensor]:
    """Mean and total variance, each (replicas, batch), at `x` (replicas or 1, batch)."""
    units, bias = _moments(copies.units), _moments(copies.bias)
    w1 = Moments(*(part[:, :1].mT for part in units))
    b1 = Moments(*(part[:, 1:2] for part in units))
    w2 = Moments(*(part[:, 2:] for part in units))
    b2 = Moments(*(part[:, None] for part in bias))
    hidden = formula(*linear_point(REPLICAS, x.unsqueeze(-1), w1, b1), slope)
    return _apply_heads(linear(REPLICAS, hidden, w2, b2), link)


def _apply_heads(out: Moments[Tensor], link: str) -> Moments[Tensor]:
    chunks = zip(out.mean.chunk(len(HEADS)), out.var.chunk(len(HEADS)), strict=True)
    parts = [head.apply(Moments(*chunk), link) for head, chunk in zip(HEADS.values(), chunks, strict=True)]
    return Moments(*(torch.cat(each).squeeze(-1) for each in zip(*parts, strict=True)))


def _moments(parameters: Tensor) -> Moments[Tensor]:
    return Moments(parameters[:, 0], variance(parameters[:, 1]))
