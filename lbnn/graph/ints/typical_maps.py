"""What the windows of convolutions usually hold, as lbnn/graph/ints/typical.py has it for vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn.base.moments import Moments
from lbnn.graph.ints.maps import Windows, element_places
from lbnn.graph.ints.typical import MOST_INPUTS, Typical, is_finite, typical_of

MOST_ROWS = 4096
"""Windows that are looked at."""


def typical_windows(value: Any, window: Windows, groups: int, last: bool) -> tuple[Typical | None, ...]:
    """Of each group; `last`: the value's channels are its last axis."""
    inputs = window.channels // groups
    if inputs * window.taps > MOST_INPUTS:
        return (None,) * groups
    random = isinstance(value, Moments)
    mean, var = (_last(part, window, last) for part in (value if random else (value, np.zeros_like(value))))
    return tuple(_of_group(mean, var, element_places(window, group * inputs, inputs)) for group in range(groups))


def _last(part: Any, window: Windows, last: bool) -> Any:
    """[draws, elements] as maps are laid out, and a zero behind them."""
    rows = np.asarray(part).reshape(len(part), -1)
    if not last:
        rows = np.moveaxis(rows.reshape(len(rows), window.channels, -1), 1, -1).reshape(len(rows), -1)
    return np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)


def _of_group(mean: Any, var: Any, places: Any) -> Typical | None:
    """Always the same windows of all draws."""
    step = max(1, len(mean) * len(places) // MOST_ROWS)
    chosen = np.arange(0, len(mean) * len(places), step)
    draw, pixel = chosen // len(places), chosen % len(places)
    at = places[pixel]
    found = typical_of(mean[draw[:, None], at], var[draw[:, None], at])
    return found if is_finite(found) else None
