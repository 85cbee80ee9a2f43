"""Max pooling: the larger of two Gaussians exactly, larger windows by a tournament of pairs in one fixed order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import gcd
from typing import Any

import torch.nn.functional as F

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import taps_inside
from lbnn.ops.attributes import boolean, integers
from lbnn.ops.avg_pool import pooled_size
from lbnn.ops.limits import AxisSpan, unfolded
from lbnn.ops.memory import MemoryUse
from lbnn.ops.namespace import Namespace, Shape, Window
from lbnn.ops.table import Op, Sample, Use, register_forms

LOWEST = -3.4028234663852886e38
"""The mean of padding, its variance 0: the least float32, which loses every pair to the last bit."""

Parts = tuple[Any, ...]
"""Arrays of one shape that belong together: mean and variance, and whatever travels with them."""
Match = Callable[[Parts, Parts], Parts]
"""What is left of two values."""


def larger(xp: Namespace, x: Moments[Any], y: Moments[Any]) -> Moments[Any]:
    """Exact moments of max(x, y), x and y independent Gaussians.

    With a = sqrt(V1 + V2), (M, V) those of the larger mean, and Q, I1, J2 the probability and the first two moments of
    the normal tail beyond |E1 - E2| / a (the part of the distribution where the other one wins):

        E' = M + a I1
        V' = V (1 - 2 Q) + a^2 (J2 - I1^2)

    It is ReLU's formula: max(x, y) = y + max(x - y, 0). Nothing cancels; a = 0 gives the larger of two known values.
    """
    gap, square = x.mean - y.mean, x.var + y.var
    width = xp.sqrt(square)
    rows = [(0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0), (1.0, -2.0, 0.0, 0.0)]
    excess, spread, kept = xp.tail_mix(xp.ratio(xp.abs(gap), width), rows)
    return Moments(
        xp.where_negative(gap, y.mean, x.mean) + width * excess,
        xp.where_negative(gap, y.var, x.var) * kept + square * (spread - excess * excess),
    )


def max_pool(xp: Namespace, x: Moments[Any], **geometry: Any) -> Moments[Any]:
    """The moments that a tournament of pairs gives for each window: exact for two, an approximation for more."""

    def match(one: Parts, other: Parts) -> Parts:
        return tuple(larger(xp, Moments(*one), Moments(*other)))

    return Moments(*tournament(xp, tuple(x), (LOWEST, 0.0), match, **geometry))


def max_pool_point(
    xp: Namespace, x: Any, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> Any:
    """The plain maximum of known values."""
    spatial = tuple(int(extent) for extent in x.shape[-len(kernel_size) :])
    pads, _ = _axes(spatial, kernel_size, stride, padding, dilation, ceil_mode)
    return xp.window_max(x, Window(kernel_size, stride, pads), dilation, LOWEST)


def tournament(
    xp: Namespace,
    parts: Parts,
    outside: tuple[float, ...],
    match: Match,
    kernel_size: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    ceil_mode: bool,
) -> Parts:
    """One value for each window: along the last axis first, then along the one before it.

    Along an axis neighbours meet in pairs, then winners of neighbouring pairs, and so on; an odd one waits for the next
    round. Windows that overlap share what they have in common, so that a window of k takes about log2(k) matches.
    """
    rank = len(kernel_size)
    spatial = tuple(int(extent) for extent in parts[0].shape[-rank:])
    pads, numbers = _axes(spatial, kernel_size, stride, padding, dilation, ceil_mode)
    if any(map(any, pads)):
        parts = tuple(xp.pad(part, pads, value) for part, value in zip(parts, outside, strict=True))
    for axis in reversed(range(rank)):
        parts = _along(xp, parts, axis - rank, kernel_size[axis], stride[axis], dilation[axis], numbers[axis], match)
    return parts


def _along(
    xp: Namespace, parts: Parts, axis: int, kernel: int, stride: int, dilation: int, number: int, match: Match
) -> Parts:
    """The windows along one axis.

    `level` holds the winners of 2, 4, 8 ... neighbours on a grid that all windows can use; a window is made of the
    levels that its size has in binary, the largest first: what is left over joins at the end.
    """

    def pick(level: Parts, start: int, step: int, count: int) -> Parts:
        return tuple(xp.every(part, axis, start, step, count) for part in level)

    level, grid, span, left = parts, 1, dilation, kernel
    rest: Parts | None = None
    while True:
        size = span // dilation
        if left & size:
            left -= size
            block = pick(level, left * dilation // grid, stride // grid, number)
            rest = block if rest is None else match(block, rest)
        if not left:
            assert rest is not None
            return rest
        step = gcd(stride, 2 * span) if left > 2 * size else stride  # the last level is needed at the windows alone
        length = (int(level[0].shape[axis]) - 1) * grid - span
        count = length // step + 1 if left > 2 * size else number
        halves = (pick(level, start, step // grid, count) for start in (0, span // grid))
        level, grid, span = match(*halves), step, 2 * span


def _axes(
    spatial: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> tuple[tuple[tuple[int, int], ...], Shape]:
    """For each axis the padding (before, after), what ceil mode adds behind included, and the number of windows."""
    axes = [(size, reach(k, d), jump, pad) for size, k, jump, pad, d in zip(
        spatial, kernel, stride, padding, dilation, strict=True)]  # fmt: skip
    numbers = tuple(pooled_size(*axis, ceil_mode) for axis in axes)
    after = (
        max(0, (n - 1) * jump + extent - pad - size) for n, (size, extent, jump, pad) in zip(numbers, axes, strict=True)
    )
    return tuple(zip(padding, after, strict=True)), numbers


def reach(kernel: int, dilation: int) -> int:
    """How many places a window spans along an axis."""
    return dilation * (kernel - 1) + 1


def max_pool_shape(
    x: Shape, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> Shape:
    """(C, *spatial) -> (C, *spatial'), as in torch."""
    rank, geometry = len(kernel_size), (kernel_size, stride, padding, dilation)
    if len(x) != rank + 1 or any(len(part) != rank for part in geometry):
        raise LbnnError(f"max_pool: input {x} does not fit kernel_size, stride, padding, dilation {geometry}")
    if min(*kernel_size, *stride, *dilation) < 1 or min(padding) < 0:
        raise LbnnError("max_pool: kernel_size, stride and dilation must be at least 1 and padding at least 0")
    if any(2 * pad > extent for pad, extent in zip(padding, kernel_size, strict=True)):
        raise LbnnError("max_pool: padding must be at most half of kernel_size")
    if any(pad and step > size for size, pad, step in zip(x[1:], padding, dilation, strict=True)):
        raise LbnnError(f"max_pool: dilation {dilation} steps over the whole input {x[1:]}; use a smaller one")
    _, spatial = _axes(x[1:], kernel_size, stride, padding, dilation, ceil_mode)
    if min(spatial) < 1:
        raise LbnnError(f"max_pool: the window {kernel_size} is larger than the padded input {x[1:]}")
    return (x[0], *spatial)


def _oracle(x: Any, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool) -> Any:
    function: Any = F.max_pool1d if len(kernel_size) == 1 else F.max_pool2d
    return function(x[None], kernel_size, stride, padding, dilation, ceil_mode)[0]


def matches(use: Use) -> int:
    """The fewest pairs: along the last axis in each row that a window reads, then along the one before it."""
    keys = ("kernel_size", "stride", "padding", "dilation")
    axes = list(zip(use.inputs[0][1:], use.output[1:], *(use.attrs[key] for key in keys), strict=True))
    count, lines = 0, use.output[0]
    for axis in reversed(range(len(axes))):
        size, number, kernel, jump, pad, step = axes[axis]
        before = [min(taps_inside(*other), (other[1] - 1) * other[3] - other[4] + reach(other[2], other[5]), other[0])
                  for other in axes[:axis]]  # fmt: skip
        shared = number * (kernel.bit_length() + kernel.bit_count() - 2)
        own = min(shared, taps_inside(size, number, kernel, jump, pad, step) - number)
        count += lines * own * (before[0] if before else 1)
        lines *= number
    return count


# A match, counted in lbnn_larger of c_runtime/lbnn_maxpool.h: difference, sum, root, quotient and its bound 7; x^2,
# e^(-x^2/2) 12; N, P, T, D, quotient 10; choice of mean and variance 3; E', V' 10. Of known values: one comparison.
_MATCH = 42


def _held(use: Use) -> int:
    """Ceil mode may pad behind the declared padding."""
    geometry = (use.attrs[key] for key in ("kernel_size", "stride", "padding", "dilation"))
    axes = zip(use.inputs[0][1:], use.output[1:], *geometry, strict=True)
    return unfolded(
        use.inputs[0][0],
        (
            AxisSpan(max(size + 2 * pad, (number - 1) * jump + reach(extent, step)), number, extent)
            for size, number, extent, jump, pad, step in axes
        ),
    )


def _samples() -> tuple[Sample, ...]:
    shapes = (
        ((2, 7), (3,), (2,), (1,), (1,)),
        ((1, 6), (2,), (2,), (0,), (1,)),
        ((1, 11), (7,), (3,), (3,), (1,)),
        ((2, 9), (3,), (1,), (1,), (3,)),
        ((2, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1)),
        ((1, 5, 6), (2, 3), (2, 2), (1, 1), (1, 1)),
        ((1, 3, 5), (3, 5), (3, 5), (0, 0), (1, 1)),
        ((1, 7, 6), (3, 2), (2, 1), (1, 0), (2, 3)),
        ((1, 8, 9), (4, 4), (3, 5), (2, 1), (1, 1)),
    )
    return tuple(
        Sample((shape,), {}, dict(kernel_size=kernel, stride=stride, padding=pad, dilation=dilation, ceil_mode=ceil))
        for (shape, kernel, stride, pad, dilation), ceil in product(shapes, (False, True))
    )


register_forms(
    Op(
        "max_pool",
        max_pool,
        shape=max_pool_shape,
        oracle=_oracle,
        kind="tournament",
        samples=_samples(),
        arithmetic=lambda use: _MATCH * matches(use),
        memory=MemoryUse(shrinks=lambda attrs: not any(attrs["padding"])),
        attributes={
            "kernel_size": integers,
            "stride": integers,
            "padding": integers,
            "dilation": integers,
            "ceil_mode": boolean,
        },
        identity=lambda use: set(use.attrs["kernel_size"]) | set(use.attrs["stride"]) == {1},
        held=_held,
    ),
    max_pool_point,
    matches,
)
