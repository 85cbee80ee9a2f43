"""Bytes of code and of stack of the integer kernels, measured as those of lbnn/exporters/c/footprint.py are."""

from __future__ import annotations

# tools/bench/measure_kernels.py --integers prints it.
INTEGER_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_int16_conv": (1454, 536),
    "lbnn_int16_linear": (92, 176),
    "lbnn_int16_sums": (260, 56),
    "lbnn_int8_conv": (1468, 536),
    "lbnn_int8_half": (148, 40),
    "lbnn_int8_linear": (92, 184),
    "lbnn_int8_row": (132, 48),
    "lbnn_int8_sums": (514, 136),
    "lbnn_int_activate": (508, 152),
    "lbnn_int_add": (260, 56),
    "lbnn_int_affine": (388, 80),
    "lbnn_int_emit": (196, 72),
    "lbnn_int_emit_q": (70, 20),
    "lbnn_int_factored": (60, 20),
    "lbnn_int_float_of": (150, 24),
    "lbnn_int_free_row": (40, 20),
    "lbnn_int_free_sums": (244, 80),
    "lbnn_int_join": (248, 72),
    "lbnn_int_join_scale": (36, 8),
    "lbnn_int_largest_mean": (46, 8),
    "lbnn_int_largest_q": (124, 56),
    "lbnn_int_largest_var": (42, 12),
    "lbnn_int_level": (292, 64),
    "lbnn_int_map_add": (288, 228),
    "lbnn_int_map_affine": (240, 328),
    "lbnn_int_map_leaky": (254, 260),
    "lbnn_int_map_means": (920, 112),
    "lbnn_int_map_sigmas": (772, 96),
    "lbnn_int_match": (536, 48),
    "lbnn_int_max_pool": (718, 656),
    "lbnn_int_moments": (416, 152),
    "lbnn_int_narrow": (228, 120),
    "lbnn_int_narrowing_of": (196, 48),
    "lbnn_int_no_spread": (20, 0),
    "lbnn_int_pack_means": (224, 64),
    "lbnn_int_pack_q": (256, 112),
    "lbnn_int_pack_q_var": (332, 112),
    "lbnn_int_pack_sigmas": (276, 68),
    "lbnn_int_pool": (438, 384),
    "lbnn_int_pool_window": (578, 112),
    "lbnn_int_results": (596, 128),
    "lbnn_int_roots_map": (480, 80),
    "lbnn_int_scale_means": (288, 88),
    "lbnn_int_scale_q": (352, 80),
    "lbnn_int_scale_q_var": (248, 64),
    "lbnn_int_scale_vars": (188, 64),
    "lbnn_int_settle": (240, 224),
    "lbnn_int_shared": (238, 68),
    "lbnn_int_softplus": (348, 56),
    "lbnn_int_unfold": (134, 56),
    "lbnn_int_upsample": (194, 56),
    "lbnn_int_variance_head": (224, 112),
    "lbnn_int_widen": (130, 48),
    "lbnn_int_window": (812, 88),
}

INTEGER_CHECKS = ("lbnn_int_largest_mean", "lbnn_int_emit", "lbnn_int_float_of")
"""What every prediction calls."""

INTEGER_INLINED = ("lbnn_int_pack", "lbnn_int_standardize", "lbnn_int_pack_map")
"""Calls of generated code that are made of others."""

_PACK = ("lbnn_int_pack_means", "lbnn_int_pack_sigmas", "lbnn_int_largest_var")
_PIXELS = ("lbnn_int_settle", "lbnn_int_narrow", "lbnn_int_activate", "lbnn_int_level")
_SUMS8, _SUMS16 = ("lbnn_int8_sums", "lbnn_int8_row", "lbnn_int8_half"), ("lbnn_int16_sums",)
_WINDOWS = ("lbnn_int_window", "lbnn_int_factored", "lbnn_int_free_sums", "lbnn_int_results", "lbnn_int_pool_window")
INTEGER_CALLEES = {
    "lbnn_int_narrow": ("lbnn_int_narrowing_of",),
    "lbnn_int_activate": ("lbnn_int_narrowing_of",),
    "lbnn_int8_linear": ("lbnn_int_results", *_SUMS8),
    "lbnn_int16_linear": ("lbnn_int_results", *_SUMS16),
    "lbnn_int_shared": ("lbnn_int_factored",),
    "lbnn_int_free_sums": ("lbnn_int_free_row",),
    "lbnn_int_moments": ("lbnn_int_free_sums",),
    "lbnn_int_variance_head": ("lbnn_int_softplus",),
    "lbnn_int_pack": _PACK,
    "lbnn_int_standardize": ("lbnn_int_scale_means", "lbnn_int_scale_vars", *_PACK),
    "lbnn_int_pack_map": ("lbnn_int_map_means", "lbnn_int_map_sigmas"),
    "lbnn_int8_conv": (*_SUMS8, *_WINDOWS, *_PIXELS),
    "lbnn_int16_conv": (*_SUMS16, *_WINDOWS, *_PIXELS),
    "lbnn_int_pool": ("lbnn_int_pool_window", *_PIXELS),
    "lbnn_int_max_pool": ("lbnn_int_match", *_PIXELS),
    "lbnn_int_map_leaky": ("lbnn_int_widen", "lbnn_int_activate", "lbnn_int_level"),
    "lbnn_int_map_add": ("lbnn_int_add", "lbnn_int_narrow", "lbnn_int_level"),
    "lbnn_int_map_affine": ("lbnn_int_affine", *_PIXELS),
}
"""Kernels that others call."""

ROOT_BYTES, SOFT_BYTES, MATCH_BYTES = 194, 132, 390
"""Tables of c_runtime/lbnn_int.h, lbnn_int_more.h and lbnn_int_maxpool.h."""
