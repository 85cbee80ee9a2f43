"""How rounding moves products: both factors as large as their errors let them be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lbnn import ops
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32, each_part


def product_error(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """Sizes of means, variances and errors are not negative, so the formula grows with each of them."""
    formula = ops.find(node.op).formula
    sizes = [each_part(np.abs, x) for x in inputs]
    most = [_sum(size, error) for size, error in zip(sizes, errors, strict=True)]
    largest, exact = formula(NUMPY, *most), formula(NUMPY, *sizes)
    if not isinstance(out, Moments):
        return largest - exact + 2.0 * UNIT * exact + LEAST * (exact > 0.0)
    return Moments(
        largest.mean - exact.mean + 2.0 * UNIT * exact.mean + LEAST * (exact.mean > 0.0),
        largest.var - exact.var + 6.0 * UNIT * exact.var + 4.0 * LEAST * (exact.var > 0.0),
    )


def _sum(one: Signal32, other: Signal32) -> Signal32:
    if isinstance(one, Moments):
        return Moments(one.mean + other.mean, one.var + other.var)
    return one + other
