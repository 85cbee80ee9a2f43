"""How far float32 may be from the reference: a running bound on the error of every mean and variance of a graph.

docs/parity.md derives the rules and says which parts are proven and which are statistical. In short, with u = 2^-24:

- what a value inherits is the error of its inputs times the sensitivity: through sums of means as independent errors
  (root of the sum of squares), through everything else in the worst case;
- what it adds of its own is u times the sum of the sizes of its terms, times a factor that grows with the logarithm of
  their number, so that cancellation shows: a small result of large terms has a bound that is large beside it.

Every backend is meant: any order of summation, with or without fused multiply-add, the graph as traced or simplified.
Overflow is not, and underflow only where it is gradual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import INPUT, Graph, Node
from lbnn.graph.reference import NUMPY, evaluate, in_form
from lbnn.ops import ConvGeometry
from lbnn.ops.affine import batch_norm_affine
from lbnn.ops.tail import numpy_tail_moments

UNIT = 2.0**-24
"""The largest relative error of rounding to float32."""

LEAST = 2.0**-149
"""The smallest float32: below 1.2e-38 errors are absolute."""

Signal32 = Any
"""A batch of known values, or Moments of them; errors have the same form."""

ErrorRule = Callable[[Node, Sequence[Signal32], Sequence[Signal32], Signal32], Signal32]
"""(node, inputs, their errors, result) -> the error of the result."""


def bounds(graph: Graph, mean: Any, var: Any = None) -> dict[str, Moments[Array]]:
    """For every value of the graph a bound on the absolute error of its mean and of its variance, 0 if it is known."""
    errors = propagate(graph, evaluate(graph, mean, var))
    return {name: e if isinstance(e, Moments) else Moments(e, np.zeros_like(e)) for name, e in errors.items()}


def propagate(graph: Graph, values: Mapping[str, Signal32]) -> dict[str, Signal32]:
    """The error of every value that `evaluate` gave, from the input, which is exact, to the end."""
    errors: dict[str, Signal32] = {INPUT: _map(np.zeros_like, values[INPUT])}
    for node in in_form(graph, isinstance(values[INPUT], Moments)).nodes:
        inputs, inherited = ([table[name] for name in node.inputs] for table in (values, errors))
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite bound is one too
            error = RULES[node.op](node, inputs, inherited, values[node.name])
        errors[node.name] = _underflow(error, values[node.name])
    return errors


def _underflow(error: Signal32, value: Signal32) -> Signal32:
    """Any result that is not zero may be a denormal or come from some."""
    if isinstance(value, Moments):
        return Moments(*(e + 4.0 * LEAST * (v != 0.0) for e, v in zip(error, value, strict=True)))
    return error + 4.0 * LEAST * (value != 0.0)


def costliest(graph: Graph, values: Mapping[str, Signal32], part: int, element: int) -> Node:
    """The node whose own rounding alone costs the output most, in the mean (part 0) or variance (1) of one element."""
    nodes = in_form(graph, isinstance(values[INPUT], Moments)).nodes
    own = {node.name: _own(node, values) for node in nodes}

    def cost(rounded: Node) -> float:
        error = _carried(nodes, values, own, rounded.name)[graph.output]
        parts = error if isinstance(error, Moments) else (error, np.zeros_like(error))
        return float(parts[part].flat[element])

    return max(nodes, key=cost)


def _own(node: Node, values: Mapping[str, Signal32]) -> Signal32:
    """What a node adds if its inputs are exact."""
    inputs = [values[name] for name in node.inputs]
    return RULES[node.op](node, inputs, [_map(np.zeros_like, x) for x in inputs], values[node.name])


def _carried(
    nodes: Sequence[Node], values: Mapping[str, Signal32], own: Mapping[str, Signal32], rounded: str
) -> dict[str, Signal32]:
    """The errors if nothing but the node `rounded` rounds."""
    errors: dict[str, Signal32] = {INPUT: _map(np.zeros_like, values[INPUT])}
    for node in nodes:
        if node.name == rounded:
            errors[node.name] = own[node.name]
            continue
        inputs, inherited = ([table[name] for name in node.inputs] for table in (values, errors))
        error = RULES[node.op](node, inputs, inherited, values[node.name])
        errors[node.name] = _minus(error, own[node.name])
    return errors


def _minus(error: Signal32, own: Signal32) -> Signal32:
    if isinstance(error, Moments):
        return Moments(np.maximum(error.mean - own.mean, 0.0), np.maximum(error.var - own.var, 0.0))
    return np.maximum(error - own, 0.0)


def sum_of_sizes(node: Node, value: Signal32) -> Array:
    """|b| + the sum of |E E[w]|: what a layer's mean would be if nothing cancelled."""
    weight, bias = _gaussian(node, "weight"), _gaussian(node, "bias")
    sizes: Array = _products(node, np.abs(bias.mean), (np.abs(_mean(value)), np.abs(weight.mean)))
    return sizes


def _gaussian(node: Node, name: str) -> Moments[Array]:
    param = node.params[name]
    assert isinstance(param, Moments)
    return param


def _map(function: Callable[[Any], Any], value: Signal32) -> Signal32:
    return Moments(*map(function, value)) if isinstance(value, Moments) else function(value)


def _mean(value: Signal32) -> Array:
    mean: Array = value.mean if isinstance(value, Moments) else value
    return mean


def _products(node: Node, bias: Any, *terms: tuple[Array, Array]) -> Any:
    """The sums of a linear layer or a convolution, with other numbers."""
    if ops.find(node.op).general == "linear":
        return NUMPY.linear(bias, *terms)
    return NUMPY.conv(ConvGeometry(**node.attrs), bias, *terms)


# ---- layers with weights ---------------------------------------------------------------------------------------------


def _weighted(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """Errors of different inputs are independent in the mean, and add up in the variance, whose terms have one sign."""
    (x,), (error,), weight = inputs, errors, _gaussian(node, "weight")
    count = weight.mean[0].size + 1
    sizes = sum_of_sizes(node, x)
    mean = UNIT * (_growth(count) * sizes + np.sqrt(count) * np.abs(out.mean)) + count * LEAST * (sizes > 0)
    var = UNIT * (4.0 + np.sqrt(2.0 * count)) * out.var + count * LEAST * (out.var > 0)
    if not np.any(_mean(error)) and not (isinstance(error, Moments) and np.any(error.var)):
        return Moments(mean, var)  # as in the first layer
    inherited = _products(node, 0.0, (_mean(error) ** 2, weight.mean**2))
    terms = [((2.0 * np.abs(_mean(x)) + _mean(error)) * _mean(error), weight.var)]
    if isinstance(error, Moments):
        terms.append((error.var, weight.var + weight.mean**2))
    return Moments(np.hypot(mean, np.sqrt(inherited)), var + _products(node, 0.0, *terms))


def _growth(count: int) -> float:
    """Of a sum's rounding, over u times the sizes of its terms, with their number."""
    return 2.0 + 0.5 * float(np.log2(count))


# ---- activations -----------------------------------------------------------------------------------------------------

TAIL_FITTED, TAIL_ENDS = 8.5, 12.0
"""Up to where all backends fit the normal tail, and where the C kernels cut it off."""


def tail_error(x: Array) -> Array:
    """The relative error of Q, I1 and J2 at x = |E| / sigma in float32, as the slackest backend has it.

    The fits are off by 7 u and more where x grows; the root and the quotient in x cost 2 u each time x^2, as in
    e^(-x^2/2). Beyond 8.5 the quadrature of ONNX falls behind, to 3e-3 at 12.
    """
    near = UNIT * (10.0 + 3.5 * np.minimum(x, TAIL_FITTED) ** 2)
    beyond = 10.0 ** (0.65 * np.clip(x - TAIL_FITTED, 0.0, TAIL_ENDS - TAIL_FITTED))
    return np.where(x > TAIL_ENDS, 1.0, near * beyond)


def _leaky_relu(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """Mean and variance grow with both E and V: the ends of the intervals are the extremes."""
    (x,), (error,), slope = inputs, errors, node.attrs["negative_slope"]
    ends = [Moments(x.mean + s * error.mean, np.maximum(x.var + s * error.var, 0.0)) for s in (1.0, -1.0)]
    return _sum(_reach(node, ends, out), _kink_rounding(x, slope, np.where(x.mean < 0, slope, 1.0), out))


def _absolute(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """As a leaky-ReLU of the slope -1, of |E|: it is even."""
    (x,), (error,) = inputs, errors
    size = np.abs(x.mean)
    ends = [
        Moments(np.maximum(size + s * error.mean, 0.0), np.maximum(x.var + s * error.var, 0.0)) for s in (1.0, -1.0)
    ]
    return _sum(_reach(node, ends, out), _kink_rounding(x, -1.0, np.ones(()), out))


def _clamped(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]) -> Moments[Array]:
    """Neither moment is monotone: all four corners, and a mean of 0 between them, where the variance may be largest."""
    (x,), (error,) = inputs, errors
    least = np.where(np.abs(x.mean) <= error.mean, 0.0, x.mean)
    corners = [
        Moments(mean, np.maximum(x.var + t * error.var, 0.0))
        for mean in (x.mean + error.mean, least, x.mean - error.mean)
        for t in (1.0, -1.0)
    ]
    return _sum(_reach(node, corners, out), _clamped_rounding(x, **node.attrs))


def _reach(node: Node, places: Sequence[Moments[Array]], out: Moments[Array]) -> Moments[Array]:
    """How far the result gets from `out` at any of the places."""
    found = [ops.find(node.op).formula(NUMPY, place, **node.attrs) for place in places]
    return Moments(*(np.max([np.abs(f[i] - out[i]) for f in found], axis=0) for i in (0, 1)))


def _sum(one: Moments[Array], other: Moments[Array]) -> Moments[Array]:
    return Moments(one.mean + other.mean, one.var + other.var)


def _kink_rounding(x: Moments[Array], slope: float, m: Array, out: Moments[Array]) -> Moments[Array]:
    """Of E' = m E + k sigma I1 and V' = V [m^2 -+ 2 k m Q + k^2 (J2 - I1^2)]: every term with its own roundings.

    m E: slope, product, sum. k sigma I1: root, V / sigma, k, two products, sum. m^2: slope twice, product, two sums.
    The tail in V': k of a rounded slope 2, slope, product, three sums.
    """
    sigma, k = np.sqrt(x.var), 1.0 - slope
    at = NUMPY.ratio(np.abs(x.mean), sigma)
    q, i1, j2 = numpy_tail_moments(at)
    tail, beyond = tail_error(at), 2.0 * k * np.abs(m) * q + k * k * (j2 + 2.0 * i1 * i1)
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


def _leaky_relu_point(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    (x,), (error,), slope = inputs, errors, node.attrs["negative_slope"]
    steepest = np.where(x + error > 0, max(1.0, slope), slope)
    moved: Array = steepest * error + np.where(x < 0, 2.0 * UNIT * np.abs(out) + LEAST, 0.0)
    return moved


# ---- everything else -------------------------------------------------------------------------------------------------


def _moved(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """Elements change places only: so do their errors."""
    return ops.find(node.op).formula(NUMPY, *errors, **node.attrs)


def _constant(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    return UNIT * np.abs(out)


def _added(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """x + y: the variance of a sum with a known value is not computed at all."""
    error = _moved(node, inputs, errors, out)
    own = 2.0 * UNIT * (np.abs(_mean(inputs[0])) + np.abs(_mean(inputs[1])))
    if not isinstance(out, Moments):
        return error + own
    return Moments(error.mean + own, error.var + 2.0 * UNIT * out.var)


def _pooled(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """Neighbours may have the very same error, as on an image of one colour: they add up."""
    (x,), inherited, factor = (
        inputs,
        _moved(node, inputs, errors, out),
        _growth(int(np.prod(node.attrs["kernel_size"]))),
    )
    sizes = ops.find(node.op).formula(NUMPY, _map(np.abs, x), **node.attrs)
    own = _map(lambda size: UNIT * (1.0 + factor) * size + 2.0 * LEAST * (size > 0), sizes)
    return _sum(inherited, own) if isinstance(out, Moments) else inherited + own


def _affine(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    return _scaled(inputs[0], errors[0], out, node.params["scale"], np.abs(node.params["shift"]))


def _batch_norm(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """Backends may make the affine map in float32: its shift is b - m s, whose terms count each."""
    params: dict[str, Any] = dict(node.params)
    rank = _mean(out).ndim - 1
    scale, _ = batch_norm_affine(rank, **params, **node.attrs)
    parts = np.abs(params["bias"]) + np.abs(params["running_mean"] * scale.reshape(-1))
    return _scaled(inputs[0], errors[0], out, scale, parts.reshape(scale.shape), 2.0)


def _scaled(x: Signal32, error: Signal32, out: Signal32, scale: Any, shift: Any, times: float = 1.0) -> Signal32:
    sizes = np.abs(scale * _mean(x)) + shift
    mean = np.abs(scale) * _mean(error) + times * (3.0 * UNIT * sizes + LEAST * (sizes > 0))
    if not isinstance(out, Moments):
        return mean
    return Moments(mean, scale**2 * error.var + times * (5.0 * UNIT * out.var + 2.0 * LEAST * (out.var > 0)))


def _variance_head(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """softplus is convex: it moves furthest upwards. For s << 0 it is e^s, and the rounding of s counts |s| times."""
    (_, raw), (mean, moved) = (NUMPY.halves(_mean(part)) for part in (inputs[0], errors[0]))
    noise = NUMPY.softplus(raw)
    var = NUMPY.softplus(raw + moved) - noise + UNIT * (8.0 + 2.0 * np.abs(np.minimum(raw, 0.0))) * noise
    if isinstance(errors[0], Moments):
        var = var + NUMPY.halves(errors[0].var)[0]
    return Moments(mean, var + UNIT * out.var + 2.0**-125)


RULES: dict[str, ErrorRule] = {
    "linear": _weighted,
    "conv": _weighted,
    "avg_pool": _pooled,
    "leaky_relu": _leaky_relu,
    "leaky_relu_point": _leaky_relu_point,
    "leaky_relu_clamped": _clamped,
    "abs": _absolute,
    "abs_point": lambda node, inputs, errors, out: errors[0],
    "affine": _affine,
    "batch_norm": _batch_norm,
    "add": _added,
    "shift": _added,
    "concat": _moved,
    "flatten": _moved,
    "pad": _moved,
    "lift": _moved,
    "constant": _constant,
    "variance_head": _variance_head,
}
RULES |= {
    form: rule for name, rule in tuple(RULES.items()) if (form := ops.find(name).point_form) and form not in RULES
}
