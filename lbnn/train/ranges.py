"""Between which values the inputs lay that a model was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lbnn.base.arrays import AnyArray, Floats

KEY_OF_RANGE = "input_range"
"""Of a model file's metadata: the lowest and the highest values of each input, or of each channel."""


def range_of(x: Floats) -> list[list[float]]:
    """Lowest and highest value of each input [n, inputs], or channel [n, channels, ...], as plain data."""
    axes = (0, *range(2, x.ndim))
    return [x.min(axis=axes).tolist(), x.max(axis=axes).tolist()]


def trained_range(metadata: Mapping[str, Any], count: int) -> tuple[AnyArray, AnyArray] | None:
    """Lowest and highest values of so many inputs or channels; None if the file has none that make sense."""
    try:
        low, high = (np.array(part, dtype=np.float64) for part in metadata.get(KEY_OF_RANGE) or ())
    except (TypeError, ValueError):
        return None
    fits = low.shape == high.shape == (count,) and np.isfinite([low, high]).all() and (low <= high).all()
    return (low, high) if fits and np.abs([low, high]).max() < np.finfo(np.float32).max else None
