"""Owns the flat form of a posterior: while a model trains, all its means and all its rhos are two vectors.

The parameters of the model are views of them, so that nobody who looks at the model sees a difference. One call then
takes the square of every sigma, the KL and its gradient, and the optimizer's step, where layers would take one each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbnn.base.moments import Moments
from lbnn.nn import BayesianLayer
from lbnn.nn.wrapped import unwrap
from lbnn.train.priors import Gaussian, named_gaussians

LOWEST_RHO = -80.0
"""Below it softplus(rho) is e^rho to all digits, and nearly too small for float32."""


class FlatPosterior:
    """Vectors of means and rhos, their gradients, and the variances that layers read in a step.

    Until `finish`, all that the data say is in `of_data`, the gradients to means and variances.
    """

    def __init__(self, model: nn.Module) -> None:
        self.pairs = free_pairs(model)
        self.shapes = [mu.shape for mu, _ in self.pairs]
        self.sizes = [mu.numel() for mu, _ in self.pairs]
        mus, rhos = zip(*self.pairs, strict=True)
        self.mu, self.rho = (nn.Parameter(torch.cat([t.detach().flatten() for t in each])) for each in (mus, rhos))
        count = len(self.mu)
        self.gradient = torch.zeros(
            3 * count, dtype=self.mu.dtype, device=self.mu.device
        )  # to mu, the variances and rho
        self.mu.grad, self.to_var, self.rho.grad = torch.split(self.gradient, count)
        self.of_data = self.gradient[: 2 * count]
        self.bounded, self.sigma, self.var = (torch.empty_like(self.mu.detach()) for _ in range(3))
        self.others = [p for p in _strangers(model, self.pairs) if p.requires_grad]
        self._share()
        self.layers = self._readers(
            model, [Moments(mu, var) for (mu, _), var in zip(self.pairs, self._leaves(), strict=True)]
        )

    def _share(self) -> None:
        """Makes the model's parameters and their gradients views."""
        for flat, parts in ((self.mu, [mu for mu, _ in self.pairs]), (self.rho, [rho for _, rho in self.pairs])):
            assert flat.grad is not None
            for part, values, grads in zip(parts, self.cut(flat.detach()), self.cut(flat.grad), strict=True):
                part.data, part.grad = values, grads

    def _leaves(self) -> list[Tensor]:
        leaves = [part.requires_grad_() for part in self.cut(self.var)]
        for leaf, grad in zip(leaves, self.cut(self.to_var), strict=True):
            leaf.grad = grad
        return leaves

    def _readers(
        self, model: nn.Module, gaussians: list[Moments[Tensor]]
    ) -> list[tuple[nn.Module, dict[str, Moments[Tensor]]]]:
        """Each layer with what it reads."""
        given = {id(mu): pair for (mu, _), pair in zip(self.pairs, gaussians, strict=True)}
        layers = [layer for layer in model.modules() if isinstance(layer, BayesianLayer)]
        return [(layer, {name: given[id(mu)] for name, mu, _ in layer.named_gaussians()}) for layer in layers]

    def cut(self, flat: Tensor) -> list[Tensor]:
        """A vector as tensors in the shapes of the parameters."""
        return [part.view(shape) for part, shape in zip(torch.split(flat, self.sizes), self.shapes, strict=True)]

    @contextmanager
    def variances(self) -> Iterator[None]:
        """Layers take the variances of this step from here, and gradients start at zero."""
        self.gradient.zero_()
        for other in self.others:
            other.grad = None
        with torch.no_grad():
            torch.clamp(self.rho, min=LOWEST_RHO, out=self.bounded)
            self.sigma = F.softplus(self.bounded)
            torch.mul(self.sigma, self.sigma, out=self.var)
        with reading(self.layers):
            yield

    @torch.no_grad()
    def gaussian_kl(self, prior: Gaussian) -> float:
        """The KL from a Gaussian prior."""
        squares = float(torch.dot(self.mu, self.mu)) + float(torch.dot(self.sigma, self.sigma))
        logs = float(torch.log(self.sigma).sum()) + float((self.rho - self.bounded).sum())
        return 0.5 * (squares / prior.sigma**2 - len(self.mu)) - logs + len(self.mu) * math.log(prior.sigma)

    @torch.no_grad()
    def finish(self, prior: Gaussian | None, weight: float) -> None:
        """Adds to the gradients what the variances and weight KL give.

        d sigma^2 / d rho = 2 sigma r with r = sigmoid(rho) = d sigma / d rho. The KL gives mu / s^2 to mu and
        (sigma / s^2 - 1 / sigma) r to rho.
        """
        assert self.mu.grad is not None and self.rho.grad is not None
        inner = self.to_var.mul_(self.sigma)  # half of the gradient of sigma
        if prior is not None:
            self.mu.grad.add_(self.mu, alpha=weight / prior.sigma**2)
            inner.add_(self.sigma, alpha=0.5 * weight / prior.sigma**2)
            inner.sub_(torch.reciprocal(self.sigma), alpha=0.5 * weight)
        self.rho.grad.addcmul_(torch.sigmoid(self.bounded), inner, value=2.0)

    def release(self) -> None:
        """Gives the parameters memory of their own again."""
        for part in itertools.chain.from_iterable(self.pairs):
            part.data, part.grad = part.data.clone(), None


@contextmanager
def flattened(model: nn.Module) -> Iterator[FlatPosterior | None]:
    """The flat posterior of a model while it trains; None if torch wraps it or it can't be flattened."""
    if unwrap(model) is not model or not can_flatten(model):
        yield None
        return
    flat = FlatPosterior(model)
    try:
        yield flat
    finally:
        flat.release()


def can_flatten(model: nn.Module) -> bool:
    """Whether every Gaussian is trained, has its own rho, and all are numbers of one kind in one place."""
    pairs = free_pairs(model)
    parts = list(itertools.chain.from_iterable(pairs))
    read = [
        (id(m), id(r))
        for layer in model.modules()
        if isinstance(layer, BayesianLayer)
        for _, m, r in layer.named_gaussians()
    ]
    return (
        bool(parts)
        and len(pairs) == sum(1 for _ in named_gaussians(model))
        and all(part.requires_grad for part in parts)
        and len({(part.dtype, part.device) for part in parts}) == 1
        and len({id(part) for part in parts}) == len(parts)
        and set(read) == {(id(mu), id(rho)) for mu, rho in pairs}
    )


def free_pairs(model: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """mu and rho of the Gaussians that have one rho for each element."""
    return [(mu, rho) for _, mu, rho in named_gaussians(model) if isinstance(rho, Tensor)]


@contextmanager
def reading(layers: list[tuple[nn.Module, dict[str, Moments[Tensor]]]]) -> Iterator[None]:
    """The layers use given Moments instead of their own parameters."""
    for layer, given in layers:
        layer.__dict__["given"] = given  # not by setattr, which would look for modules and parameters in it
    try:
        yield
    finally:
        for layer, _ in layers:
            layer.__dict__.pop("given", None)


def _strangers(model: nn.Module, pairs: list[tuple[Tensor, Tensor]]) -> list[nn.Parameter]:
    """The parameters that are no Gaussians."""
    known = {id(part) for part in itertools.chain.from_iterable(pairs)}
    return [p for p in model.parameters() if id(p) not in known]
