"""The whole training step as one compiled function: prediction, loss, KL, gradients and AdamW.

It works on the two vectors of a FlatPosterior and on the state of the optimizer, so that a batch of another size can
take the ordinary step in between. On a CPU the compiler is kept from putting channels last: convolutions with few
channels pay more for the copies than they gain, a fifth of a LeNet's step.
"""

from __future__ import annotations

import os
import shutil
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.train.batches import Input
from lbnn.train.flat import FlatPosterior
from lbnn.train.optimizer import FlatAdamW
from lbnn.train.priors import Gaussian, Prior, named_gaussians
from lbnn.train.processes import processes_of
from lbnn.train.validation import Loss


@dataclass(frozen=True)
class Moving:
    """A tensor that AdamW moves: its decay, and the optimizer's state of it."""

    values: Tensor
    decay: float
    step: Tensor
    average: Tensor
    square: Tensor


class CompiledStep:
    """Called with a batch of the size of the first one: loss, NLL and KL."""

    def __init__(
        self, model: nn.Module, flat: FlatPosterior, optimizer: torch.optim.Optimizer, loss: Loss, prior: Gaussian,
        clip_norm: float | None,
    ) -> None:  # fmt: skip
        self.shapes: Any = None
        self.traced, self.device = False, flat.mu.device
        self.numbers = torch.zeros(3, dtype=flat.mu.dtype)  # the factors of NLL and KL, and the learning rate
        self.written = self.numbers.numpy()  # the same memory: numbers, as Python writes them fastest
        names = [name for name, _, _ in named_gaussians(model)]
        moving = _moving(optimizer)

        def step(x: Input, y: Tensor, numbers: Tensor) -> Tensor:
            scale, weight, rate = numbers.unbind()
            means, rhos = flat.cut(flat.mu), flat.cut(flat.rho)
            given = {f"{n}_mu": m for n, m in zip(names, means, strict=True)}
            given |= {f"{n}_rho": r for n, r in zip(names, rhos, strict=True)}
            out = torch.func.functional_call(model, given, (x,))
            nll = loss(out, y).sum() * scale
            kl = prior.kl(flat.mu, flat.rho).sum()
            total = nll + weight * kl
            gradients = torch.autograd.grad(
                total, [m.values for m in moving], allow_unused=True, materialize_grads=True
            )
            adamw(moving, clipped(list(gradients), clip_norm), rate)
            return torch.stack([total.detach(), nll.detach(), kl.detach()])

        options: dict[str, Any] | None = {"layout_optimization": False} if self.device.type == "cpu" else None
        self.step = torch.compile(_fresh(step), fullgraph=True, dynamic=False, options=options)

    def takes(self, x: Input, y: Tensor) -> bool:
        """Whether this batch has the size that is compiled: the first one's."""
        shapes = (tuple(x.shape), tuple(y.shape))
        first = self.shapes is None
        self.shapes = shapes if first else self.shapes
        return bool(shapes == self.shapes)

    def __call__(self, x: Input, y: Tensor, scale: float, weight: float, rate: float) -> list[float]:
        """Takes the step."""
        self.written[:] = scale, weight, rate
        numbers = self.numbers.to(self.device)
        if self.traced:
            return self.step(x, y, numbers).tolist()  # type: ignore[no-any-return]
        with torch._dynamo.config.patch(trace_autograd_ops=True):  # takes longer than a step: only where it is read
            self.traced = True
            return self.step(x, y, numbers).tolist()  # type: ignore[no-any-return]


def _fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with code of its own: torch compiles the same code for a few trainings only."""
    code = function.__code__.replace()
    return types.FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def _moving(optimizer: torch.optim.Optimizer) -> list[Moving]:
    """What the optimizer moves, with its state, which it also uses when it takes a step itself."""
    moving = []
    for group in optimizer.param_groups:
        for values in group["params"]:
            state = optimizer.state[values]
            moving.append(Moving(values, group["weight_decay"], state["step"], state["exp_avg"], state["exp_avg_sq"]))
    return moving


@torch.no_grad()
def adamw(moving: list[Moving], gradients: list[Tensor], rate: Tensor) -> None:
    """A step of AdamW with its usual betas, as torch takes it."""
    for m, gradient in zip(moving, gradients, strict=True):
        m.step.add_(1.0)
        m.average.lerp_(gradient, 1.0 - BETAS[0])
        m.square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1.0 - BETAS[1])
        first, second = (1.0 - beta ** m.step.double() for beta in BETAS)  # 1 - 0.999 has few digits in float32
        scale = m.square.sqrt() / second.sqrt().to(rate.dtype) + EPSILON
        m.values.mul_(1.0 - rate * m.decay).sub_((rate / first).to(rate.dtype) * m.average / scale)


BETAS, EPSILON = (0.9, 0.999), 1e-8


def clipped(gradients: list[Tensor], most: float | None) -> list[Tensor]:
    """Gradients whose common norm is at most this."""
    if most is None:
        return gradients
    norm = torch.stack([(g * g).sum() for g in gradients]).sum().sqrt()
    factor = (most / (norm + 1e-6)).clamp(max=1.0)
    return [g * factor for g in gradients]


def compiled_step(
    model: nn.Module,
    flat: FlatPosterior | None,
    optimizer: torch.optim.Optimizer,
    loss: Loss,
    prior: Prior,
    clip_norm: float | None,
) -> CompiledStep:
    """The step, or an error that says why there is none."""
    many = processes_of(model).shares
    if flat is None or not isinstance(prior, Gaussian) or not isinstance(optimizer, FlatAdamW) or many:
        raise LbnnError(
            "compile=True needs the Gaussian prior, the default optimizer, one process and a model that is not "
            "wrapped, whose Gaussians all train and whose variances are full; leave out compile, or wrap the model in "
            "torch.compile yourself"
        )
    if flat.mu.device.type == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
        raise LbnnError("compile=True needs a C++ compiler; install g++, or leave out compile")
    return CompiledStep(model, flat, optimizer, loss, prior, clip_norm)
