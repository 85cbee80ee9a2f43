"""Shapes of convolutions and pools as the C structs have them, and the choice of kernels by shape."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any

from lbnn.graph import Graph, Node
from lbnn.ops import Shape
from lbnn.ops.conv import pads_before


@dataclass(frozen=True)
class ConvShape:
    """lbnn_conv_shape of lbnn_conv.h, its members in the same order."""

    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    padding_height: int
    padding_width: int
    dilation_height: int
    dilation_width: int
    groups: int

    @property
    def largest(self) -> int:
        """The largest number that kernels compute from these alone: a member, or a step beyond the padded input."""
        steps = (max(self.stride_height, self.dilation_height), max(self.stride_width, self.dilation_width))
        below, behind = (max(outside, pad) for outside, pad in zip(_outside(self), self.before, strict=True))
        ends = (self.in_height + self.padding_height + below, self.in_width + self.padding_width + behind)
        members: tuple[int, ...] = astuple(self)
        return max(*members, *(end + step for end, step in zip(ends, steps, strict=True)))

    @property
    def before(self) -> tuple[int, int]:
        """Rows and columns of padding before the input; how many are behind it the output's size tells."""
        return self.padding_height, self.padding_width


@dataclass(frozen=True)
class SmallConvShape(ConvShape):
    """lbnn_conv_small_shape of lbnn_conv_small.h: members of 16 bits, channels those of one group."""


@dataclass(frozen=True)
class TransposedShape(ConvShape):
    """lbnn_conv_shape of a transposed convolution (lbnn_conv_transposed.h)."""

    @property
    def largest(self) -> int:
        """The largest number that kernels compute from these alone: where the last tap lies, with a step beyond."""
        height = self.padding_height + self.kernel_height * self.dilation_height + self.stride_height
        width = self.padding_width + self.kernel_width * self.dilation_width + self.stride_width
        members: tuple[int, ...] = astuple(self)
        return max(*members, self.out_height + height, self.out_width + width)


@dataclass(frozen=True)
class _Windows:
    """The members that both shapes of pools begin with."""

    channels: int
    in_height: int
    in_width: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    padding_height: int
    padding_width: int


@dataclass(frozen=True)
class PoolShape(_Windows):
    """lbnn_pool_shape of lbnn_pool.h, its members in the same order."""

    count_include_pad: int
    out_gap: int = 0

    @property
    def largest(self) -> int:
        """The largest number that kernels compute from these alone: the end of a window, or what it counts."""
        height = self.in_height + 2 * self.padding_height + self.kernel_height
        width = self.in_width + 2 * self.padding_width + self.kernel_width
        members: tuple[int, ...] = astuple(self)
        return max(*members, height, width, self.kernel_height * self.kernel_width)


@dataclass(frozen=True)
class MaxPoolShape(_Windows):
    """lbnn_max_pool_shape of lbnn_maxpool.h, its members in the same order."""

    dilation_height: int
    dilation_width: int

    @property
    def largest(self) -> int:
        """The largest number that kernels compute from these alone: where the last tap of the last window lies."""
        height = (self.out_height - 1) * self.stride_height + self.dilation_height * self.kernel_height
        width = (self.out_width - 1) * self.stride_width + self.dilation_width * self.kernel_width
        members: tuple[int, ...] = astuple(self)
        return max(*members, height, width)


def small_shape(shape: ConvShape) -> SmallConvShape | None:
    """The shape for lbnn_conv2d_small; None if a number needs more than 16 bits."""
    inputs, outputs = shape.in_channels // shape.groups, shape.out_channels // shape.groups
    members = astuple(replace(shape, in_channels=inputs, out_channels=outputs))
    return SmallConvShape(*members) if max(members) < 1 << 16 else None


def conv_kernel(shape: ConvShape) -> str:
    """The fastest kernel for a convolution of moments; the point form has the suffix _point."""
    if _depthwise(shape):
        return "lbnn_depthwise_3x3"
    if shape.groups > 1:
        return "lbnn_conv2d"
    if (shape.kernel_height, shape.kernel_width, *shape.before) == (1, 1, 0, 0) and max(_outside(shape)) <= 0:
        return "lbnn_conv2d_1x1"
    if _same(shape) and shape.in_width >= 4:
        return "lbnn_conv2d_3x3"
    return "lbnn_conv2d_patch"


def factored_kernel(shape: ConvShape) -> str:
    """The fastest kernel for a convolution whose variances have factors, without its suffix _rank1."""
    if conv_kernel(shape) != "lbnn_depthwise_3x3":
        return conv_kernel(shape)
    return "lbnn_conv2d_patch" if shape.groups == 1 else "lbnn_conv2d"


def conv_scratch(shape: ConvShape, point: bool) -> int:
    """Floats that the kernel of a convolution needs beside its arrays; 0 of one that takes none."""
    if conv_kernel(shape) == "lbnn_depthwise_3x3":
        return 1 if shape.stride_width == 2 else 3 * (2 if point else 3) * (shape.in_width + 2)
    return _inputs_scratch(conv_kernel(shape), shape, point)


def factored_scratch(shape: ConvShape, point: bool, rows: int) -> int:
    """The same of one whose variances have factors: for inputs, or for sums that outputs share in `rows` rows."""
    kernel = factored_kernel(shape)
    inputs = _inputs_scratch(kernel, shape, point)
    return inputs if kernel == "lbnn_conv2d_1x1" else max(inputs, rows * shape.out_width)


def _inputs_scratch(kernel: str, shape: ConvShape, point: bool) -> int:
    """Floats for the inputs of four pixels."""
    taps = shape.in_channels * shape.kernel_height * shape.kernel_width
    if kernel == "lbnn_conv2d_3x3":
        return (36 if point else 54) * shape.in_channels
    return 0 if kernel == "lbnn_conv2d" else (8 if point else 12) * taps


def in_place(kernel: str, shape: ConvShape) -> str:
    """Where a kernel's output may lie over its input, mean over mean and variance over variance.

    "start": both begin at one address. "ends": they do if no channel is added, and end at one address if none is lost.
    """
    if kernel == "lbnn_conv2d_1x1" and (shape.stride_height, shape.stride_width) == (1, 1):
        return "ends"
    return "start" if kernel == "lbnn_depthwise_3x3" else ""


def _depthwise(shape: ConvShape) -> bool:
    """Kernel 3, stride 1 or 2, at most one row and column outside on each side, a channel for each group."""
    kernel = (shape.kernel_height, shape.kernel_width, shape.dilation_height, shape.dilation_width)
    stride = (shape.stride_height, shape.stride_width)
    outside = (*_outside(shape), shape.padding_height, shape.padding_width)
    if not shape.groups == shape.in_channels == shape.out_channels or kernel != (3, 3, 1, 1):
        return False
    return stride in ((1, 1), (2, 2)) and max(outside) <= 1 and shape.out_width >= 3


def _same(shape: ConvShape) -> bool:
    """Kernel 3, stride 1, and an output as large as the input, in its middle."""
    return _window(shape) == (3, 3, 1, 1, 1, 1, 1, 1) and _outside(shape) == (1, 1)


def _outside(shape: ConvShape) -> tuple[int, int]:
    """Rows below and columns behind the input that windows reach; negative where they do not reach its end."""
    height = (shape.out_height - 1) * shape.stride_height + (shape.kernel_height - 1) * shape.dilation_height + 1
    width = (shape.out_width - 1) * shape.stride_width + (shape.kernel_width - 1) * shape.dilation_width + 1
    return height - shape.padding_height - shape.in_height, width - shape.padding_width - shape.in_width


def pool_kernel(shape: PoolShape) -> str:
    """The fastest kernel for average pooling of moments; the point form has the suffix _point."""
    window = (shape.kernel_height, shape.kernel_width, shape.stride_height, shape.stride_width)
    inside = 2 * shape.out_height <= shape.in_height and 2 * shape.out_width <= shape.in_width
    unpadded = shape.padding_height == shape.padding_width == 0
    return "lbnn_avg_pool_2x2" if window == (2, 2, 2, 2) and inside and unpadded else "lbnn_avg_pool"


def max_pool_kernel(shape: MaxPoolShape) -> str:
    """The fastest kernel for max pooling of moments; the point form has the suffix _point."""
    window = astuple(shape)[5:]
    inside = 2 * shape.out_height <= shape.in_height and 2 * shape.out_width <= shape.in_width
    return "lbnn_max_pool_2x2" if window == (2, 2, 2, 2, 0, 0, 1, 1) and inside else "lbnn_max_pool"


def _window(shape: ConvShape) -> tuple[int, ...]:
    """Kernel, stride, padding and dilation."""
    return (
        shape.kernel_height, shape.kernel_width, shape.stride_height, shape.stride_width,
        shape.padding_height, shape.padding_width, shape.dilation_height, shape.dilation_width,
    )  # fmt: skip


def convolution_shape(node: Node, graph: Graph) -> ConvShape:
    """The shape of a node's convolution; along one axis it has the height 1."""
    stride_h, stride_w = two_axes(node.attrs["stride"], 1)
    padding_h, padding_w = two_axes(pads_before(node.attrs["padding"]), 0)
    dilation_h, dilation_w = two_axes(node.attrs["dilation"], 1)
    return ConvShape(
        *planes_of(graph.values[node.inputs[0]].shape),
        *planes_of(graph.values[node.name].shape),
        *two_axes(node.params["weight"].shape[2:], 1),
        stride_h,
        stride_w,
        padding_h,
        padding_w,
        dilation_h,
        dilation_w,
        node.attrs["groups"],
    )


def two_axes(values: Any, missing: Any) -> tuple[Any, Any]:
    """(height, width); one axis alone is the width."""
    height, width = values if len(values) == 2 else (missing, *values)
    return height, width


def planes_of(shape: Shape) -> tuple[int, int, int]:
    """(channels, height, width)."""
    return (shape[0], *two_axes(shape[1:], 1))
