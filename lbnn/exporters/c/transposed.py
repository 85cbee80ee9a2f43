"""The calls of transposed convolutions."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.moments import Moments
from lbnn.exporters.c.program import Call, Emission, call
from lbnn.exporters.c.shapes import TransposedShape, convolution_shape
from lbnn.exporters.c.weighted import bias_of, gaussian_param, stored_weights
from lbnn.graph import Node


def emit_conv_transposed(node: Node, emission: Emission) -> list[Call]:
    """lbnn_conv_transposed(arrays, w, arrays, &shape)."""
    groups, op = node.attrs["groups"], ops.find(node.op)
    mean, var = (gathered(op.rows(part, node.attrs)) for part in gaussian_param(node, "weight"))
    weight = Moments(mean, var)
    w = stored_weights(node, emission, weight, bias_of(node), groups)
    shape = TransposedShape(*astuple(convolution_shape(node, emission.graph)))
    geometry = emission.geometry(node, "lbnn_conv_shape", shape)
    arrays = (*emission.arrays(node.inputs[0]), w, *emission.arrays(node.name), geometry)
    return [call(f"lbnn_{node.op}", *arrays)]


def gathered(rows: Any) -> Any:
    """(out, in / groups, *kernel) as outputs gather them: (out, *kernel, in / groups), the kernel turned around."""
    return np.moveaxis(np.flip(rows, tuple(range(2, rows.ndim))), 1, -1)
