"""Bytes of code and of stack of the integer kernels, measured as those of lbnn/exporters/c/footprint.py are."""

from __future__ import annotations

INTEGER_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_int16_conv": (1576, 448),
    "lbnn_int16_linear": (92, 144),
    "lbnn_int16_sums": (300, 64),
    "lbnn_int8_conv": (1576, 448),
    "lbnn_int8_linear": (92, 144),
    "lbnn_int8_sums": (688, 88),
    "lbnn_int_add": (446, 64),
    "lbnn_int_affine": (392, 72),
    "lbnn_int_emit": (268, 88),
    "lbnn_int_emit_q": (122, 48),
    "lbnn_int_float_of": (170, 24),
    "lbnn_int_free_rows": (118, 36),
    "lbnn_int_is_input": (182, 56),
    "lbnn_int_join": (300, 64),
    "lbnn_int_join_scale": (42, 8),
    "lbnn_int_level": (580, 72),
    "lbnn_int_map_add": (320, 224),
    "lbnn_int_map_affine": (328, 296),
    "lbnn_int_map_leaky": (272, 224),
    "lbnn_int_moments": (628, 56),
    "lbnn_int_narrow": (788, 88),
    "lbnn_int_no_spread": (18, 0),
    "lbnn_int_pack": (724, 88),
    "lbnn_int_pack_map": (1784, 144),
    "lbnn_int_pool": (624, 376),
    "lbnn_int_pool_window": (592, 96),
    "lbnn_int_results": (652, 104),
    "lbnn_int_roots_map": (492, 88),
    "lbnn_int_settle": (344, 176),
    "lbnn_int_shared": (408, 80),
    "lbnn_int_softplus": (420, 56),
    "lbnn_int_standardize": (580, 216),
    "lbnn_int_unfold": (186, 56),
    "lbnn_int_variance_head": (270, 120),
    "lbnn_int_widen": (178, 48),
    "lbnn_int_window": (388, 72),
}

INTEGER_CHECKS = ("lbnn_int_is_input", "lbnn_int_emit", "lbnn_int_float_of")
"""What every prediction calls."""

_PIXELS = ("lbnn_int_settle", "lbnn_int_narrow", "lbnn_int_level")
_CONV = (*_PIXELS, "lbnn_int_window", "lbnn_int_free_rows", "lbnn_int_results", "lbnn_int_pool_window")

INTEGER_CALLEES = {
    "lbnn_int8_linear": ("lbnn_int8_sums", "lbnn_int_results"),
    "lbnn_int16_linear": ("lbnn_int16_sums", "lbnn_int_results"),
    "lbnn_int_variance_head": ("lbnn_int_softplus",),
    "lbnn_int_standardize": ("lbnn_int_pack",),
    "lbnn_int8_conv": ("lbnn_int8_sums", *_CONV),
    "lbnn_int16_conv": ("lbnn_int16_sums", *_CONV),
    "lbnn_int_pool": ("lbnn_int_pool_window", *_PIXELS),
    "lbnn_int_map_leaky": ("lbnn_int_widen", "lbnn_int_narrow", "lbnn_int_level"),
    "lbnn_int_map_add": ("lbnn_int_add", "lbnn_int_narrow", "lbnn_int_level"),
    "lbnn_int_map_affine": ("lbnn_int_affine", *_PIXELS),
}
"""Kernels that others call."""

ROOT_BYTES, SOFT_BYTES = 194, 132
"""Tables of c_runtime/lbnn_int.h and lbnn_int_more.h."""
