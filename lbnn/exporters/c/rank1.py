"""Layers whose variances are products of factors, in float32: how they are packed, and the calls of their kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Floats
from lbnn.base.factored import Factored
from lbnn.exporters.c import literals, names
from lbnn.exporters.c.pack import PAD, packed_blocks
from lbnn.exporters.c.program import Call, Emission, Lines, call, has_factors
from lbnn.exporters.c.shapes import (
    ConvShape,
    conv_kernel,
    conv_scratch,
    convolution_shape,
    factored_kernel,
    factored_scratch,
)
from lbnn.graph import Node


def pack_rank1(weight_mean: Floats, bias_mean: Floats, bias_var: Floats, groups: int = 1) -> Floats:
    """Packs a layer as lbnn_sums.h describes for factors: a row of each bias' mean and variance, then rows of means."""
    rows, parts = weight_mean.reshape(len(weight_mean), -1), []
    for block in packed_blocks(len(rows), groups):
        parts += [bias_mean[block], bias_var[block], rows[block].T.reshape(-1)]
    return np.concatenate([*parts, np.zeros(PAD, np.float32)])


def emit_linear_rank1(node: Node, emission: Emission) -> list[Call]:
    """One call for each vector of the input."""
    weight = factored(node)
    out_len, in_len = weight.mean.shape
    w, factors = _constants(node, emission, weight)
    (source,) = node.inputs
    rows = emission.size(source) // in_len
    inputs, outputs = (
        [pointer if rows == 1 else f"{pointer} + {length} * i" for pointer in emission.arrays(name)]
        for name, length in ((source, in_len), (node.name, out_len))
    )
    kernel = "lbnn_linear_rank1_point" if ops.find(node.op).point_inputs else "lbnn_linear_rank1"
    return [call(kernel, *inputs, w, factors, *outputs, in_len, out_len, times=rows)]


def emit_conv_rank1(node: Node, emission: Emission) -> list[Call]:
    """One call; the shared sums, or the inputs that they are taken from, have memory of their own."""
    weight, shape = factored(node), convolution_shape(node, emission.graph)
    w, factors = _constants(node, emission, weight)
    geometry = emission.geometry(node, "lbnn_conv_shape", shape)
    (source,) = node.inputs
    kernel = factored_kernel(shape) + ("_rank1_point" if ops.find(node.op).point_inputs else "_rank1")
    arrays = (*emission.arrays(source), w, factors, *emission.arrays(node.name), emission.scratch(node.name))
    return [call(kernel, *arrays, geometry, 0 if _one_column(weight) else weight.mean[0].size)]


def shares_sums(node: Node) -> bool:
    """Whether a node is a convolution with factors in C."""
    return ops.find(node.op).general == "conv" and has_factors(node)


def kernel_of(node: Node, shape: ConvShape) -> str:
    """The kernel of a convolution of moments, without what its name says of factors and known inputs."""
    return factored_kernel(shape) if has_factors(node) else conv_kernel(shape)


def scratch_of(node: Node, shape: ConvShape, rows: int) -> int:
    """Floats that it needs beside its arrays where a call computes so many rows."""
    point = bool(ops.find(node.op).point_inputs)
    return factored_scratch(shape, point, rows) if has_factors(node) else conv_scratch(shape, point)


def _one_column(weight: Factored[Any]) -> bool:
    """Whether all groups have the same factors."""
    return bool(np.array_equal(weight.column, np.broadcast_to(weight.column[:1], weight.column.shape)))


def factored(node: Node) -> Factored[Any]:
    """The weight of a node that has factors."""
    weight = node.params["weight"]
    assert isinstance(weight, Factored)
    return weight


def _constants(node: Node, emission: Emission, weight: Factored[Any]) -> tuple[str, str]:
    """The packed means, and the factors of rows and columns."""
    what, bias = f"layer {names.identifier(node.name, 'layer')}", node.params["bias"]
    mean, row, column = (literals.float32(part, what) for part in weight)
    biases = [np.broadcast_to(literals.float32(part, what), row.shape) for part in bias]
    w = emission.constant(node, pack_rank1(mean, biases[0], biases[1], weight.groups), lines=_lines(weight))
    columns = column[:1] if _one_column(weight) else column
    return w, emission.constant(node, np.concatenate([row, columns.reshape(-1), np.zeros(PAD, np.float32)]), "_factors")


def _lines(weight: Factored[Any]) -> Lines:
    """A line for the biases of each block, and one for each row of means."""
    outputs, inputs = len(weight.row), weight.mean[0].size
    widths = [block.stop - block.start for block in packed_blocks(outputs, weight.groups)]
    return tuple(line for width in widths for line in ((2 * width, 2 * width), (width * inputs, width)))
