"""Bytes of code on an AVR with 16-bit ints, libgcc's routines for float among them: an upper bound, and a lower one.

A kernel alone takes what any call of it may need. A compiler that sees each call drops what these do not, half of a
small network and more, so that between both bounds only a build tells.
"""

from __future__ import annotations

from collections.abc import Sequence

# The most flash of each kernel with avr-gcc -O2 and -Os, with and without LBNN_OPTIMIZE_SIZE, and of libgcc for all of
# them. tools/bench/measure_avr.py prints it; with --half those that read weights, where these are half floats.
AVR_KERNELS: dict[str, int] = {
    "lbnn_abs": 1568,
    "lbnn_abs_point": 120,
    "lbnn_add": 430,
    "lbnn_add_points": 364,
    "lbnn_affine": 364,
    "lbnn_affine_point": 282,
    "lbnn_avg_pool": 1350,
    "lbnn_avg_pool_2x2": 530,
    "lbnn_avg_pool_2x2_point": 478,
    "lbnn_avg_pool_correlated": 2844,
    "lbnn_avg_pool_point": 1304,
    "lbnn_concat": 350,
    "lbnn_conv2d": 8768,
    "lbnn_conv2d_1x1": 27158,
    "lbnn_conv2d_1x1_point": 23982,
    "lbnn_conv2d_1x1_rank1": 27506,
    "lbnn_conv2d_1x1_rank1_point": 23612,
    "lbnn_conv2d_3x3": 17728,
    "lbnn_conv2d_3x3_point": 14620,
    "lbnn_conv2d_3x3_rank1": 16094,
    "lbnn_conv2d_3x3_rank1_point": 13094,
    "lbnn_conv2d_patch": 29214,
    "lbnn_conv2d_patch_point": 26026,
    "lbnn_conv2d_patch_rank1": 29660,
    "lbnn_conv2d_patch_rank1_point": 25720,
    "lbnn_conv2d_point": 7998,
    "lbnn_conv2d_rank1": 10818,
    "lbnn_conv2d_rank1_point": 10006,
    "lbnn_conv2d_small": 4484,
    "lbnn_conv_transposed": 10302,
    "lbnn_conv_transposed_point": 9416,
    "lbnn_copy": 226,
    "lbnn_depthwise_3x3": 23222,
    "lbnn_depthwise_3x3_point": 15978,
    "lbnn_dropout": 228,
    "lbnn_dropout_point": 144,
    "lbnn_due": 104,
    "lbnn_elu": 7344,
    "lbnn_elu_point": 764,
    "lbnn_emit": 760,
    "lbnn_hardswish": 8498,
    "lbnn_hardswish_point": 220,
    "lbnn_is_finite": 220,
    "lbnn_is_variance": 212,
    "lbnn_largest": 126,
    "lbnn_leaky_relu": 1782,
    "lbnn_leaky_relu_clamped": 2222,
    "lbnn_leaky_relu_point": 148,
    "lbnn_lift": 26,
    "lbnn_linear": 8468,
    "lbnn_linear_point": 6118,
    "lbnn_linear_rank1": 4416,
    "lbnn_linear_rank1_point": 3642,
    "lbnn_max_pool": 5672,
    "lbnn_max_pool_2x2": 5686,
    "lbnn_max_pool_2x2_point": 770,
    "lbnn_max_pool_point": 912,
    "lbnn_multiply": 848,
    "lbnn_multiply_known": 716,
    "lbnn_multiply_point": 334,
    "lbnn_pad": 280,
    "lbnn_piecewise": 8394,
    "lbnn_piecewise_point": 378,
    "lbnn_ring_mean": 368,
    "lbnn_ring_put": 190,
    "lbnn_ring_read": 230,
    "lbnn_ring_sum": 888,
    "lbnn_ring_take": 414,
    "lbnn_shift": 656,
    "lbnn_sigmoid": 2984,
    "lbnn_smooth": 10394,
    "lbnn_smooth_point": 2128,
    "lbnn_softmax": 9558,
    "lbnn_softmax_fast": 3206,
    "lbnn_status_message": 332,
    "lbnn_tabulated": 9358,
    "lbnn_tabulated_point": 932,
    "lbnn_upsample": 514,
    "lbnn_variance_head": 786,
    "lbnn_variance_head_point": 748,
}
AVR_LIBRARY = 1254
AVR_HALF_KERNELS: dict[str, int] = {
    "lbnn_conv2d": 10764,
    "lbnn_conv2d_1x1": 31096,
    "lbnn_conv2d_1x1_point": 27730,
    "lbnn_conv2d_3x3": 19802,
    "lbnn_conv2d_3x3_point": 16988,
    "lbnn_conv2d_patch": 33282,
    "lbnn_conv2d_patch_point": 29712,
    "lbnn_conv2d_point": 9946,
    "lbnn_conv2d_small": 5966,
    "lbnn_conv_transposed": 12182,
    "lbnn_conv_transposed_point": 11368,
    "lbnn_depthwise_3x3": 26826,
    "lbnn_depthwise_3x3_point": 19430,
    "lbnn_linear": 13126,
    "lbnn_linear_point": 11486,
}
# _predict itself, or _classify; what each call in it adds, and a loop over bands.
PREDICT_CODE, CALL_CODE, BAND_CODE = 320, 96, 320
LEAST_OF_BOUND = 0.15
"""Of the bound, which no measured model falls below."""


def avr_code(kernels: Sequence[str], functions: int, bands: int, half: bool) -> int:
    """Bytes at most of functions that call these float kernels, each call named."""
    measured = AVR_KERNELS | (AVR_HALF_KERNELS if half else {})
    code = sum(measured[name] for name in set(kernels))
    return functions * PREDICT_CODE + CALL_CODE * len(kernels) + BAND_CODE * bands + code + AVR_LIBRARY
