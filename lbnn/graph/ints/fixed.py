"""Steps of integer arithmetic as the C kernels do them: int64 arrays whose every number is shown to fit int32."""

from __future__ import annotations

from typing import Any

import numpy as np

Whole = np.ndarray[Any, np.dtype[np.int64]]

NONE = -(1 << 20)
"""The exponent of a tensor of zeros: below every other, so that it never decides a common one."""

SHIFT = 31
"""The longest shift: whatever is moved further right is gone."""


def held(x: Any) -> Whole:
    """x, which int32 holds."""
    whole: Whole = np.asarray(x, np.int64)
    assert np.all((whole >= -(2**31)) & (whole < 2**31)), "an integer leaves int32"
    return whole


def fits_unsigned(x: Any) -> Whole:
    """x, which uint32 holds."""
    whole: Whole = np.asarray(x, np.int64)
    assert np.all((whole >= 0) & (whole < 2**32)), "an integer leaves uint32"
    return whole


def down(x: Any, k: Any) -> Whole:
    """x / 2^k rounded down, as an arithmetic shift does."""
    return held(x) >> _distance(k)


def up(x: Any, k: Any) -> Whole:
    """x / 2^k rounded up, for x >= 0: zero stays zero, and nothing else becomes zero."""
    return ((held(x) - 1) >> _distance(k)) + 1


def near(x: Any, k: Any) -> Whole:
    """x / 2^k rounded to nearest, for k >= 1."""
    return ((held(x) >> _distance(np.asarray(k) - 1)) + 1) >> 1


def scale(x: Any, m: Any) -> Whole:
    """x m / 2^16 rounded down, for m < 2^16: the halves of x apart, so that 32 bits are enough."""
    x = held(x)
    return held((x >> 16) * m + (fits_unsigned((x & 0xFFFF) * m) >> 16))


def scale_up(x: Any, m: Any) -> Whole:
    """x m / 2^16 rounded up, for x >= 0."""
    x = held(x)
    return held((x >> 16) * m + (fits_unsigned((x & 0xFFFF) * m + 0xFFFF) >> 16))


def bits(x: Any) -> Whole:
    """How many bits x >= 0 has."""
    length: Whole = np.frexp(np.asarray(x, np.float64))[1].astype(np.int64)
    return length


def apart(top: Any, exponent: Any) -> Whole:
    """How far a part moves right to stand at the common exponent `top`."""
    distance: Whole = np.minimum(np.asarray(top) - np.asarray(exponent), SHIFT)
    return distance


def size(x: Any) -> Whole:
    """|x|, or |x| - 1 for x < 0, which shares its bits: what C makes without a branch."""
    whole = held(x)
    found: Whole = whole ^ (whole >> 63)
    return found


def _distance(k: Any) -> Whole:
    distance: Whole = np.asarray(k, np.int64)
    assert np.all((distance >= 0) & (distance <= SHIFT)), "a shift that C does not define"
    return distance
