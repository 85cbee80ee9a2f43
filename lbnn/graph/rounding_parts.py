"""What the rules of rounding share: the unit, errors of values and of moments, how sums grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node

UNIT = 2.0**-24
"""The largest relative error of rounding to float32."""

LEAST = 2.0**-149
"""The smallest float32: below 1.2e-38 errors are absolute."""

Signal32 = Any
"""A batch of known values, or Moments of them; errors have the same form."""

ErrorRule = Callable[[Node, Sequence[Signal32], Sequence[Signal32], Signal32], Signal32]
"""(node, inputs, their errors, result) -> the error of the result."""


def each_part(function: Callable[[Any], Any], value: Signal32) -> Signal32:
    """The function of a known value, or of mean and variance."""
    return Moments(*map(function, value)) if isinstance(value, Moments) else function(value)


def mean_part(value: Signal32) -> Array:
    """The mean, or the known value itself."""
    mean: Array = value.mean if isinstance(value, Moments) else value
    return mean


def both_errors(one: Moments[Array], other: Moments[Array]) -> Moments[Array]:
    """Errors that add up in the worst case."""
    return Moments(one.mean + other.mean, one.var + other.var)


def growth(count: int) -> float:
    """Of a sum's rounding, over u times the sizes of its terms, with their number."""
    return 2.0 + 0.5 * float(np.log2(count))
