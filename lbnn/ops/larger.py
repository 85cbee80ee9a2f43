"""Owns the moments of the larger of two Gaussians in torch, with their gradients in closed form.

The formula of lbnn/ops/max_pool.py gives them by any namespace; here they are written for speed, because a network with
max pooling spends most of its time on them. With a, x = |E1 - E2| / a, Q, I1, J2 as there, phi = I1 + x Q, and (M, V)
those of the larger mean, (m, v) those of the other:

    dE'/dM = 1 - Q      dE'/dm = Q          dE'/dV = dE'/dv = phi / (2 a)
    dV'/dM = -dV'/dm = 2 (phi V / a - a I1 (1 - Q))
    dV'/dv = g = Q - phi I1 - phi x V / a^2             dV'/dV = 1 - 2 Q + g

All of them are the same from both sides where the means are equal. Where both variances are 0 they are those of the
plain maximum, half and half for equal values, and dE'/dV, which has no limit there, is 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.ops.kinked import LEAST_SIGMA, is_transformed
from lbnn.ops.max_pool import LOWEST, Parts, larger, tournament
from lbnn.ops.namespace import Namespace
from lbnn.ops.tail import FAR, RATIO_TABLES, torch_tail_moments
from lbnn.ops.traced import is_traced


def max_pool_fast(xp: Namespace, x: Moments[Tensor], **geometry: Any) -> Moments[Tensor]:
    """Max pooling of moments; half precision is computed in float32."""
    dtype = torch.promote_types(x.mean.dtype, x.var.dtype)
    wide = tuple(part.to(dtype if dtype in RATIO_TABLES else torch.float32) for part in x)

    def match(one: Parts, other: Parts) -> Parts:
        if is_transformed() or is_traced():
            return tuple(larger(xp, Moments(*one), Moments(*other)))
        found: Parts = _Larger.apply(xp, *one, *other)  # type: ignore[no-untyped-call]
        return found

    return Moments(*(part.to(dtype) for part in tournament(xp, wide, (LOWEST, 0.0), match, **geometry)))


class _Larger(torch.autograd.Function):
    """Keeps Q and I1, from which the gradients follow without another exponential."""

    @staticmethod
    def forward(
        ctx: Any, xp: Namespace, mean: Tensor, var: Tensor, other_mean: Tensor, other_var: Tensor
    ) -> tuple[Tensor, Tensor]:
        _, own, square, root, x = _compared(mean, var, other_mean, other_var)
        q, i1, j2 = torch_tail_moments(x)
        out = torch.maximum(mean, other_mean).addcmul_(root, i1)
        spread = j2.addcmul_(i1, i1, value=-1).mul_(square).add_(own).addcmul_(own, q, value=-2)
        ctx.xp = xp
        ctx.save_for_backward(mean, var, other_mean, other_var, q, i1)
        return out, spread

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # these gradients are differentiated again
            return _again(ctx, ctx.saved_tensors[:4], grads)
        return None, *_gradients(grads[0], grads[1], *ctx.saved_tensors)


def _again(ctx: Any, inputs: tuple[Tensor, ...], towards: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """Gradients by autograd, through a formula that it can differentiate to any order."""
    out = larger(ctx.xp, Moments(*inputs[:2]), Moments(*inputs[2:]))
    paths = [(part, grad) for part, grad in zip(out, towards, strict=True) if part.requires_grad]
    wanted = [value for value, needed in zip(inputs, ctx.needs_input_grad[1:], strict=True) if needed]
    found = iter(torch.autograd.grad([p for p, _ in paths], wanted, [g for _, g in paths], create_graph=True))
    return None, *(next(found) if needed else None for needed in ctx.needs_input_grad[1:])


def _compared(
    mean: Tensor, var: Tensor, other_mean: Tensor, other_var: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Whether the first mean is the larger, V of the larger, a^2, a, and x, kept where the tail has not ended."""
    gap, square = mean - other_mean, var + other_var
    first, root = gap >= 0, torch.sqrt(square)
    x = gap.abs_().div_(root.clamp(min=LEAST_SIGMA[var.dtype])).clamp_(max=FAR)
    return first, torch.where(first, var, other_var), square, root, x


def _gradients(
    to_mean: Tensor,
    to_var: Tensor,
    mean: Tensor,
    var: Tensor,
    other_mean: Tensor,
    other_var: Tensor,
    q: Tensor,
    i1: Tensor,
) -> tuple[Tensor, ...]:
    """The gradients towards both means and variances from those towards E' and V'."""
    first, own, square, root, x = _compared(mean, var, other_mean, other_var)
    least = root.clamp(min=LEAST_SIGMA[var.dtype])
    phi = torch.addcmul(i1, x, q)
    share = own.div_(least)  # V / a
    cross = torch.addcmul(i1, i1, q, value=-1).mul_(root).neg_().addcmul_(phi, share).mul_(to_var).mul_(2)
    above, below = torch.addcmul(to_mean, to_mean, q, value=-1).add_(cross), torch.mul(to_mean, q).sub_(cross)
    inverse = square.div_(least).div_(least).div_(least)  # 1 / a, but 0 where both variances are
    g = torch.addcmul(q, phi, i1.add(share.div_(least).mul_(x)), value=-1)
    rest = g.mul_(to_var).addcmul_(to_mean, inverse.mul_(phi), value=0.5)
    whole = torch.addcmul(rest, to_var, torch.mul(q, -2).add_(1))
    return (
        torch.where(first, above, below),
        torch.where(first, whole, rest),
        torch.where(first, below, above),
        torch.where(first, rest, whole),
    )
