"""Bytes of code and of stack of the integer kernels, measured as those of lbnn/exporters/c/footprint.py are."""

from __future__ import annotations

# tools/bench/measure_kernels.py --integers prints it.
INTEGER_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_int16_conv": (1692, 480),
    "lbnn_int16_linear": (366, 192),
    "lbnn_int16_sums": (276, 64),
    "lbnn_int8_conv": (1692, 480),
    "lbnn_int8_half": (148, 40),
    "lbnn_int8_linear": (422, 208),
    "lbnn_int8_row": (132, 48),
    "lbnn_int8_sums": (370, 144),
    "lbnn_int_add": (260, 56),
    "lbnn_int_affine": (364, 72),
    "lbnn_int_emit": (196, 72),
    "lbnn_int_emit_q": (70, 20),
    "lbnn_int_float_of": (150, 24),
    "lbnn_int_free_rows": (234, 64),
    "lbnn_int_free_sums": (210, 56),
    "lbnn_int_join": (248, 72),
    "lbnn_int_join_scale": (36, 8),
    "lbnn_int_largest_mean": (46, 8),
    "lbnn_int_largest_q": (124, 56),
    "lbnn_int_largest_var": (42, 12),
    "lbnn_int_level": (292, 64),
    "lbnn_int_map_add": (292, 192),
    "lbnn_int_map_affine": (244, 256),
    "lbnn_int_map_leaky": (254, 192),
    "lbnn_int_map_means": (908, 112),
    "lbnn_int_map_sigmas": (784, 96),
    "lbnn_int_moments": (434, 112),
    "lbnn_int_narrow": (632, 72),
    "lbnn_int_no_spread": (16, 0),
    "lbnn_int_pack_means": (224, 64),
    "lbnn_int_pack_q": (256, 112),
    "lbnn_int_pack_q_var": (344, 112),
    "lbnn_int_pack_sigmas": (280, 68),
    "lbnn_int_pool": (524, 312),
    "lbnn_int_pool_window": (668, 104),
    "lbnn_int_results": (516, 96),
    "lbnn_int_roots_map": (472, 80),
    "lbnn_int_scale_means": (288, 88),
    "lbnn_int_scale_q": (352, 80),
    "lbnn_int_scale_q_var": (248, 64),
    "lbnn_int_scale_vars": (188, 64),
    "lbnn_int_settle": (200, 136),
    "lbnn_int_shared": (260, 56),
    "lbnn_int_softplus": (348, 56),
    "lbnn_int_unfold": (134, 56),
    "lbnn_int_variance_head": (224, 112),
    "lbnn_int_widen": (130, 48),
    "lbnn_int_window": (904, 96),
    "lbnn_int_window_shared": (150, 36),
}

INTEGER_CHECKS = ("lbnn_int_largest_mean", "lbnn_int_emit", "lbnn_int_float_of")
"""What every prediction calls."""

INTEGER_INLINED = ("lbnn_int_pack", "lbnn_int_standardize", "lbnn_int_pack_map")
"""Calls of generated code that are made of others."""

_PACK = ("lbnn_int_pack_means", "lbnn_int_pack_sigmas", "lbnn_int_largest_var")
_PIXELS = ("lbnn_int_settle", "lbnn_int_narrow", "lbnn_int_level")
_WINDOWS = (
    "lbnn_int_window",
    "lbnn_int_window_shared",
    "lbnn_int_free_rows",
    "lbnn_int_results",
    "lbnn_int_pool_window",
)
INTEGER_CALLEES = {
    "lbnn_int8_linear": ("lbnn_int_results", "lbnn_int8_row", "lbnn_int8_half"),
    "lbnn_int16_linear": ("lbnn_int_results",),
    "lbnn_int_moments": ("lbnn_int_free_sums",),
    "lbnn_int_variance_head": ("lbnn_int_softplus",),
    "lbnn_int_pack": _PACK,
    "lbnn_int_standardize": ("lbnn_int_scale_means", "lbnn_int_scale_vars", *_PACK),
    "lbnn_int_pack_map": ("lbnn_int_map_means", "lbnn_int_map_sigmas"),
    "lbnn_int8_conv": ("lbnn_int8_sums", "lbnn_int8_row", "lbnn_int8_half", *_WINDOWS, *_PIXELS),
    "lbnn_int16_conv": ("lbnn_int16_sums", *_WINDOWS, *_PIXELS),
    "lbnn_int_pool": ("lbnn_int_pool_window", *_PIXELS),
    "lbnn_int_map_leaky": ("lbnn_int_widen", "lbnn_int_narrow", "lbnn_int_level"),
    "lbnn_int_map_add": ("lbnn_int_add", "lbnn_int_narrow", "lbnn_int_level"),
    "lbnn_int_map_affine": ("lbnn_int_affine", *_PIXELS),
}
"""Kernels that others call."""

ROOT_BYTES, SOFT_BYTES = 194, 132
"""Tables of c_runtime/lbnn_int.h and lbnn_int_more.h."""
