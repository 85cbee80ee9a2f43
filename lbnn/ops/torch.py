"""The formulas over torch tensors, with gradients that stay finite where a variance is zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.ops import AxisFactors, ConvGeometry, Op, Shape, TailRow, TransposedGeometry, Window
from lbnn.ops.hardswish import hardswish
from lbnn.ops.kinked import kinked_line
from lbnn.ops.larger import max_pool_fast
from lbnn.ops.mills import torch_mills
from lbnn.ops.smooth import grid_of
from lbnn.ops.smooth_torch import torch_smooth
from lbnn.ops.tabulated import torch_tabulated
from lbnn.ops.tail import NARROW_CELLS, NARROW_FLOAT32, torch_tail_moments
from lbnn.ops.tail_scaled import torch_scaled_tail
from lbnn.ops.traced import is_exported, is_traced

EMPTY_TAIL = 38.0
"""Beyond this many standard deviations the normal density is zero, in float64 too."""


class TorchNamespace:
    """Implements `lbnn.ops.Namespace`."""

    def linear(self, bias: Any, *terms: tuple[Tensor, Tensor]) -> Any:
        """bias + the sum of x @ weight.T; the first product takes the bias with it."""
        (x, weight), *rest = terms
        if not (isinstance(bias, Tensor) and bias.ndim == 1):
            return sum((F.linear(x, weight) for x, weight in terms), start=bias)
        out = F.linear(x, weight, bias)
        for x, weight in rest:
            out = torch.addmm(out, x, weight.t()) if x.ndim == 2 else out + F.linear(x, weight)
        return out

    def conv(self, geometry: ConvGeometry, bias: Any, *terms: tuple[Tensor, Tensor]) -> Any:
        """bias + the sum of the convolutions; the first takes the bias with it."""
        rank = len(geometry.stride)
        function: Any = F.conv1d if rank == 1 else F.conv2d
        whole = isinstance(bias, Tensor) and bias.ndim == 1
        biases = [bias if whole else None, *[None] * (len(terms) - 1)]
        products = [
            function(x, weight, b, geometry.stride, geometry.padding, geometry.dilation, geometry.groups)
            for (x, weight), b in zip(terms, biases, strict=True)
        ]
        return sum(products[1:], start=products[0] if whole else products[0] + bias)

    def conv_transposed(self, geometry: TransposedGeometry, bias: Any, *terms: tuple[Tensor, Tensor]) -> Any:
        """bias + the sum of the transposed convolutions; the first takes the bias with it."""
        if is_traced() and any(geometry.output_padding):
            return _cut_by_hand(geometry, bias, *terms)
        function: Any = F.conv_transpose1d if len(geometry.stride) == 1 else F.conv_transpose2d
        whole, g = isinstance(bias, Tensor) and bias.ndim == 1, geometry
        biases = [bias if whole else None, *[None] * (len(terms) - 1)]
        products = [
            function(x, weight, b, g.stride, g.padding, g.output_padding, g.groups, g.dilation)
            for (x, weight), b in zip(terms, biases, strict=True)
        ]
        return sum(products[1:], start=products[0] if whole else products[0] + bias)

    def window_mean(self, x: Tensor, window: Window) -> Tensor:
        """The mean under each window, counting zeros outside."""
        padded = self.pad(x, window.padding)
        if len(window.kernel) == 1:
            return F.avg_pool1d(padded, window.kernel, window.stride)
        return F.avg_pool2d(padded, window.kernel, window.stride)

    def scale(self, x: Tensor, factors: AxisFactors) -> Tensor:
        """Known factors: one number where all positions have the same, which is the usual case."""
        if all(len(set(along)) == 1 for along in factors):
            factor = math.prod([along[0] for along in factors])
            return x if factor == 1.0 else x * factor
        for axis, along in enumerate(reversed(factors)):
            x = x * x.new_tensor(along).reshape((-1,) + (1,) * axis)
        return x

    def window_max(self, x: Tensor, window: Window, dilation: Shape, outside: float) -> Tensor:
        """Max pooling of torch."""
        function: Any = F.max_pool1d if len(window.kernel) == 1 else F.max_pool2d
        pooled: Tensor = function(self.pad(x, window.padding, outside), window.kernel, window.stride, 0, dilation)
        return pooled

    def every(self, x: Tensor, axis: int, start: int, step: int, count: int) -> Tensor:
        """A view."""
        places: Any = (..., slice(start, start + step * (count - 1) + 1, step), *[slice(None)] * (-1 - axis))
        return x[places]

    def pad(self, x: Tensor, padding: tuple[tuple[int, int], ...], value: float = 0.0) -> Tensor:
        """A number around."""
        amounts = [amount for pair in reversed(padding) for amount in pair]
        return F.pad(x, amounts, value=value) if any(amounts) else x

    def repeat(self, x: Tensor, factors: Shape) -> Tensor:
        """Copies along the spatial axes."""
        for axis, factor in enumerate(factors, start=2):
            x = x.repeat_interleave(factor, axis)
        return x

    def sqrt(self, x: Tensor) -> Tensor:
        """Square root with gradient 0 at 0: both branches of `where` must be finite."""
        positive = x > 0
        return torch.where(positive, torch.sqrt(torch.where(positive, x, 1.0)), 0.0)

    def abs(self, x: Tensor) -> Tensor:
        """Absolute value, whose slope at 0 is that of its right side: moments are smooth there if both sides agree."""
        return torch.where(x < 0, -x, x)

    def ratio(self, x: Tensor, sigma: Tensor) -> Tensor:
        """x / sigma, or EMPTY_TAIL where that is larger or 0/0."""
        inside = x < EMPTY_TAIL * sigma
        return torch.where(inside, x / torch.where(inside, sigma, 1.0), EMPTY_TAIL)

    def minimum(self, x: Tensor, bound: float) -> Tensor:
        """The smaller one."""
        return torch.clamp(x, max=bound)

    def maximum(self, x: Tensor, bound: float) -> Tensor:
        """The larger one."""
        return torch.clamp(x, min=bound)

    def between(self, x: Tensor, low: float, high: float) -> Tensor:
        """x between two numbers."""
        below = x if high == math.inf else torch.where(x < high, x, _like(high, x))
        return below if low == -math.inf else torch.where(x < low, _like(low, x), below)

    def narrow(self, x: Tensor) -> float:
        """Where both forms err alike."""
        return NARROW_CELLS.get(x.dtype, NARROW_FLOAT32)

    def exp(self, x: Tensor) -> Tensor:
        """Exponential."""
        return torch.exp(x)

    def expm1(self, x: Tensor) -> Tensor:
        """torch's own has the gradient 1 + (e^x - 1), which vanishes too early; converters do not all know it."""
        near = (torch.exp(x) + 1.0) * torch.tanh(x * 0.5) if is_traced() else torch.expm1(x)
        return torch.where(x < -1.0, torch.exp(x) - 1.0, near)

    def log(self, x: Tensor) -> Tensor:
        """Logarithm."""
        return torch.log(x)

    def normal_cdf(self, x: Tensor) -> Tensor:
        """By erfc: torch's own ndtr takes twice as long. Converters of traced modules know erf alone."""
        if is_traced() or is_exported():
            return torch.erf(x * math.sqrt(0.5)) * 0.5 + 0.5
        return torch.erfc(x * -math.sqrt(0.5)) * 0.5

    def sum_last(self, x: Tensor) -> Tensor:
        """Sum along the last axis."""
        return x.sum(-1, keepdim=True)

    def max_last(self, x: Tensor) -> Tensor:
        """Largest along the last axis."""
        return x.amax(-1, keepdim=True)

    def min_last(self, x: Tensor) -> Tensor:
        """Smallest along the last axis."""
        return x.amin(-1, keepdim=True)

    def drop_last(self, x: Tensor) -> Tensor:
        """Without the last axis."""
        return x.squeeze(-1)

    def knots(self, x: Tensor, numbers: tuple[float, ...]) -> Tensor:
        """x times each number, along a new axis."""
        return x[:, None] if numbers == (1.0,) else x[:, None] * x.new_tensor(numbers)[:, None]

    def sum_knots(self, x: Tensor) -> Tensor:
        """Sum along that axis."""
        return x.sum(1)

    def fan(self, x: Tensor, numbers: tuple[float, ...]) -> Tensor:
        """x times each number, along a new last axis."""
        return x[..., None] if numbers == (1.0,) else x[..., None] * x.new_tensor(numbers)

    def shifts(self, x: Tensor, numbers: tuple[float, ...]) -> Tensor:
        """x plus each number, along a new last axis."""
        return x[..., None] + x.new_tensor(numbers)

    def mix(self, x: Tensor, rows: Any) -> Tensor:
        """Weighted sums along the last axis."""
        return x @ torch.as_tensor(rows, dtype=x.dtype, device=x.device).T

    def cells(self, x: Tensor, rows: Any) -> tuple[list[Tensor], Tensor]:
        """A row for each element; NaN has the first."""
        row = torch.clamp(torch.floor(x.detach()).to(torch.int64), 0, len(rows) - 1)
        table = torch.as_tensor(rows, dtype=x.dtype, device=x.device)
        return list(table[row].unbind(-1)), row.to(x.dtype)

    def tanh(self, x: Tensor) -> Tensor:
        """Hyperbolic tangent."""
        return torch.tanh(x)

    def leaky_relu(self, x: Tensor, slope: float) -> Tensor:
        """The plain function."""
        return torch.where(x < 0, slope * x, x)

    def softplus(self, x: Tensor) -> Tensor:
        """log(1 + exp(x))."""
        return F.softplus(x)

    def where_negative(self, x: Tensor, below: Any, above: Any) -> Tensor:
        """Selection by sign."""
        return torch.where(x < 0, _like(below, x), _like(above, x))

    def tail_mix(self, x: Tensor, rows: Sequence[TailRow]) -> list[Tensor]:
        """Linear combinations of the tail's moments."""
        moments = torch_tail_moments(x)
        return [_combine(row, moments) for row in rows]

    def scaled_tail(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The tail divided by its density."""
        return torch_scaled_tail(self, x)

    def mills(self, x: Tensor) -> Sequence[Tensor]:
        """The tail's moments over exp(-x^2 / 2)."""
        return torch_mills(x)

    def flatten(self, x: Tensor) -> Tensor:
        """One axis behind the batch axis."""
        return x.flatten(1)

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        """Concatenation behind the batch axis."""
        return torch.cat(list(xs), axis + 1)

    def halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both halves of the features."""
        first, second = x.chunk(2, 1)
        return first, second


def _cut_by_hand(geometry: TransposedGeometry, bias: Any, *terms: tuple[Tensor, Tensor]) -> Any:
    """Transposed convolutions for converters of traced modules, which do not know every output_padding: the whole
    result, made longer and cut."""
    none = (0,) * len(geometry.stride)
    out = TORCH.conv_transposed(replace(geometry, padding=none, output_padding=none), 0.0, *terms)
    ends = [more - cut for more, cut in zip(geometry.output_padding, geometry.padding, strict=True)]
    out = TORCH.pad(out, tuple((0, max(0, end)) for end in ends))
    kept: Any = [slice(cut, min(0, end) or None) for cut, end in zip(geometry.padding, ends, strict=True)]
    offset = bias.reshape((-1,) + (1,) * len(none)) if isinstance(bias, Tensor) and bias.ndim else bias
    return out[(..., *kept)] + offset


def _like(value: Any, x: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full_like(x, value)


def _combine(row: TailRow, moments: Sequence[Tensor]) -> Any:
    terms = [factor * moment for factor, moment in zip(row[1:], moments, strict=True) if factor != 0.0]
    return sum(terms, start=row[0]) if terms else torch.full_like(moments[0], row[0])


def in_full_precision(x: Moments[Tensor], function: Callable[[Moments[Tensor]], Moments[Tensor]]) -> Moments[Tensor]:
    """The function of moments in one dtype; half precision is computed in float32."""
    dtype = torch.promote_types(x.mean.dtype, x.var.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    return Moments(*(part.to(dtype) for part in function(Moments(*(part.to(wide) for part in x)))))


TORCH = TorchNamespace()

TORCH_FORMS: dict[str, Callable[..., Moments[Tensor]]] = {
    "leaky_relu": lambda x, negative_slope: kinked_line(TORCH, x, negative_slope),
    "abs": lambda x: kinked_line(TORCH, x, -1.0),
    "hardswish": lambda x: in_full_precision(x, lambda wide: hardswish(TORCH, wide)),
    "max_pool": lambda x, **geometry: max_pool_fast(TORCH, x, **geometry),
    "tabulated": lambda x, **table: torch_tabulated(TORCH, x, **table),
    "tabulated_point": lambda x, **table: torch_tabulated(TORCH, x, **table),
    "smooth": lambda x, function, scale: torch_smooth(TORCH, x, function, scale, grid_of(function)),
}
"""Operators that torch computes by code of its own; all others by their formula."""


def compute(op: Op, *inputs: Any, **params: Any) -> Any:
    """An operator over tensors, in the fastest form there is."""
    fast = TORCH_FORMS.get(op.name)
    return op.formula(TORCH, *inputs, **params) if fast is None else fast(*inputs, **params)
