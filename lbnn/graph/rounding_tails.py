"""How rounding moves the moments of activations: the error of the normal tail, and the terms it stands in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_parts import LEAST, UNIT, Signal32, both_errors
from lbnn.ops.tail import numpy_tail_moments

TAIL_FITTED, TAIL_ENDS = 8.5, 12.0
"""Up to where all backends fit the normal tail, and where the C kernels cut it off."""

ABOVE_ENDS, BELOW_ENDS, FLAT = 5.0, 6.0, 0.01
"""Where C kernels without vector registers cut it off at a kink: on the side of the slope 1, and on the other if that
is not flatter than `FLAT` (lbnn_activation.h)."""


def tail_error(x: Array) -> Array:
    """The relative error of Q, I1 and J2 at x = |E| / sigma in float32, as the slackest backend has it.

    The fits are off by 7 u and more where x grows; the root and the quotient in x cost 2 u each time x^2, as in
    e^(-x^2/2). Beyond 8.5 the quadrature of ONNX falls behind, to 3e-3 at 12.
    """
    near = UNIT * (10.0 + 3.5 * np.minimum(x, TAIL_FITTED) ** 2)
    beyond = 10.0 ** (0.65 * np.clip(x - TAIL_FITTED, 0.0, TAIL_ENDS - TAIL_FITTED))
    return np.where(x > TAIL_ENDS, 1.0, near * beyond)


def leaky_relu_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """Mean and variance grow with both E and V: the ends of the intervals are the extremes."""
    (x,), (error,), slope = inputs, errors, node.attrs["negative_slope"]
    ends = [Moments(x.mean + s * error.mean, np.maximum(x.var + s * error.var, 0.0)) for s in (1.0, -1.0)]
    return both_errors(furthest(node, ends, out), kink_rounding(x, slope, np.where(x.mean < 0, slope, 1.0), out))


def absolute_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """As a leaky-ReLU of the slope -1, of |E|: it is even."""
    (x,), (error,) = inputs, errors
    size = np.abs(x.mean)
    ends = [
        Moments(np.maximum(size + s * error.mean, 0.0), np.maximum(x.var + s * error.var, 0.0)) for s in (1.0, -1.0)
    ]
    return both_errors(furthest(node, ends, out), kink_rounding(x, -1.0, np.ones(()), out))


def clamped_error(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """Neither moment is monotone: all four corners, and a mean of 0 between them, where the variance may be largest."""
    (x,), (error,) = inputs, errors
    least = np.where(np.abs(x.mean) <= error.mean, 0.0, x.mean)
    corners = [
        Moments(mean, np.maximum(x.var + t * error.var, 0.0))
        for mean in (x.mean + error.mean, least, x.mean - error.mean)
        for t in (1.0, -1.0)
    ]
    return both_errors(furthest(node, corners, out), _clamped_rounding(x, **node.attrs))


def furthest(node: Node, places: Sequence[Moments[Array]], out: Moments[Array]) -> Moments[Array]:
    """How far the result gets from `out` at any of the places."""
    found = [ops.find(node.op).formula(NUMPY, place, **node.attrs) for place in places]
    return Moments(
        np.max([np.abs(each.mean - out.mean) for each in found], axis=0),
        np.max([np.abs(each.var - out.var) for each in found], axis=0),
    )


def kink_rounding(x: Moments[Array], slope: float, m: Array, out: Moments[Array]) -> Moments[Array]:
    """Of E' = m E + k sigma I1 and V' = V [m^2 -+ 2 k m Q + k^2 (J2 - I1^2)]: every term with its own roundings.

    m E: slope, product, sum. k sigma I1: root, V / sigma, k, two products, sum. m^2: slope twice, product, two sums.
    The tail in V': k of a rounded slope 2, slope, product, three sums.
    """
    sigma, k = np.sqrt(x.var), 1.0 - slope
    at = NUMPY.ratio(np.abs(x.mean), sigma)
    q, i1, j2 = numpy_tail_moments(at)
    below = BELOW_ENDS if abs(slope) >= FLAT else TAIL_ENDS
    cut = at >= np.where(x.mean < 0, below, ABOVE_ENDS)
    tail, beyond = np.where(cut, 1.0, tail_error(at)), 2.0 * k * np.abs(m) * q + k * k * (j2 + 2.0 * i1 * i1)
    mean = 3.0 * UNIT * np.abs(m * x.mean) + (tail + 6.0 * UNIT) * k * sigma * i1
    return Moments(mean, x.var * (5.0 * UNIT * m * m + (tail + 7.0 * UNIT) * beyond) + UNIT * out.var)


def _clamped_rounding(x: Moments[Array], negative_slope: float, clamp: float) -> Moments[Array]:
    """The same for the two sides of the kink in `ops.leaky_relu.leaky_relu_clamped`."""
    size, sigma = np.abs(x.mean), np.sqrt(x.var)
    at = np.minimum(NUMPY.ratio(size, sigma), min(clamp, TAIL_ENDS))
    q, i1, j2 = numpy_tail_moments(at)
    error, p = tail_error(at) + 6.0 * UNIT, 1.0 - q
    hazard, step = (i1 + at * q) / p, i1 / q
    own, other = (np.where(x.mean < 0, *pair) for pair in ((negative_slope, 1.0), (1.0, negative_slope)))
    body, tail = own * (size + sigma * hazard), other * (size + sigma * (at + step))
    gap = np.abs(body - other * (size - sigma * (at + step)))
    within = p * own**2 * (1.0 + at * hazard + hazard**2) + q * other**2 * (j2 / q + step**2)
    between = p * q * gap * (gap + 2.0 * (body + tail))
    return Moments(error * (p * body + q * (body + tail)), error * (2.0 * x.var * within + between))


def leaky_relu_point_error(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    """Of a known value: the steepest slope that the interval reaches."""
    (x,), (error,), slope = inputs, errors, node.attrs["negative_slope"]
    steepest = np.where(x + error > 0, max(1.0, slope), slope)
    moved: Array = steepest * error + np.where(x < 0, 2.0 * UNIT * np.abs(out) + LEAST, 0.0)
    return moved
