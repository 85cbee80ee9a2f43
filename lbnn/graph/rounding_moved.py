"""What float32 may lose in pools of elements that rise and fall together, and in dropout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32, growth, mean_part


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


def dropped(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]) -> Moments[Array]:
    """The mean stays; its error counts in the noise that multiplies it."""
    p, mean, error = node.attrs["p"], np.abs(mean_part(inputs[0])), mean_part(errors[0])
    var = (2.0 * mean + error) * error * (p / (1.0 - p)) + 6.0 * UNIT * out.var + 3.0 * LEAST * (out.var > 0)
    if isinstance(errors[0], Moments):
        var = var + errors[0].var / (1.0 - p)
    return Moments(error, var)
