"""Bytes of code and of stack of the integer kernels, measured as those of lbnn/exporters/c/footprint.py are."""

from __future__ import annotations

INTEGER_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_int16_linear": (346, 192),
    "lbnn_int8_linear": (786, 200),
    "lbnn_int_add": (446, 64),
    "lbnn_int_affine": (392, 72),
    "lbnn_int_emit": (264, 88),
    "lbnn_int_emit_q": (122, 48),
    "lbnn_int_float_of": (170, 24),
    "lbnn_int_is_input": (194, 64),
    "lbnn_int_join": (300, 64),
    "lbnn_int_join_scale": (42, 8),
    "lbnn_int_moments": (628, 56),
    "lbnn_int_narrow": (788, 88),
    "lbnn_int_no_spread": (18, 0),
    "lbnn_int_pack": (776, 96),
    "lbnn_int_results": (652, 104),
    "lbnn_int_shared": (408, 80),
    "lbnn_int_softplus": (420, 56),
    "lbnn_int_standardize": (636, 232),
    "lbnn_int_variance_head": (270, 120),
    "lbnn_int_widen": (178, 48),
}

INTEGER_CHECKS = ("lbnn_int_is_input", "lbnn_int_emit", "lbnn_int_float_of")
"""What every prediction calls."""

INTEGER_CALLEES = {
    "lbnn_int8_linear": ("lbnn_int_results",),
    "lbnn_int16_linear": ("lbnn_int_results",),
    "lbnn_int_variance_head": ("lbnn_int_softplus",),
    "lbnn_int_standardize": ("lbnn_int_pack",),
}
"""Kernels that others call."""

ROOT_BYTES, SOFT_BYTES = 194, 132
"""Tables of c_runtime/lbnn_int.h and lbnn_int_more.h."""
