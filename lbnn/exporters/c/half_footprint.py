"""Bytes of code and of stack of the kernels that read weights, where these are half floats."""

from __future__ import annotations

# As KERNELS of footprint.py; tools/bench/measure_kernels.py --half prints it.
HALF_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_conv2d": (3694, 416),
    "lbnn_conv2d_1x1": (1604, 400),
    "lbnn_conv2d_1x1_point": (1396, 400),
    "lbnn_conv2d_3x3": (3266, 400),
    "lbnn_conv2d_3x3_point": (2608, 400),
    "lbnn_conv2d_point": (3292, 400),
    "lbnn_conv2d_small": (2208, 336),
    "lbnn_conv_transposed": (3962, 496),
    "lbnn_conv_transposed_point": (3656, 488),
    "lbnn_depthwise_3x3": (1606, 400),
    "lbnn_depthwise_3x3_point": (1270, 400),
    "lbnn_linear": (2360, 176),
    "lbnn_linear_point": (2120, 168),
}
