"""Which kernel computes which operator in float32: one row for each, and the emitters that make its calls.

An emitter gives the calls of one node; constants and geometry that they refer to are noted in the Emission. The kernels
and their contract are in c_runtime/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.moments import Moments
from lbnn.exporters.c import literals
from lbnn.exporters.c.pack import least_pad
from lbnn.exporters.c.pieces import emit_piecewise
from lbnn.exporters.c.program import Call, Emission, Row, call
from lbnn.exporters.c.rank1 import emit_conv_rank1, emit_linear_rank1, scratch_of, shares_sums
from lbnn.exporters.c.shapes import (
    ConvShape,
    MaxPoolShape,
    PoolShape,
    SmallConvShape,
    conv_kernel,
    convolution_shape,
    max_pool_kernel,
    planes_of,
    pool_kernel,
    small_shape,
    two_axes,
)
from lbnn.exporters.c.tabulated import emit_tabulated
from lbnn.exporters.c.transposed import emit_conv_transposed
from lbnn.exporters.c.weighted import bias_of, gaussian_param, stored_weights
from lbnn.graph import Graph, Node
from lbnn.ops import Shape
from lbnn.ops.memory import VAR
from lbnn.ops.smooth import stored_table
from lbnn.ops.smooth_rule import GRID


def _point(node: Node) -> str:
    return "_point" if ops.find(node.op).point_inputs else ""


def _linear(node: Node, emission: Emission) -> list[Call]:
    weight, bias = gaussian_param(node, "weight"), bias_of(node)
    out_len, in_len = weight.mean.shape
    w = stored_weights(node, emission, weight, bias)
    (source,) = node.inputs
    rows = emission.size(source) // in_len
    inputs, outputs = (
        [_stepping(pointer, length, rows) for pointer in emission.arrays(name)]
        for name, length in ((source, in_len), (node.name, out_len))
    )
    return [call(f"lbnn_linear{_point(node)}", *inputs, w, *outputs, in_len, out_len, times=rows)]


def _stepping(pointer: str, step: int, rows: int) -> str:
    return pointer if rows == 1 else f"{pointer} + {step} * i"


def _conv(node: Node, emission: Emission) -> list[Call]:
    weight, bias, groups = gaussian_param(node, "weight"), bias_of(node), node.attrs["groups"]
    w = stored_weights(node, emission, weight, bias, groups)
    (source,) = node.inputs
    shape = convolution_shape(node, emission.graph)
    geometry = emission.geometry(node, "lbnn_conv_shape", shape)
    scratch = [emission.scratch(node.name)] if node.name in emission.plan.scratch else []
    kernel = conv_kernel(shape) + _point(node)
    return [call(kernel, *emission.arrays(source), w, *emission.arrays(node.name), geometry, *scratch)]


def small_layers(graph: Graph) -> dict[str, SmallConvShape]:
    """The layers that one small kernel computes, if there is a convolution at all: a linear one is no reason for it."""
    shapes = {node.name: small_shape(shape) for node in graph.nodes if (shape := _sums_shape(node, graph))}
    convolved = any(ops.find(node.op).general == "conv" for node in graph.nodes)
    return {name: shape for name, shape in shapes.items() if shape} if convolved else {}


def _sums_shape(node: Node, graph: Graph) -> ConvShape | None:
    """A linear layer of one vector is a convolution of one row with a kernel as wide as the row."""
    if ops.find(node.op).general == "conv":
        return None if shares_sums(node) else convolution_shape(node, graph)
    vector = len(graph.values[node.name].shape) == 1
    if node.op == "linear" and vector and isinstance(node.params["weight"], Moments):
        out_len, in_len = gaussian_param(node, "weight").mean.shape
        return ConvShape(1, 1, in_len, out_len, 1, 1, 1, in_len, 1, 1, 0, 0, 1, 1, 1)
    return None


def layer_scratch(graph: Graph, small: Mapping[str, SmallConvShape]) -> dict[str, int]:
    """Floats that layers need beside their values: the variances, zeros, of an input that has none, inputs at work."""
    inputs = {node.name: graph.values[node.inputs[0]] for node in graph.nodes if node.name in small}
    zeros = {name: prod(value.shape) for name, value in inputs.items() if not value.random}
    convs = [node for node in graph.nodes if node.name not in small and ops.find(node.op).general == "conv"]
    shapes = [convolution_shape(node, graph) for node in convs]
    floats = {node.name: scratch_of(node, shape, shape.out_height) for node, shape in zip(convs, shapes, strict=True)}
    return zeros | {name: count for name, count in floats.items() if count}


def _small(node: Node, emission: Emission) -> list[Call]:
    weight, bias, shape = gaussian_param(node, "weight"), bias_of(node), emission.small[node.name]
    w = stored_weights(node, emission, weight, bias, shape.groups, least_pad(len(weight.mean), shape.groups))
    geometry = emission.geometry(node, "lbnn_conv_small_shape", shape)
    (source,) = node.inputs
    inputs, lift = emission.arrays(source), []
    if node.name in emission.plan.scratch:
        inputs.append(emission.scratch(node.name))
        lift = [call("lbnn_lift", inputs[1], emission.size(source))]
    return [*lift, call("lbnn_conv2d_small", *inputs, w, *emission.arrays(node.name), geometry)]


def _avg_pool(node: Node, emission: Emission) -> list[Call]:
    shape = _pool_shape(node, emission)
    return _pooled(node, emission, shape, pool_kernel(shape) + _point(node))


def _avg_pool_correlated(node: Node, emission: Emission) -> list[Call]:
    return _pooled(node, emission, _pool_shape(node, emission), "lbnn_avg_pool_correlated")


def _pool_shape(node: Node, emission: Emission) -> PoolShape:
    (source,) = node.inputs
    return PoolShape(
        *planes_of(emission.shape(source)),
        *planes_of(emission.shape(node.name))[1:],
        *two_axes(node.attrs["kernel_size"], 1),
        *two_axes(node.attrs["stride"], 1),
        *two_axes(node.attrs["padding"], 0),
        int(node.attrs["count_include_pad"]),
        emission.gap(node.name),
    )


def _pooled(node: Node, emission: Emission, shape: PoolShape, kernel: str) -> list[Call]:
    geometry = emission.geometry(node, "lbnn_pool_shape", shape)
    return [call(kernel, *emission.arrays(node.inputs[0]), *emission.arrays(node.name), geometry)]


def _max_pool(node: Node, emission: Emission) -> list[Call]:
    (source,) = node.inputs
    shape = MaxPoolShape(
        *planes_of(emission.shape(source)),
        *planes_of(emission.shape(node.name))[1:],
        *two_axes(node.attrs["kernel_size"], 1),
        *two_axes(node.attrs["stride"], 1),
        *two_axes(node.attrs["padding"], 0),
        *two_axes(node.attrs["dilation"], 1),
    )
    geometry = emission.geometry(node, "lbnn_max_pool_shape", shape)
    kernel = max_pool_kernel(shape) + _point(node)
    return [call(kernel, *emission.arrays(source), *emission.arrays(node.name), geometry)]


def _pointwise(node: Node, emission: Emission) -> list[Call]:
    """lbnn_OP(arrays, length, attributes): works in place; attributes in the operator's own order."""
    numbers = [literals.scalar(node.attrs[key]) for key in ops.find(node.op).attributes]
    kernel = call(f"lbnn_{node.op}", *emission.arrays(node.name), emission.size(node.name), *numbers)
    return [*emission.copies(node.inputs[0], node.name), kernel]


def _smooth(node: Node, emission: Emission) -> list[Call]:
    """The kernel's numbers are the table of the wide rule, as lbnn_smooth.h lays it out."""
    function, scale = f"LBNN_{node.attrs['function'].upper()}", literals.scalar(node.attrs["scale"])
    numbers, rows = stored_table(node.attrs["function"]), 4 * GRID
    table = [] if _point(node) else [emission.constant(node, numbers, lines=((len(numbers) - rows, 7), (rows, 4)))]
    arguments = (*emission.arrays(node.name), emission.size(node.name), *table, function, scale)
    return [*emission.copies(node.inputs[0], node.name), call(f"lbnn_{node.op}", *arguments)]


def _affine(node: Node, emission: Emission) -> list[Call]:
    shape = emission.shape(node.name)
    full = {key: np.broadcast_to(node.params[key], shape).reshape(-1) for key in ("scale", "shift")}
    channels = _channels(shape, *full.values())
    constants = [emission.constant(node, values.reshape(channels, -1)[:, 0], f"_{key}") for key, values in full.items()]
    sizes = (channels, prod(shape) // channels)
    kernel = call(f"lbnn_affine{_point(node)}", *emission.arrays(node.name), *constants, *sizes)
    return [*emission.copies(node.inputs[0], node.name), kernel]


def _channels(shape: Shape, *arrays: Any) -> int:
    """One number, one for each channel (first axis), or one for each element: the fewest that describe all arrays."""
    counts = (1, shape[0], prod(shape))
    rows = {count: [array.reshape(count, -1) for array in arrays] for count in counts}
    return next(count for count in counts if all(np.all(row == row[:, :1]) for row in rows[count]))


_SUMS = {"add": "lbnn_add", "shift": "lbnn_shift", "add_point": "lbnn_add_points"}


def _sum(node: Node, emission: Emission) -> list[Call]:
    inputs = [pointer for name in node.inputs for pointer in emission.arrays(name)]
    return [call(_SUMS[node.op], *inputs, *emission.arrays(node.name), emission.size(node.name))]


def _product(node: Node, emission: Emission) -> list[Call]:
    """A factor with fewer elements has one for each channel."""
    sizes, whole = [emission.size(name) for name in node.inputs], emission.size(node.name)
    channels = whole if min(sizes) == whole else min(sizes)
    inputs = [pointer for name in node.inputs for pointer in emission.arrays(name)]
    planes = (whole // channels, *(size // channels for size in sizes))
    return [call(f"lbnn_{node.op}", *inputs, *emission.arrays(node.name), channels, *planes)]


def _concat(node: Node, emission: Emission) -> list[Call]:
    """A copy for each input that does not lie in the result already."""
    axis, calls, ahead = node.attrs["axis"], [], 0
    count, step = prod(emission.shape(node.name)[:axis]), prod(emission.shape(node.name)[axis:])
    for name in node.inputs:
        length = prod(emission.shape(name)[axis:])
        for part in emission.parts(node.name):
            source, target = emission.at(name, part), emission.at(node.name, part, ahead)
            if source != target:
                calls.append(call("lbnn_concat", source, target, count, length, step))
        ahead += length
    return calls


def _pad(node: Node, emission: Emission) -> list[Call]:
    (source,) = node.inputs
    (top, bottom), (left, right) = two_axes(node.attrs["padding"], (0, 0))
    sizes = (*planes_of(emission.shape(source)), top, bottom, left, right)
    return [
        call("lbnn_pad", emission.at(source, part), emission.at(node.name, part), *sizes)
        for part in emission.parts(node.name)
    ]


def _upsample(node: Node, emission: Emission) -> list[Call]:
    (source,) = node.inputs
    sizes = (*planes_of(emission.shape(source)), *two_axes(node.attrs["factors"], 1))
    return [
        call("lbnn_upsample", emission.at(source, part), emission.at(node.name, part), *sizes)
        for part in emission.parts(node.name)
    ]


def _dropout(node: Node, emission: Emission) -> list[Call]:
    """1 / (1 - p) and p / (1 - p) as numbers of their own: 1 - p in float32 would lose digits."""
    (source,), p, size = node.inputs, node.attrs["p"], emission.size(node.name)
    kept, noise = literals.scalar(1.0 / (1.0 - p)), literals.scalar(p / (1.0 - p))
    if _point(node):
        return [call("lbnn_dropout_point", *emission.arrays(source), *emission.arrays(node.name), size, noise)]
    return [*emission.copies(source, node.name), call("lbnn_dropout", *emission.arrays(node.name), size, kept, noise)]


def _lift(node: Node, emission: Emission) -> list[Call]:
    return [call("lbnn_lift", emission.at(node.name, VAR), emission.size(node.name))]


def _variance_head(node: Node, emission: Emission) -> list[Call]:
    arrays = (*emission.arrays(node.inputs[0]), *emission.arrays(node.name))
    return [call(f"lbnn_variance_head{_point(node)}", *arrays, emission.size(node.name))]


def _constant(node: Node, emission: Emission) -> list[Call]:
    emission.constant(node, node.params["value"], is_value=True)
    return []


def _nothing(node: Node, emission: Emission) -> list[Call]:
    return []


def _both(*kernels: str) -> tuple[str, ...]:
    """Kernels and their forms for known inputs."""
    return tuple(name + form for name in kernels for form in ("", "_point"))


_CONVOLUTIONS = _both("lbnn_conv2d", "lbnn_conv2d_1x1", "lbnn_conv2d_3x3", "lbnn_conv2d_patch", "lbnn_depthwise_3x3")

_STRUCTURED = _both("lbnn_conv2d_rank1", "lbnn_conv2d_1x1_rank1", "lbnn_conv2d_3x3_rank1", "lbnn_conv2d_patch_rank1")

ROWS: Mapping[str, Row] = {
    "linear": Row("lbnn_linear.h", _both("lbnn_linear"), _linear),
    "linear_rank1": Row("lbnn_rank1.h", _both("lbnn_linear_rank1"), emit_linear_rank1),
    "conv": Row("lbnn_conv.h", _CONVOLUTIONS, _conv),
    "conv_transposed": Row("lbnn_conv_transposed.h", _both("lbnn_conv_transposed"), emit_conv_transposed),
    "conv_rank1": Row("lbnn_conv_rank1.h", _STRUCTURED, emit_conv_rank1),
    "avg_pool": Row("lbnn_pool.h", _both("lbnn_avg_pool", "lbnn_avg_pool_2x2"), _avg_pool),
    "max_pool": Row("lbnn_maxpool.h", _both("lbnn_max_pool", "lbnn_max_pool_2x2"), _max_pool),
    "avg_pool_correlated": Row("lbnn_pool_correlated.h", ("lbnn_avg_pool_correlated",), _avg_pool_correlated),
    "leaky_relu": Row("lbnn_activation.h", _both("lbnn_leaky_relu"), _pointwise),
    "leaky_relu_clamped": Row("lbnn_activation.h", ("lbnn_leaky_relu_clamped",), _pointwise),
    "abs": Row("lbnn_activation.h", _both("lbnn_abs"), _pointwise),
    "piecewise": Row("lbnn_piecewise.h", _both("lbnn_piecewise"), emit_piecewise),
    "elu": Row("lbnn_elu.h", _both("lbnn_elu"), _pointwise),
    "hardswish": Row("lbnn_hardswish.h", _both("lbnn_hardswish"), _pointwise),
    "smooth": Row("lbnn_smooth.h", _both("lbnn_smooth"), _smooth),
    "tabulated": Row("lbnn_tabulated.h", _both("lbnn_tabulated"), emit_tabulated),
    "affine": Row("lbnn_pointwise.h", _both("lbnn_affine"), _affine),
    "add": Row("lbnn_pointwise.h", tuple(_SUMS.values()), _sum),
    "multiply": Row("lbnn_product.h", ("lbnn_multiply", "lbnn_multiply_known", "lbnn_multiply_point"), _product),
    "concat": Row("lbnn_pointwise.h", ("lbnn_concat",), _concat),
    "pad": Row("lbnn_pointwise.h", ("lbnn_pad",), _pad),
    "upsample": Row("lbnn_upsample.h", ("lbnn_upsample",), _upsample),
    "dropout": Row("lbnn_dropout.h", _both("lbnn_dropout"), _dropout),
    "flatten": Row("lbnn_pointwise.h", (), _nothing),
    "lift": Row("lbnn_pointwise.h", ("lbnn_lift",), _lift),
    "constant": Row("lbnn_pointwise.h", (), _constant),
    "variance_head": Row("lbnn_pointwise.h", _both("lbnn_variance_head"), _variance_head),
}
"""The C facts of every operator, by the name of its general form; _rank1 where its weights have factors."""

SMALL_SUMS = Row("lbnn_conv_small.h", ("lbnn_conv2d_small", "lbnn_lift"), _small)
"""Convolutions and linear layers that share one small kernel."""
