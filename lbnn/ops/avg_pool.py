"""Average pooling, with the divisor that is really used at each position."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch.nn.functional as F

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops import arithmetic
from lbnn.ops.attributes import boolean, integers
from lbnn.ops.limits import AxisSpan, unfolded
from lbnn.ops.memory import MemoryUse
from lbnn.ops.namespace import AxisFactors, Namespace, Shape, Window
from lbnn.ops.table import Op, Sample, Use, register_forms


def avg_pool(
    xp: Namespace,
    x: Moments[Any],
    kernel_size: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Moments[Any]:
    """E' = sum(E) / n;  V' = sum(V) / n^2, n the divisor at that position."""
    spatial = tuple(int(extent) for extent in x.mean.shape[-len(kernel_size) :])
    window, counts = windows(spatial, kernel_size, stride, padding, ceil_mode, count_include_pad)
    return Moments(
        xp.scale(xp.window_mean(x.mean, window), factors(window, counts, power=1)),
        xp.scale(xp.window_mean(x.var, window), factors(window, counts, power=2)),
    )


def avg_pool_point(
    xp: Namespace,
    x: Any,
    kernel_size: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Any:
    """The plain average of known values."""
    spatial = tuple(int(extent) for extent in x.shape[-len(kernel_size) :])
    window, counts = windows(spatial, kernel_size, stride, padding, ceil_mode, count_include_pad)
    return xp.scale(xp.window_mean(x, window), factors(window, counts, power=1))


Counts = tuple[Shape, ...]
"""For each spatial axis the elements that each window counts along it; n is their product."""


def windows(
    spatial: Shape, kernel_size: Shape, stride: Shape, padding: Shape, ceil_mode: bool, count_include_pad: bool
) -> tuple[Window, Counts]:
    """The window with the padding that ceil mode adds at the end, and what each position counts.

    torch counts the declared padding if asked to, never what ceil mode adds behind it.
    """
    axes = [
        _axis(*axis, ceil_mode, count_include_pad) for axis in zip(spatial, kernel_size, stride, padding, strict=True)
    ]
    return Window(kernel_size, stride, tuple(pads for pads, _ in axes)), tuple(counts for _, counts in axes)


def factors(window: Window, counts: Counts, power: int) -> AxisFactors:
    """window.size / n^power, as one factor for each position of each axis."""
    return tuple(
        tuple(extent / count**power for count in along) for extent, along in zip(window.kernel, counts, strict=True)
    )


def _axis(
    size: int, extent: int, jump: int, pad: int, ceil_mode: bool, count_pad: bool
) -> tuple[tuple[int, int], Shape]:
    """Padding (before, after) and the counted elements of each window along one axis."""
    number = pooled_size(size, extent, jump, pad, ceil_mode)
    after = max(0, (number - 1) * jump + extent - pad - size)
    starts = [i * jump - pad for i in range(number)]
    low, high = (-pad, size + pad) if count_pad else (0, size)
    return (pad, after), tuple(min(start + extent, high) - max(start, low) for start in starts)


def pooled_size(size: int, extent: int, jump: int, pad: int, ceil_mode: bool) -> int:
    """The number of windows; ceil mode adds one that starts inside the input or its leading padding."""
    room = size + 2 * pad - extent
    number = (room + (jump - 1 if ceil_mode else 0)) // jump + 1
    starts_outside = ceil_mode and (number - 1) * jump >= size + pad
    return number - 1 if starts_outside else number


def avg_pool_shape(
    x: Shape, kernel_size: Shape, stride: Shape, padding: Shape, ceil_mode: bool, count_include_pad: bool
) -> Shape:
    """(C, *spatial) -> (C, *spatial'), as in torch."""
    rank = len(kernel_size)
    if len(x) != rank + 1 or len(stride) != rank or len(padding) != rank:
        raise LbnnError(
            f"avg_pool: input {x} does not fit kernel_size {kernel_size}, stride {stride}, padding {padding}"
        )
    if min(*kernel_size, *stride) < 1 or min(padding) < 0:
        raise LbnnError("avg_pool: kernel_size and stride must be at least 1 and padding at least 0")
    if any(2 * pad > extent for pad, extent in zip(padding, kernel_size, strict=True)):
        raise LbnnError("avg_pool: padding must be at most half of kernel_size")
    spatial = tuple(pooled_size(*axis, ceil_mode) for axis in zip(x[1:], kernel_size, stride, padding, strict=True))
    if min(spatial) < 1:
        raise LbnnError(f"avg_pool: the window {kernel_size} is larger than the padded input {x[1:]}")
    return (x[0], *spatial)


def _oracle(x: Any, kernel_size: Shape, stride: Shape, padding: Shape, ceil_mode: bool, count_include_pad: bool) -> Any:
    function: Any = F.avg_pool1d if len(kernel_size) == 1 else F.avg_pool2d
    return function(x[None], kernel_size, stride, padding, ceil_mode, count_include_pad)[0]


def window_sums(use: Use) -> int:
    """A sum and a product by 1/n or 1/n^2 in each window."""
    kernel, stride, padding = (use.attrs[key] for key in ("kernel_size", "stride", "padding"))
    return use.output[0] * arithmetic.pairs_inside(use, kernel, stride, padding, (1,) * len(kernel))


def _held(use: Use) -> int:
    """Ceil mode may pad behind the declared padding."""
    geometry = (use.attrs[key] for key in ("kernel_size", "stride", "padding"))
    axes = zip(use.inputs[0][1:], use.output[1:], *geometry, strict=True)
    return unfolded(
        use.inputs[0][0],
        (
            AxisSpan(max(size + 2 * pad, (number - 1) * jump + extent), number, extent)
            for size, number, extent, jump, pad in axes
        ),
    )


def _samples() -> tuple[Sample, ...]:
    shapes = (
        ((2, 7), (3,), (2,), (1,)),
        ((1, 6), (2,), (2,), (0,)),
        ((1, 5, 6), (2, 3), (2, 2), (1, 1)),
        ((2, 4, 4), (2, 2), (2, 2), (0, 0)),
        ((1, 3, 5), (3, 5), (3, 5), (0, 0)),
        ((1, 5, 5), (3, 3), (2, 2), (1, 0)),
    )
    return tuple(
        Sample(
            (shape,), {}, dict(kernel_size=kernel, stride=stride, padding=pad, ceil_mode=ceil, count_include_pad=count)
        )
        for (shape, kernel, stride, pad), ceil, count in product(shapes, (False, True), (False, True))
    )


register_forms(
    Op(
        "avg_pool",
        avg_pool,
        shape=avg_pool_shape,
        oracle=_oracle,
        kind="multilinear",
        samples=_samples(),
        arithmetic=lambda use: 2 * window_sums(use),
        memory=MemoryUse(shrinks=lambda attrs: not any(attrs["padding"])),
        attributes={
            "kernel_size": integers,
            "stride": integers,
            "padding": integers,
            "ceil_mode": boolean,
            "count_include_pad": boolean,
        },
        identity=lambda use: set(use.attrs["kernel_size"]) | set(use.attrs["stride"]) == {1},
        held=_held,
    ),
    avg_pool_point,
    window_sums,
)
