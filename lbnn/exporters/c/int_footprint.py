"""Bytes of code and of stack of the integer kernels, measured as those of lbnn/exporters/c/footprint.py are."""

from __future__ import annotations

from collections.abc import Sequence

from lbnn.exporters.c.int_forms import INTEGER_FORMS

# tools/bench/measure_kernels.py --integers prints it.
INTEGER_KERNELS: dict[str, tuple[int, int]] = {
    "lbnn_int16_conv": (1436, 536),
    "lbnn_int16_linear": (92, 176),
    "lbnn_int16_sums": (260, 56),
    "lbnn_int8_conv": (1434, 536),
    "lbnn_int8_half": (148, 40),
    "lbnn_int8_linear": (94, 176),
    "lbnn_int8_row": (96, 40),
    "lbnn_int8_sums": (518, 124),
    "lbnn_int_activate": (512, 152),
    "lbnn_int_add": (246, 56),
    "lbnn_int_affine": (396, 80),
    "lbnn_int_emit": (160, 72),
    "lbnn_int_emit_q": (70, 20),
    "lbnn_int_factored": (60, 20),
    "lbnn_int_float_of": (110, 24),
    "lbnn_int_free_row": (46, 20),
    "lbnn_int_free_sums": (246, 76),
    "lbnn_int_join": (248, 72),
    "lbnn_int_join_scale": (36, 8),
    "lbnn_int_known": (36, 16),
    "lbnn_int_largest_mean": (46, 8),
    "lbnn_int_largest_q": (124, 56),
    "lbnn_int_largest_var": (42, 12),
    "lbnn_int_level": (288, 56),
    "lbnn_int_map_add": (288, 228),
    "lbnn_int_map_affine": (240, 328),
    "lbnn_int_map_leaky": (254, 260),
    "lbnn_int_map_means": (920, 112),
    "lbnn_int_map_sigmas": (772, 96),
    "lbnn_int_match": (536, 48),
    "lbnn_int_max_pool": (710, 656),
    "lbnn_int_moments": (86, 124),
    "lbnn_int_narrow": (236, 120),
    "lbnn_int_narrowing_of": (196, 48),
    "lbnn_int_no_spread": (20, 0),
    "lbnn_int_pack_means": (204, 64),
    "lbnn_int_pack_q": (248, 112),
    "lbnn_int_pack_q_var": (332, 112),
    "lbnn_int_pack_sigmas": (276, 68),
    "lbnn_int_pad": (266, 80),
    "lbnn_int_pool": (438, 384),
    "lbnn_int_pool_window": (578, 112),
    "lbnn_int_results": (568, 128),
    "lbnn_int_roots_map": (62, 120),
    "lbnn_int_roots_of": (402, 80),
    "lbnn_int_scale_means": (288, 88),
    "lbnn_int_scale_q": (352, 80),
    "lbnn_int_scale_q_var": (248, 64),
    "lbnn_int_scale_vars": (188, 64),
    "lbnn_int_settle": (240, 224),
    "lbnn_int_shared": (226, 68),
    "lbnn_int_softplus": (348, 56),
    "lbnn_int_unfold": (134, 56),
    "lbnn_int_upsample": (194, 56),
    "lbnn_int_variance_head": (224, 112),
    "lbnn_int_widen": (130, 48),
    "lbnn_int_window": (812, 88),
}

WITHOUT = "LBNN_INT_NO_"
"""What generated C says of a part that no layer needs begins so."""

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
    "lbnn_int_moments": ("lbnn_int_free_sums", "lbnn_int_roots_of"),
    "lbnn_int_roots_map": ("lbnn_int_roots_of",),
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

LEFT_OUT = {
    "FREE": ("lbnn_int_free_sums", "lbnn_int_free_row"),
    "FACTORS": ("lbnn_int_factored",),
    "ODD_ROWS": ("lbnn_int8_row", "lbnn_int_free_row"),
}
"""Kernels that a model without a part does not call."""

OF_VARIANCES = ("lbnn_int_pack_sigmas", "lbnn_int_largest_var", "lbnn_int_scale_vars", "lbnn_int_map_sigmas")
"""Kernels that read variances of the input."""


def integer_kernels(lacks: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Bytes of code and of stack in a model that leaves parts out: those of the form that leaves out most of them.

    Without maps nothing else counts as much: kernels become parts of others.
    """
    missing = {macro.removeprefix(WITHOUT) for macro in lacks}
    fitting = [form for form in INTEGER_FORMS if missing.issuperset(form)]
    form = max(fitting, key=lambda form: ("MAPS" in form, len(form)), default=())
    return INTEGER_KERNELS | INTEGER_FORMS.get(form, {})


def unlinked(lacks: Sequence[str], variances: bool) -> set[str]:
    """Kernels that are not linked; `variances`: the input has some. Without maps a Cortex-M0 may compute by rows."""
    missing = {macro.removeprefix(WITHOUT) for macro in lacks}
    if "MAPS" in missing:
        missing.discard("ODD_ROWS")
    unused = {kernel for part in missing for kernel in LEFT_OUT.get(part, ())}
    return unused if variances else unused.union(OF_VARIANCES)
