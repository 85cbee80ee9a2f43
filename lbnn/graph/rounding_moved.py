"""What float32 may lose in operators that pool or copy elements which rise and fall together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32, growth


def pooled_together(
    node: Node, inputs: Sequence[Moments[Array]], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """Errors of neighbours add up; a root near 0 falls further than it rises."""
    (x,), (error,), form = inputs, errors, ops.find("avg_pool_correlated").formula
    factor = growth(prod(node.attrs["kernel_size"]))
    sizes = form(NUMPY, Moments(np.abs(x.mean), x.var), **node.attrs)
    above = form(NUMPY, Moments(error.mean, x.var + error.var), **node.attrs)
    below = form(NUMPY, Moments(error.mean, np.maximum(x.var - error.var, 0.0)), **node.attrs)
    mean = above.mean + UNIT * (1.0 + factor) * sizes.mean + 2.0 * LEAST * (sizes.mean > 0)
    inherited = np.maximum(above.var - out.var, out.var - below.var)
    return Moments(mean, inherited + UNIT * (6.0 + 2.0 * factor) * above.var + 2.0 * LEAST * (out.var > 0))
