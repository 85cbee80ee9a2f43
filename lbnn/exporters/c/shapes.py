"""Shapes of convolutions and pools as the C structs have them, and the choice of kernels by shape."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace


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
        ends = (self.in_height + 2 * self.padding_height + steps[0], self.in_width + 2 * self.padding_width + steps[1])
        members: tuple[int, ...] = astuple(self)
        return max(*members, *ends)


@dataclass(frozen=True)
class SmallConvShape(ConvShape):
    """lbnn_conv_small_shape of lbnn_conv_small.h: members of 16 bits, channels those of one group."""


@dataclass(frozen=True)
class PoolShape:
    """lbnn_pool_shape of lbnn_pool.h, its members in the same order."""

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
    count_include_pad: int

    @property
    def largest(self) -> int:
        """The largest number that kernels compute from these alone: the end of a window, or what it counts."""
        height = self.in_height + 2 * self.padding_height + self.kernel_height
        width = self.in_width + 2 * self.padding_width + self.kernel_width
        members: tuple[int, ...] = astuple(self)
        return max(*members, height, width, self.kernel_height * self.kernel_width)


@dataclass(frozen=True)
class MaxPoolShape:
    """lbnn_max_pool_shape of lbnn_maxpool.h, its members in the same order."""

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
    if _window(shape) == (1, 1, 1, 1, 0, 0, 1, 1) and _pairs(shape) and shape.in_height * shape.in_width >= 4:
        return "lbnn_conv2d_1x1"
    if _window(shape) == (3, 3, 1, 1, 1, 1, 1, 1) and shape.in_width >= 4:
        if _pairs(shape):
            return "lbnn_conv2d_3x3"
        if shape.groups == shape.in_channels == shape.out_channels:
            return "lbnn_depthwise_3x3"
    return "lbnn_conv2d"


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


def _pairs(shape: ConvShape) -> bool:
    """Output channels can be computed two at a time."""
    return shape.groups == 1 and shape.out_channels % 2 == 0
