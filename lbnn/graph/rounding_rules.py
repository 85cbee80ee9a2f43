"""For each operator how far float32 may be from its exact result: what it inherits, and what it adds of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph import rounding_smooth as smooth
from lbnn.graph import rounding_tails as tails
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_elu import elu_error, elu_point_error
from lbnn.graph.rounding_hardswish import hardswish_error, hardswish_point_error
from lbnn.graph.rounding_max_pool import max_pool_error, max_pool_point_error
from lbnn.graph.rounding_moved import dropped, pooled_together
from lbnn.graph.rounding_parts import LEAST, UNIT, ErrorRule, Signal32, both_errors, each_part, growth, mean_part
from lbnn.graph.rounding_piecewise import piecewise_error, piecewise_point_error
from lbnn.graph.rounding_product import product_error
from lbnn.graph.rounding_tabulated import tabulated_error, tabulated_point_error
from lbnn.ops import ConvGeometry, TransposedGeometry
from lbnn.ops.affine import batch_norm_affine


def sum_of_sizes(node: Node, value: Signal32) -> Array:
    """|b| + the sum of |E E[w]|: what a layer's mean would be if nothing cancelled."""
    weight, bias = _gaussian(node, "weight"), _gaussian(node, "bias")
    sizes: Array = _products(node, np.abs(bias.mean), (np.abs(mean_part(value)), np.abs(weight.mean)))
    return sizes


def _gaussian(node: Node, name: str) -> Moments[Array]:
    param = node.params[name]
    assert isinstance(param, (Moments, Factored))
    return param if isinstance(param, Moments) else Moments(param.mean, param.var)


def _products(node: Node, bias: Any, *terms: tuple[Array, Array]) -> Any:
    """The sums of a linear layer or a convolution, with other numbers."""
    general = ops.find(node.op).general
    if general == "linear":
        return NUMPY.linear(bias, *terms)
    if general == "conv_transposed":
        return NUMPY.conv_transposed(TransposedGeometry(**node.attrs), bias, *terms)
    return NUMPY.conv(ConvGeometry(**node.attrs), bias, *terms)


# ---- layers with weights ---------------------------------------------------------------------------------------------


def _weighted(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """Errors of different inputs are independent in the mean, and add up in the variance, whose terms have one sign."""
    (x,), (error,), weight = inputs, errors, _gaussian(node, "weight")
    count = ops.find(node.op).rows(weight.mean, node.attrs)[0].size + 1
    sizes = sum_of_sizes(node, x)
    mean = UNIT * (growth(count) * sizes + np.sqrt(count) * np.abs(out.mean)) + count * LEAST * (sizes > 0)
    products = 6.0 if isinstance(node.params["weight"], Factored) else 4.0  # of factors, and of a sum with one
    var = UNIT * (products + np.sqrt(2.0 * count)) * out.var + count * LEAST * (out.var > 0)
    if not np.any(mean_part(error)) and not (isinstance(error, Moments) and np.any(error.var)):
        return Moments(mean, var)  # as in the first layer
    inherited = _products(node, 0.0, (mean_part(error) ** 2, weight.mean**2))
    terms = [((2.0 * np.abs(mean_part(x)) + mean_part(error)) * mean_part(error), weight.var)]
    if isinstance(error, Moments):
        terms.append((error.var, weight.var + weight.mean**2))
    return Moments(np.hypot(mean, np.sqrt(inherited)), var + _products(node, 0.0, *terms))


# ---- everything else -------------------------------------------------------------------------------------------------


def _moved(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """Elements change places only: so do their errors."""
    return ops.find(node.op).formula(NUMPY, *errors, **node.attrs)


def _constant(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Array) -> Array:
    return UNIT * np.abs(out)


def _added(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """x + y: the variance of a sum with a known value is not computed at all."""
    error = _moved(node, inputs, errors, out)
    own = 2.0 * UNIT * (np.abs(mean_part(inputs[0])) + np.abs(mean_part(inputs[1])))
    if not isinstance(out, Moments):
        return error + own
    return Moments(error.mean + own, error.var + 2.0 * UNIT * out.var)


def _pooled(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """Neighbours may have the very same error, as on an image of one colour: they add up."""
    (x,), inherited, factor = (
        inputs,
        _moved(node, inputs, errors, out),
        growth(int(np.prod(node.attrs["kernel_size"]))),
    )
    sizes = ops.find(node.op).formula(NUMPY, each_part(np.abs, x), **node.attrs)
    own = each_part(lambda size: UNIT * (1.0 + factor) * size + 2.0 * LEAST * (size > 0), sizes)
    return both_errors(inherited, own) if isinstance(out, Moments) else inherited + own


def _affine(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    return _scaled(inputs[0], errors[0], out, node.params["scale"], np.abs(node.params["shift"]))


def _batch_norm(node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Signal32) -> Signal32:
    """Backends may make the affine map in float32: its shift is b - m s, whose terms count each."""
    params: dict[str, Any] = dict(node.params)
    rank = mean_part(out).ndim - 1
    scale, _ = batch_norm_affine(rank, **params, **node.attrs)
    parts = np.abs(params["bias"]) + np.abs(params["running_mean"] * scale.reshape(-1))
    return _scaled(inputs[0], errors[0], out, scale, parts.reshape(scale.shape), 2.0)


def _scaled(x: Signal32, error: Signal32, out: Signal32, scale: Any, shift: Any, times: float = 1.0) -> Signal32:
    sizes = np.abs(scale * mean_part(x)) + shift
    mean = np.abs(scale) * mean_part(error) + times * (3.0 * UNIT * sizes + LEAST * (sizes > 0))
    if not isinstance(out, Moments):
        return mean
    return Moments(mean, scale**2 * error.var + times * (5.0 * UNIT * out.var + 2.0 * LEAST * (out.var > 0)))


def _variance_head(
    node: Node, inputs: Sequence[Signal32], errors: Sequence[Signal32], out: Moments[Array]
) -> Moments[Array]:
    """softplus is convex: it moves furthest upwards. For s << 0 it is e^s, and the rounding of s counts |s| times."""
    (_, raw), (mean, moved) = (NUMPY.halves(mean_part(part)) for part in (inputs[0], errors[0]))
    noise = NUMPY.softplus(raw)
    var = NUMPY.softplus(raw + moved) - noise + UNIT * (8.0 + 2.0 * np.abs(np.minimum(raw, 0.0))) * noise
    if isinstance(errors[0], Moments):
        var = var + NUMPY.halves(errors[0].var)[0]
    return Moments(mean, var + UNIT * out.var + 2.0**-125)


RULES: dict[str, ErrorRule] = {
    "linear": _weighted,
    "conv": _weighted,
    "conv_transposed": _weighted,
    "avg_pool": _pooled,
    "max_pool": max_pool_error,
    "max_pool_point": max_pool_point_error,
    "multiply": product_error,
    "multiply_known": product_error,
    "avg_pool_point": _pooled,
    "avg_pool_correlated": pooled_together,
    "leaky_relu": tails.leaky_relu_error,
    "leaky_relu_point": tails.leaky_relu_point_error,
    "leaky_relu_clamped": tails.clamped_error,
    "abs": tails.absolute_error,
    "abs_point": lambda node, inputs, errors, out: errors[0],
    "piecewise": piecewise_error,
    "piecewise_point": piecewise_point_error,
    "elu": elu_error,
    "elu_point": elu_point_error,
    "hardswish": hardswish_error,
    "hardswish_point": hardswish_point_error,
    "smooth": smooth.smooth_error,
    "smooth_point": smooth.smooth_point_error,
    "tabulated": tabulated_error,
    "tabulated_point": tabulated_point_error,
    "affine": _affine,
    "batch_norm": _batch_norm,
    "add": _added,
    "shift": _added,
    "concat": _moved,
    "flatten": _moved,
    "pad": _moved,
    "upsample": _moved,
    "dropout": dropped,
    "dropout_point": dropped,
    "lift": _moved,
    "constant": _constant,
    "variance_head": _variance_head,
}
RULES |= {
    form: rule for name, rule in tuple(RULES.items()) if (form := ops.find(name).point_form) and form not in RULES
}
