"""Bytes of code and of stack of the kernels that read weights, where these are half floats."""

from __future__ import annotations

# As KERNELS of footprint.py; tools/bench/measure_kernels.py --half prints it.
HALF_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_conv2d": (3694, 416),
    "lbnn_conv2d_1x1": (9368, 416),
    "lbnn_conv2d_1x1_point": (8162, 416),
    "lbnn_conv2d_3x3": (6284, 392),
    "lbnn_conv2d_3x3_point": (5126, 392),
    "lbnn_conv2d_patch": (9894, 408),
    "lbnn_conv2d_patch_point": (8710, 416),
    "lbnn_conv2d_point": (3292, 400),
    "lbnn_conv2d_small": (2208, 336),
    "lbnn_conv_transposed": (3962, 496),
    "lbnn_conv_transposed_point": (3656, 488),
    "lbnn_depthwise_3x3": (8802, 296),
    "lbnn_depthwise_3x3_point": (6604, 248),
    "lbnn_linear": (5024, 176),
    "lbnn_linear_point": (4484, 168),
}
