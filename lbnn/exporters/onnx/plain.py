"""The plain network as ONNX, without uncertainty: what others compile, to be measured beside the moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph import INPUT, Graph, Node, Param


def plain_onnx(graph: Graph) -> Any:
    """The plain network of a prepared graph's means, input without variance: what others compile instead of moments."""
    nodes, constants, names = [], [], {INPUT: INPUT}
    for node in graph.nodes:
        operator, attributes = plain_operator(node)
        weights = [f"{node.name}.{key}" for key in node.params]
        constants += [_tensor(name, param) for name, param in zip(weights, node.params.values(), strict=True)]
        nodes.append(helper.make_node(operator, [names[node.inputs[0]], *weights], [node.name], **attributes))
        names[node.name] = node.name
    values = ((INPUT, graph.input.shape), (graph.output, graph.values[graph.output].shape))
    given, result = (helper.make_tensor_value_info(name, 1, ["N", *shape]) for name, shape in values)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(
        helper.make_graph(nodes, graph.name, [given], [result], constants), opset_imports=[opset], ir_version=8
    )


def plain_operator(node: Node) -> tuple[str, dict[str, Any]]:
    """The ONNX operator of a sequential network's layer and its attributes."""
    op, attrs = node.op.removesuffix("_point"), node.attrs
    if op == "linear":
        return "Gemm", {"transB": 1}
    if op == "conv":
        window = {"strides": attrs["stride"], "dilations": attrs["dilation"], "group": attrs["groups"]}
        return "Conv", {**window, "pads": 2 * attrs["padding"]}
    if op == "leaky_relu":
        return "LeakyRelu", {"alpha": attrs["negative_slope"]}
    if op == "avg_pool":
        return "AveragePool", {"kernel_shape": attrs["kernel_size"], "strides": attrs["stride"]}
    if op == "flatten":
        return "Flatten", {}
    raise LbnnError(f"op {node.op!r} has no plain form here; compare networks of linear, conv, pooling and leaky-ReLU")


def _tensor(name: str, param: Param) -> Any:
    values = param.mean if isinstance(param, (Moments, Factored)) else param
    return numpy_helper.from_array(np.asarray(values, np.float32), name)


def pin_batch(proto: Any, batch: int) -> Any:
    """The ONNX model for batches of one size, which lets compilers plan ahead."""
    pinned = onnx.ModelProto()
    pinned.CopyFrom(proto)
    del pinned.graph.value_info[:]
    for value in (*pinned.graph.input, *pinned.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    return pinned
