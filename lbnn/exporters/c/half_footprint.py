"""Bytes of code and of stack of the kernels that read weights, where these are half floats."""

from __future__ import annotations

# As KERNELS of footprint.py; tools/bench/measure_kernels.py --half prints it.
HALF_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_conv2d": (3694, 416),
    "lbnn_conv2d_1x1": (7256, 368),
    "lbnn_conv2d_1x1_point": (6376, 368),
    "lbnn_conv2d_3x3": (6330, 336),
    "lbnn_conv2d_3x3_point": (5148, 336),
    "lbnn_conv2d_patch": (7480, 360),
    "lbnn_conv2d_patch_point": (6662, 360),
    "lbnn_conv2d_point": (3292, 400),
    "lbnn_conv2d_small": (2208, 336),
    "lbnn_conv_transposed": (3962, 496),
    "lbnn_conv_transposed_point": (3656, 488),
    "lbnn_depthwise_3x3": (8598, 360),
    "lbnn_depthwise_3x3_point": (6648, 304),
    "lbnn_linear": (5024, 168),
    "lbnn_linear_point": (4484, 160),
}
