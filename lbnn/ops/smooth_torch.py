"""Owns the moments of smooth activations in torch: the rule's gradients in closed form where a variance is small.

By Price's theorem, for a function f of a ~ N(E, V),

    dE'/dE = E f'      dE'/dV = E f'' / 2      dV'/dE = 2 Cov(f, f')      dV'/dV = E f'^2 + Cov(f, f'')

all of them means over the same 11 points, right down to V = 0, where differentiating through sigma would give 0/0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.ops.namespace import Namespace
from lbnn.ops.smooth_functions import FUNCTIONS, Smooth
from lbnn.ops.smooth_rule import MIXED, NODES, WEIGHTS, Grid, mixed, narrow_moments, wide_moments
from lbnn.ops.traced import is_traced

WIDE_TYPES = (torch.float32, torch.float64)


def torch_smooth(xp: Namespace, x: Moments[Tensor], function: str, scale: float, grid: Grid) -> Moments[Tensor]:
    """The moments of f(scale a) / scale; half precision is computed in float32."""
    dtype = torch.promote_types(x.mean.dtype, x.var.dtype)
    wide = dtype if dtype in WIDE_TYPES else torch.float32
    inner = Moments(x.mean.to(wide) * scale, x.var.to(wide) * (scale * scale))
    out = _moments(xp, inner, function, grid)
    return Moments((out.mean / scale).to(dtype), (out.var / (scale * scale)).to(dtype))


def _moments(xp: Namespace, x: Moments[Tensor], function: str, grid: Grid) -> Moments[Tensor]:
    """Both rules; the second is not computed where no element needs it, unless a compiler has to know the graph."""
    limit = grid.limit + grid.growth * torch.clamp(torch.abs(x.mean) - grid.near, min=0.0)
    ratio = x.var / limit
    small = Moments(x.mean, torch.where(ratio < MIXED, x.var, limit * MIXED))
    compute: Any = _Narrow.forward if is_traced() else _Narrow.apply
    narrow = Moments(*compute(xp, function, *small))
    if not torch.compiler.is_compiling() and not _is_transformed() and not bool((ratio > 1.0).any()):
        return narrow
    share = torch.clamp((ratio - 1.0) / (MIXED - 1.0), 0.0, 1.0)
    large = Moments(x.mean, torch.where(ratio > 1.0, x.var, limit))
    return mixed(narrow, wide_moments(xp, large, grid), share)


def _is_transformed() -> bool:
    """Inside torch.func's grad and vmap, where a value can't be looked at, or a trace, which would keep what it saw."""
    return is_traced() or torch._C._are_functorch_transforms_active()


class _Narrow(torch.autograd.Function):
    """The rule for a narrow Gaussian; its gradients are plain arithmetic and can be differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(xp: Namespace, function: str, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        out = narrow_moments(xp, Moments(mean, var), FUNCTIONS[function])
        return out.mean, out.var

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.xp, ctx.function, mean, var = inputs
        ctx.save_for_backward(mean, var)

    @staticmethod
    def backward(ctx: Any, to_mean: Tensor, to_var: Tensor) -> tuple[Tensor | None, ...]:
        mean, var = ctx.saved_tensors
        slope, bend, cross, square = _derivatives(ctx.xp, FUNCTIONS[ctx.function], mean, var)
        return None, None, to_mean * slope + to_var * cross, to_mean * bend + to_var * square


def _derivatives(xp: Namespace, function: Smooth, mean: Tensor, var: Tensor) -> tuple[Tensor, ...]:
    """dE'/dE, dE'/dV, dV'/dE and dV'/dV."""
    at = xp.fan(mean, (1.0,)) + xp.fan(xp.sqrt(var), tuple(NODES))
    weights = mean.new_tensor(WEIGHTS)
    (value, slope), bend = function.both(xp, at), function.bend(xp, at)
    value = value - (value * weights).sum(-1, keepdim=True)
    first, second = (slope * weights).sum(-1), (bend * weights).sum(-1)
    cross = 2.0 * (value * (slope - first[..., None]) * weights).sum(-1)
    square = ((slope * slope + value * bend) * weights).sum(-1)
    return first, 0.5 * second, cross, square
