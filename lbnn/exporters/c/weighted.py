"""The numbers of layers with weights, as the kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.exporters.c import names
from lbnn.exporters.c.pack import PAD
from lbnn.exporters.c.program import Emission
from lbnn.graph import Node


def gaussian_param(node: Node, key: str) -> Moments[Any]:
    """A parameter that has a variance."""
    param = node.params[key]
    assert isinstance(param, (Moments, Factored))
    return param if isinstance(param, Moments) else Moments(param.mean, param.var)


def bias_of(node: Node) -> Moments[Any]:
    """One entry for each output: a bias may be a single number for all."""
    rows = ops.find(node.op).rows(gaussian_param(node, "weight").mean, node.attrs)
    bias, outputs = gaussian_param(node, "bias"), len(rows)
    return Moments(np.broadcast_to(bias.mean, (outputs,)), np.broadcast_to(bias.var, (outputs,)))


def stored_weights(
    node: Node, emission: Emission, weight: Moments[Any], bias: Moments[Any], groups: int = 1, pad: int = PAD
) -> str:
    """The identifier of a layer's weights, a row for each output, packed in the order of the kernels."""
    packed = emission.dtype.pack(weight, bias, groups, pad, f"layer {names.identifier(node.name, 'layer')}")
    return emission.constant(node, packed.values, lines=packed.lines)
