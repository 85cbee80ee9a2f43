"""What is known of sums of products and of quotients before any node is written for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.exporters.onnx.symbols import Symbol

Term = tuple[Symbol, Array]
TINY = 1e-30
"""Far below the square root of the smallest float32: keeps 0/0 from arising and changes no other quotient."""


def live_terms(terms: Sequence[Term]) -> list[Term]:
    """The terms that are not zero times something; the first if all are."""
    return [term for term in terms if term[0].factor != 0.0] or [terms[0]]


def lowest_sum(terms: Sequence[Term], bias: Any) -> float:
    """A lower bound of bias + sum of x * weight: known where no input and no weight is negative."""
    known = all(x.low >= 0.0 and np.all(weight >= 0.0) for x, weight in terms)
    return float(np.min(bias)) if known else -np.inf
