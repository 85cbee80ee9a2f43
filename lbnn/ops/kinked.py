"""Owns the moments of a line with a kink at zero in torch, with their gradients in closed form.

Leaky-ReLU (slope l), ReLU (l = 0) and the absolute value (l = -1) are one function, f(a) = a for a >= 0, else l a. The
formulas of lbnn/ops/leaky_relu.py give its moments by any namespace; here they are written for speed and little memory,
because a training spends a third of its time on them. With sigma, x, Q, I1, J2 and k = 1 - l as there, phi = I1 + x Q,
s the sign of E and u = s f'(E), that is 1 above the kink and -l below:

    E' = f(E) + k sigma I1                          V' = V [u (u - 2 k Q) + k^2 (J2 - I1^2)]
    dE'/dE = s (u - k Q)                            dV'/dE = 2 k sigma s [u phi - k I1 (1 - Q)]
    dE'/dV = k phi / (2 sigma)                      dV'/dV = u^2 - s k (1 + l) Q - k phi (u x + k I1)

All four are continuous in E, so that the side that E = 0 is given to does not matter. Where V = 0 they are those of the
plain function, and dE'/dV, which has no limit at E = V = 0, is 0. Comparisons and `where` are avoided: they take torch
five times as long as arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.ops.leaky_relu import leaky_relu
from lbnn.ops.namespace import Namespace
from lbnn.ops.tail import FAR, RATIO_TABLES
from lbnn.ops.traced import is_exported, is_traced

BLOCK = 2**16
"""Elements computed at once: what a step needs besides its results stays in the cache and out of the peak memory."""
LEAST_SIGMA = {torch.float32: 1e-30, torch.float64: 1e-170}
"""Below the root of every variance but 0, also of denormal ones."""
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def kinked_line(xp: Namespace, x: Moments[Tensor], slope: float) -> Moments[Tensor]:
    """Moments of f of independent Gaussians; half precision is computed in float32."""
    mean, var = x
    dtype = mean.dtype
    if dtype is not var.dtype or dtype not in RATIO_TABLES:
        dtype = torch.promote_types(mean.dtype, var.dtype)
        wide = Moments(*(part.to(dtype if dtype in RATIO_TABLES else torch.float32) for part in x))
        return Moments(*(part.to(dtype) for part in kinked_line(xp, wide, slope)))
    if is_transformed() or is_traced() or is_exported():
        return leaky_relu(xp, x, slope)
    if torch.is_grad_enabled():
        return Moments(*_KinkedLine.apply(xp, mean, var, slope))  # type: ignore[no-untyped-call]
    return Moments(*_in_blocks(_moments, 2, slope, mean, var))


def is_transformed() -> bool:
    """Inside torch.func's grad and vmap; to support those too would cost the function half as much again."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


class _KinkedLine(torch.autograd.Function):
    """Keeps Q and I1, from which the gradients follow without another exponential."""

    @staticmethod
    def forward(ctx: Any, xp: Namespace, mean: Tensor, var: Tensor, slope: float) -> tuple[Tensor, Tensor]:
        out, spread, q, i1 = _in_blocks(_moments, 4, slope, mean, var)
        ctx.xp, ctx.slope = xp, slope
        ctx.save_for_backward(mean, var, q, i1)
        return out, spread

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mean, var, q, i1 = ctx.saved_tensors
        if torch.is_grad_enabled():  # these gradients are differentiated again
            return _again(ctx, mean, var, grads)
        d_mean, d_var = _in_blocks(_gradients, 2, ctx.slope, *grads, mean, var, q, i1)
        return None, d_mean, d_var, None


def _again(ctx: Any, mean: Tensor, var: Tensor, towards: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """Gradients by autograd, through formulas that it can differentiate to any order."""
    out = leaky_relu(ctx.xp, Moments(mean, var), ctx.slope)
    paths = [(part, grad) for part, grad in zip(out, towards, strict=True) if part.requires_grad]
    wanted = [value for value, needed in zip((mean, var), ctx.needs_input_grad[1:3], strict=True) if needed]
    found = iter(torch.autograd.grad([p for p, _ in paths], wanted, [g for _, g in paths], create_graph=True))
    return None, *(next(found) if needed else None for needed in ctx.needs_input_grad[1:3]), None


def _in_blocks(function: Any, results: int, slope: float, *parts: Tensor) -> tuple[Tensor, ...]:
    """The first results of a function of elements, a block at a time; a compiler makes its own loops."""
    shape, count = parts[0].shape, parts[0].numel()
    if torch.compiler.is_compiling() or count <= BLOCK:
        return tuple(function(*parts, slope)[:results])
    flat = [part.reshape(-1) for part in parts]
    out = [torch.empty_like(flat[0]) for _ in range(results)]
    for start in range(0, count, BLOCK):
        rows = slice(start, start + BLOCK)
        for whole, part in zip(out, function(*(part[rows] for part in flat), slope), strict=False):
            whole[rows] = part
    return tuple(whole.view(shape) for whole in out)


def _moments(mean: Tensor, var: Tensor, slope: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """E', V', Q and I1."""
    k = 1.0 - slope
    sigma, x = _standardised(mean, var)
    q, i1, j2 = _tail(x)
    u = F.leaky_relu(_signs(mean), slope)
    out = F.leaky_relu(mean, slope).addcmul_(var / sigma, i1, value=k)
    spread = torch.add(u, q, alpha=-2.0 * k).mul_(u).add_(j2.addcmul_(i1, i1, value=-1), alpha=k * k)
    return out, spread.mul_(var), q, i1


def _gradients(
    to_mean: Tensor, to_var: Tensor, mean: Tensor, var: Tensor, q: Tensor, i1: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """The gradients towards E and V from those towards E' and V'."""
    k = 1.0 - slope
    sigma, x = _standardised(mean, var)
    s = _signs(mean)
    u = F.leaky_relu(s, slope)
    phi = torch.addcmul(i1, x, q)
    cross = torch.mul(u, phi).add_(torch.addcmul(i1, i1, q, value=-1), alpha=-k).mul_(sigma)  # dV'/dE / (2 k s)
    d_mean = torch.add(u, q, alpha=-k).mul_(to_mean).addcmul_(cross, to_var, value=2.0 * k).mul_(s)
    square = torch.mul(u, u).addcmul_(s, q, value=-k * (1.0 + slope))
    square.addcmul_(phi, x.mul_(u).add_(i1, alpha=k), value=-k)  # dV'/dV
    inverse = torch.div(var, sigma).div_(sigma).div_(sigma)  # 1 / sigma, but 0 where V is
    return d_mean, square.mul_(to_var).addcmul_(to_mean, inverse.mul_(phi), value=0.5 * k)


def _standardised(mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
    """sigma, kept above zero, and x = |E| / sigma, kept where the tail has not ended."""
    sigma = torch.sqrt(var).clamp_(min=LEAST_SIGMA[var.dtype])
    return sigma, torch.abs(mean).div_(sigma).clamp_(max=FAR)


def _signs(mean: Tensor) -> Tensor:
    return torch.copysign(_constant(1.0, mean), mean)


def _tail(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Q, I1 and J2 by the ratio of lbnn/ops/tail.py."""
    numerator, denominator = RATIO_TABLES[x.dtype]
    j2, i1 = _polynomial(x, numerator), _polynomial(x, (1.0, *denominator))
    q = torch.addcmul(j2, x, i1)
    scale = torch.add(_constant(-LOG_SQRT_2PI, x), x * x, alpha=-0.5).exp_().div_(torch.addcmul(i1, x, q))
    return q.mul_(scale), i1.mul_(scale), j2.mul_(scale)


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """By Horner's rule, one call a coefficient."""
    first, second, *rest = coefficients
    value = torch.add(_constant(second, x), x, alpha=first)
    for c in rest:
        value = torch.addcmul(_constant(c, x), x, value)
    return value


_CONSTANTS: dict[Any, Tensor] = {}


def _constant(value: float, like: Tensor) -> Tensor:
    """A number as a tensor, made once: torch converts a plain one at every call. A compiler has its own constants."""
    if torch.compiler.is_compiling():
        return torch.full((), value, dtype=like.dtype, device=like.device)
    key = (value, like.dtype, like.device)
    if key not in _CONSTANTS:
        _CONSTANTS[key] = torch.tensor(value, dtype=like.dtype, device=like.device)
    return _CONSTANTS[key]
