"""Bytes of code and of stack of the integer kernels, measured as those of lbnn/exporters/c/footprint.py are."""

from __future__ import annotations

# tools/bench/measure_kernels.py --integers prints it.
INTEGER_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_int16_linear": (366, 192),
    "lbnn_int8_half": (170, 48),
    "lbnn_int8_linear": (422, 192),
    "lbnn_int8_row": (132, 48),
    "lbnn_int_add": (260, 56),
    "lbnn_int_affine": (364, 72),
    "lbnn_int_emit": (196, 72),
    "lbnn_int_emit_q": (70, 20),
    "lbnn_int_float_of": (150, 24),
    "lbnn_int_free_sums": (210, 56),
    "lbnn_int_join": (248, 72),
    "lbnn_int_join_scale": (36, 8),
    "lbnn_int_largest_mean": (46, 8),
    "lbnn_int_largest_q": (124, 56),
    "lbnn_int_largest_var": (42, 12),
    "lbnn_int_moments": (422, 104),
    "lbnn_int_narrow": (632, 72),
    "lbnn_int_no_spread": (16, 0),
    "lbnn_int_pack_means": (224, 64),
    "lbnn_int_pack_q": (256, 112),
    "lbnn_int_pack_q_var": (328, 112),
    "lbnn_int_pack_sigmas": (284, 76),
    "lbnn_int_results": (516, 96),
    "lbnn_int_scale_means": (288, 88),
    "lbnn_int_scale_q": (352, 80),
    "lbnn_int_scale_q_var": (248, 64),
    "lbnn_int_scale_vars": (188, 64),
    "lbnn_int_shared": (260, 56),
    "lbnn_int_softplus": (360, 48),
    "lbnn_int_variance_head": (224, 104),
    "lbnn_int_widen": (130, 48),
}

INTEGER_CHECKS = ("lbnn_int_largest_mean", "lbnn_int_emit", "lbnn_int_float_of")
"""What every prediction calls."""

INTEGER_INLINED = ("lbnn_int_pack", "lbnn_int_standardize")
"""Calls of generated code that are made of others."""

_PACK = ("lbnn_int_pack_means", "lbnn_int_pack_sigmas", "lbnn_int_largest_var")
INTEGER_CALLEES = {
    "lbnn_int8_linear": ("lbnn_int_results", "lbnn_int8_row", "lbnn_int8_half"),
    "lbnn_int16_linear": ("lbnn_int_results",),
    "lbnn_int_moments": ("lbnn_int_free_sums",),
    "lbnn_int_variance_head": ("lbnn_int_softplus",),
    "lbnn_int_pack": _PACK,
    "lbnn_int_standardize": ("lbnn_int_scale_means", "lbnn_int_scale_vars", *_PACK),
}
"""Kernels that others call."""

ROOT_BYTES, SOFT_BYTES = 194, 132
"""Tables of c_runtime/lbnn_int.h and lbnn_int_more.h."""
