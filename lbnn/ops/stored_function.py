"""Owns what a stored function is: values and slopes at even places, cubics between them and lines beyond, and the
numbers that its moments are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.errors import LbnnError
from lbnn.ops.attributes import Attribute, number
from lbnn.ops.pieces import to_float32

FEWEST_CELLS, MOST_CELLS = 8, 1024
MOST_STORED = 1e6
"""Of places, values and slopes."""
BLUR = 0.6
"""The standard deviation, in cells, over which the function is averaged around each knot."""
KNOT_MARGIN = 5
"""Knots beyond either end of the table: no average reaches back from there, and few Gaussians from the table."""


@dataclass(frozen=True)
class StoredFunction:
    """F on `count` cells of width `step` from `start` on; everything else is in cells: places, slopes, widths.

    `cells` has the four coefficients of each cubic, `ends` slope and value at both ends. `knots` are the places of the
    averages `level` of F over a Gaussian of width BLUR; `rows` are ones, and the slope and the variance of F over it.
    """

    start: float
    step: float
    count: int
    ends: tuple[tuple[float, float], tuple[float, float]]
    knots: tuple[float, ...]
    level: tuple[float, ...]
    cells: Array
    rows: Array


def stored_function(start: float, step: float, values: tuple[float, ...], slopes: tuple[float, ...]) -> StoredFunction:
    """The function with these values and slopes at start, start + step, ...: a constant for torch's compiler."""
    return _stored(start, step, values, slopes)


# What torch.compiler.assume_constant_result does, without loading the compiler when lbnn is imported.
stored_function._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def _stored(start: float, step: float, values: tuple[float, ...], slopes: tuple[float, ...]) -> StoredFunction:
    check_table(values, slopes)
    height, slope = np.array(values), np.array(slopes) * step
    rise, begin, end = np.diff(height), slope[:-1], slope[1:]
    cells = np.stack([height[:-1], begin, 3.0 * rise - 2.0 * begin - end, begin + end - 2.0 * rise], axis=1)
    knots = np.arange(-KNOT_MARGIN, len(cells) + KNOT_MARGIN + 1, dtype=np.float64)
    level, *rows = _averages(cells, knots)
    ends = (float(slope[0]), values[0]), (float(slope[-1]), values[-1])
    stacked = np.stack([np.ones_like(knots), *rows])
    return StoredFunction(start, step, len(cells), ends, tuple(knots.tolist()), tuple(level.tolist()), cells, stacked)


def _averages(cells: Array, knots: Array) -> tuple[Array, Array, Array]:
    """Mean of F, mean of its slope and variance of F around each knot, by Gauss's rule in every cell within 7 BLUR."""
    nodes, weights = np.polynomial.legendre.leggauss(10)
    apart = np.arange(-5, 5)[:, None] + 0.5 * (nodes + 1.0)
    mass = (0.5 * weights * np.exp(-0.5 * (apart / BLUR) ** 2)).ravel()
    mass = mass / mass.sum()
    value, slope = plain_function(cells, knots[:, None] + apart.ravel())
    level = value @ mass
    return level, slope @ mass, (value - level[:, None]) ** 2 @ mass


def plain_function(cells: Array, x: Array) -> tuple[Array, Array]:
    """F and its slope at places in cells."""
    inside = np.clip(x, 0.0, len(cells))
    cell = np.minimum(np.floor(inside), len(cells) - 1)
    t, (a, b, c, d) = inside - cell, np.moveaxis(cells[cell.astype(int)], -1, 0)
    slope = b + t * (2.0 * c + 3.0 * t * d)
    return a + t * (b + t * (c + t * d)) + slope * (x - inside), slope


def check_table(values: Sequence[float], slopes: Sequence[float]) -> None:
    """Refuses a table whose numbers do not belong together."""
    if len(values) != len(slopes):
        raise LbnnError(f"a table has a slope for each value, got {len(values)} values and {len(slopes)} slopes")


def _numbers(key: str, value: Any) -> tuple[float, ...]:
    if type(value) is not list or not FEWEST_CELLS < len(value) <= MOST_CELLS + 1:
        raise LbnnError(f"{key} must be a list of {FEWEST_CELLS + 1} to {MOST_CELLS + 1} numbers")
    read = number(-MOST_STORED, MOST_STORED)
    return tuple(to_float32(read(key, item)) for item in value)


def _float32(low: float, high: float) -> Attribute:
    read = number(low, high)
    return lambda key, value: to_float32(read(key, value))


TABLE_ATTRIBUTES: dict[str, Attribute] = {
    "start": _float32(-MOST_STORED, MOST_STORED),
    "step": _float32(1e-6, MOST_STORED),
    "values": _numbers,
    "slopes": _numbers,
}
"""As a file has them: float32 numbers, so that every backend has the same function."""


def make_table(start: float, step: float, values: list[float], slopes: list[float]) -> dict[str, Any]:
    """The attributes of a table, read as those of a file."""
    given = {"start": start, "step": step, "values": values, "slopes": slopes}
    if not all(map(math.isfinite, [start, step, *values, *slopes])):
        raise LbnnError("a table has finite numbers only")
    return {key: read(key, given[key]) for key, read in TABLE_ATTRIBUTES.items()}
