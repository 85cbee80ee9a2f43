"""The choice of kernels by shape: each fast one exactly where its window fits."""

from dataclasses import astuple, replace
from itertools import product

import pytest

from lbnn.exporters.c.shapes import (
    ConvShape,
    PoolShape,
    conv_kernel,
    conv_scratch,
    factored_kernel,
    factored_scratch,
    in_place,
    pool_kernel,
    small_shape,
)

POINT = ConvShape(6, 5, 4, 4, 5, 4, 1, 1, 1, 1, 0, 0, 1, 1, 1)
THREE = ConvShape(6, 5, 4, 4, 5, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1)
DEEP = replace(THREE, out_channels=6, groups=6)
HALF = ConvShape(6, 6, 8, 6, 3, 4, 3, 3, 2, 2, 0, 0, 1, 1, 6)  # a row and a column of padding behind the input


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        (POINT, "lbnn_conv2d_1x1"),
        (replace(POINT, out_channels=5), "lbnn_conv2d_1x1"),
        (replace(POINT, stride_height=2, out_height=3), "lbnn_conv2d_1x1"),
        (replace(POINT, stride_height=2, out_height=4), "lbnn_conv2d_patch"),  # a row behind the input
        (replace(POINT, padding_width=1, out_width=6), "lbnn_conv2d_patch"),
        (replace(POINT, groups=2), "lbnn_conv2d"),
        (THREE, "lbnn_conv2d_3x3"),
        (replace(THREE, out_channels=3), "lbnn_conv2d_3x3"),
        (replace(THREE, in_width=3, out_width=3), "lbnn_conv2d_patch"),
        (replace(THREE, padding_height=0), "lbnn_conv2d_patch"),
        (replace(THREE, stride_width=2, out_width=2), "lbnn_conv2d_patch"),
        (replace(THREE, dilation_width=2, out_width=2), "lbnn_conv2d_patch"),
        (replace(THREE, groups=2), "lbnn_conv2d"),
        (DEEP, "lbnn_depthwise_3x3"),
        (replace(DEEP, in_width=3, out_width=3), "lbnn_depthwise_3x3"),
        (replace(DEEP, in_width=2, out_width=2), "lbnn_conv2d"),
        (replace(DEEP, padding_width=2, out_width=6), "lbnn_conv2d"),
        (replace(DEEP, padding_height=0), "lbnn_conv2d"),  # two rows behind the input
        (replace(DEEP, padding_height=0, out_height=4), "lbnn_depthwise_3x3"),
        (replace(DEEP, dilation_height=2, out_height=3), "lbnn_conv2d"),
        (replace(DEEP, out_channels=12), "lbnn_conv2d"),
        (replace(DEEP, groups=3), "lbnn_conv2d"),
        (replace(DEEP, in_channels=1, out_channels=1, groups=1), "lbnn_depthwise_3x3"),
        (HALF, "lbnn_depthwise_3x3"),
        (replace(HALF, stride_height=1, out_height=5), "lbnn_conv2d"),
    ],
)
def test_each_fast_convolution_is_taken_for_its_own_windows(shape, kernel):
    assert conv_kernel(shape) == kernel


@pytest.mark.parametrize(
    ("shape", "floats", "point_floats", "place"),
    [
        (POINT, 72, 48, "ends"),
        (replace(POINT, stride_height=2, out_height=3), 72, 48, ""),
        (THREE, 324, 216, ""),
        (replace(THREE, in_width=3, out_width=3), 648, 432, ""),
        (DEEP, 54, 36, "start"),
        (HALF, 1, 1, "start"),
        (replace(POINT, groups=2), 0, 0, ""),
    ],
)
def test_scratch_and_what_may_be_in_place(shape, floats, point_floats, place):
    assert (conv_scratch(shape, False), conv_scratch(shape, True)) == (floats, point_floats)
    assert in_place(conv_kernel(shape), shape) == place


@pytest.mark.parametrize(
    ("shape", "kernel", "floats", "of_one_row", "place"),
    [
        (POINT, "lbnn_conv2d_1x1", 72, 72, "ends"),
        (replace(POINT, out_channels=5), "lbnn_conv2d_1x1", 72, 72, "ends"),
        (replace(POINT, stride_width=2, out_width=2), "lbnn_conv2d_1x1", 72, 72, ""),
        (THREE, "lbnn_conv2d_3x3", 324, 324, ""),
        (replace(THREE, in_height=60, out_height=60, in_width=7, out_width=7), "lbnn_conv2d_3x3", 420, 324, ""),
        (replace(THREE, padding_height=0, out_height=3), "lbnn_conv2d_patch", 648, 648, ""),
        (replace(THREE, groups=2), "lbnn_conv2d", 20, 4, ""),
        (replace(DEEP, out_channels=12), "lbnn_conv2d", 20, 4, ""),
        (replace(DEEP, in_channels=1, out_channels=1, groups=1), "lbnn_conv2d_patch", 108, 108, ""),
        (DEEP, "lbnn_conv2d", 20, 4, ""),
    ],
)
def test_convolutions_with_factors_take_the_kernels_of_others(shape, kernel, floats, of_one_row, place):
    """But none in groups; and where inputs take less room than a sum for each pixel, it is for the sums."""
    assert factored_kernel(shape) == kernel
    assert [factored_scratch(shape, False, rows) for rows in (shape.out_height, 1)] == [floats, of_one_row]
    assert in_place(kernel, shape) == place


POOL = PoolShape(3, 4, 6, 2, 3, 2, 2, 2, 2, 0, 0, 1)


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {name: getattr(POOL, name) + 1}
            for name in ("kernel_height", "kernel_width", "stride_height", "stride_width")
        ),
        *({"padding_height": 1}, {"padding_width": 1}, {"padding_height": 1, "padding_width": 1}),
        *({"in_height": 3}, {"in_width": 5}),  # the last window reaches beyond
    ],
    ids=str,
)
def test_the_fast_pool_is_taken_for_whole_windows_of_two_by_two_alone(changes):
    assert pool_kernel(POOL) == "lbnn_avg_pool_2x2"
    assert pool_kernel(replace(POOL, in_height=5, in_width=7)) == "lbnn_avg_pool_2x2"  # rests that no window takes
    assert pool_kernel(replace(POOL, **changes)) == "lbnn_avg_pool"


def test_the_small_shape_has_the_channels_of_a_group_and_numbers_of_16_bits():
    small = small_shape(replace(DEEP, in_channels=6, out_channels=12, groups=3))
    assert (small.in_channels, small.out_channels, small.groups, small.in_width) == (2, 4, 3, 4)
    assert small_shape(replace(POINT, in_width=65535)).in_width == 65535
    assert small_shape(replace(POINT, in_width=65536)) is None


def test_no_step_of_a_window_passes_the_largest_number_of_its_shape():
    """Counted in the padded input: a position behind the last one, a tap behind those of the last window."""
    for size, kernel, stride, padding, dilation in product((1, 4, 6), (1, 2, 3), (1, 2, 7), (0, 2), (1, 2, 5)):
        count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        wide = ConvShape(1, 1, size, 1, 1, count, 1, kernel, 1, stride, 0, padding, 1, dilation, 1)
        high = ConvShape(1, size, 1, 1, count, 1, kernel, 1, stride, 1, padding, 0, dilation, 1, 1)
        for shape in (wide, high) if count > 0 else ():
            ends = (count * stride, (count - 1) * stride + kernel * dilation)
            assert shape.largest >= max(*ends, *astuple(shape))
