"""Where integers meet floats, in numpy: bit patterns of float32 to mantissas and back, exactly as C does it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn.graph.ints.fixed import NONE, SHIFT, Whole, apart, bits, down, held, near, scale, scale_up, up
from lbnn.graph.ints.kernels import root
from lbnn.graph.ints.values import Narrow, Wide

HIDDEN, MAGNITUDE, LARGEST, INFINITE = 1 << 23, 0x7FFFFFFF, 0x7F7FFFFF, 0x7F800000
BIAS = 150
"""A float32 is mantissa 2^(field - 150), its mantissa an integer of 24 bits."""


def float_bits(x: Any) -> Whole:
    """Bit patterns of float32."""
    return np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.int64)


def from_bits(x: Whole) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The floats that bit patterns stand for."""
    return x.astype(np.uint32).view(np.float32)


def unpack(pattern: Whole) -> tuple[Whole, Whole]:
    """(mantissa, field) of |x|; a denormal has the field 1 and no hidden bit."""
    size = pattern & MAGNITUDE
    return np.where(size >= HIDDEN, (size & (HIDDEN - 1)) | HIDDEN, size), np.maximum(size >> 23, 1)


def to_bits(x: Whole, exponent: Any, upwards: bool) -> Whole:
    """x 2^exponent as a bit pattern, rounded to nearest or upwards; beyond float it is that of an infinity."""
    size = np.abs(held(x))
    length = bits(size)
    field = np.broadcast_to(np.asarray(exponent) + length + 126, x.shape)
    drop = np.minimum(np.maximum(length - 24, 0) + np.clip(1 - field, 0, SHIFT), SHIFT)
    whole = size << np.maximum(24 - length, 0)
    moved = up(whole, drop) if upwards else np.where(drop > 0, near(whole, np.maximum(drop, 1)), whole)
    pattern = np.where(field >= 255, INFINITE, np.minimum((np.maximum(field, 1) - 1) * HIDDEN + moved, INFINITE))
    sign: Whole = np.where(x < 0, 1 << 31, 0).astype(np.int64)
    found: Whole = np.where(size == 0, 0, pattern).astype(np.int64) | sign
    return found


def pack_input(mean: Whole, var: Whole | None, mean_bits: int, sigma_bits: int) -> Narrow:
    """Bit patterns [n, elements] of means, and of variances where there are any, as mantissas."""
    e, exponent = packed_means(mean, mean_bits)
    if var is None:
        return Narrow(e, exponent, np.zeros_like(e), np.full(len(e), NONE))
    return Narrow(e, exponent, *packed_sigmas(var, sigma_bits))


def packed_means(pattern: Whole, mean_bits: int) -> tuple[Whole, Whole]:
    """Mantissas rounded to nearest, the largest with all bits."""
    mantissa, field = unpack(pattern)
    top = field.max(axis=1)
    drop = 24 - mean_bits + top[:, None] - field
    e = np.minimum(near(mantissa, np.minimum(drop, SHIFT)), (1 << mean_bits) - 1)
    some = (pattern & MAGNITUDE).max(axis=1) > 0
    return np.where(pattern >> 31, -e, e), np.where(some, top - BIAS + 24 - mean_bits, NONE)


def packed_sigmas(pattern: Whole, sigma_bits: int) -> tuple[Whole, Whole]:
    """Square roots, rounded up."""
    mantissa, field = unpack(pattern)
    top = field.max(axis=1)
    _, sigma, h = root(np.maximum(mantissa, 1) << (6 - (field & 1)))
    distance = np.minimum(((top[:, None] + 1) >> 1) - ((field + 1) >> 1) + h, SHIFT)
    s = np.where(mantissa > 0, up(up(sigma, 15 - sigma_bits), distance), 0)
    some = mantissa.max(axis=1) > 0
    return s, np.where(some, ((top + 1) >> 1) - 78 + 15 - sigma_bits, NONE)


def affine_bits(pattern: Whole, shift: Whole, factor: Whole) -> Whole:
    """(x + t) s of bit patterns; t and s are bit patterns too."""
    parts = [(_signed(each), unpack(each)[1]) for each in (pattern, shift)]
    top = np.maximum(parts[0][1], parts[1][1])
    total = sum(down(mantissa * 64, apart(top, field)) for mantissa, field in parts)
    mantissa, field = unpack(factor)
    product = scale(total, mantissa >> 8)
    return _finite(to_bits(np.where(factor >> 31, -product, product), top + field + 18 - 2 * BIAS, upwards=False))


def affine_variance_bits(pattern: Whole, factor: Whole) -> Whole:
    """s^2 V of bit patterns."""
    mantissa, field = unpack(pattern)
    own, other = unpack(factor)
    product = scale_up(scale_up(mantissa * 64, own >> 8), own >> 8)
    return _finite(to_bits(product, field + 2 * other + 42 - 3 * BIAS, upwards=True))


def _finite(pattern: Whole) -> Whole:
    found: Whole = (pattern & (1 << 31)) | np.minimum(pattern & MAGNITUDE, LARGEST)
    return found


def _signed(pattern: Whole) -> Whole:
    mantissa, _ = unpack(pattern)
    return np.where(pattern >> 31, -mantissa, mantissa)


def emit(x: Wide, units: Whole) -> tuple[Whole, Whole, Any]:
    """Bit patterns of means and variances, and which samples have one beyond float: the largest float stands there."""
    mean = to_bits(x.mean, x.mean_exponent[:, None] + units, upwards=False)
    var = to_bits(x.var, x.var_exponent[:, None] + 2 * units, upwards=True)
    beyond = (mean & MAGNITUDE > LARGEST) | (var > LARGEST)
    finite = (mean & (1 << 31)) | np.minimum(mean & MAGNITUDE, LARGEST)
    return finite, np.where(beyond, LARGEST, var), beyond.any(axis=1)
