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
    nodes, constants, padded = [], [], _folded_pads(graph)
    for node in graph.nodes:
        if node.name in padded:
            continue
        operator, attributes = plain_operator(node, padded.get(node.inputs[0]))
        weights = [f"{node.name}.{key}" for key in node.params]
        constants += [_tensor(name, param) for name, param in zip(weights, node.params.values(), strict=True)]
        inputs = [padded[name].inputs[0] if name in padded else name for name in node.inputs]
        nodes.append(helper.make_node(operator, [*inputs, *weights], [node.name], **attributes))
    values = ((INPUT, graph.input.shape), (graph.output, graph.values[graph.output].shape))
    given, result = (helper.make_tensor_value_info(name, 1, ["N", *shape]) for name, shape in values)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(
        helper.make_graph(nodes, graph.name, [given], [result], constants), opset_imports=[opset], ir_version=8
    )


def _folded_pads(graph: Graph) -> dict[str, Node]:
    """Pads whose zeros the convolutions behind them can see themselves, by name."""
    users: dict[str, list[str]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node.op.removesuffix("_point"))
    pads = [node for node in graph.nodes if node.op.removesuffix("_point") == "pad"]
    return {node.name: node for node in pads if set(users.get(node.name, ())) == {"conv"}}


def _pads(padding: Any, before: Node | None) -> list[int]:
    """ONNX's order: all that lie before, then all behind; with those of a pad in front of the convolution."""
    added = before.attrs["padding"] if before else ((0, 0),) * len(padding)
    sides = [(one, one) if isinstance(one, int) else one for one in padding]
    return [one[side] + more[side] for side in (0, 1) for one, more in zip(sides, added, strict=True)]


def plain_operator(node: Node, before: Node | None = None) -> tuple[str, dict[str, Any]]:
    """The ONNX operator of a layer and its attributes; `before` is a pad that a convolution takes up."""
    op, attrs = node.op.removesuffix("_point"), node.attrs
    if op == "linear":
        return "Gemm", {"transB": 1}
    if op == "conv":
        window = {"strides": attrs["stride"], "dilations": attrs["dilation"], "group": attrs["groups"]}
        return "Conv", {**window, "pads": _pads(attrs["padding"], before)}
    if op == "leaky_relu":
        return "LeakyRelu", {"alpha": attrs["negative_slope"]}
    if op == "avg_pool":
        return "AveragePool", {"kernel_shape": attrs["kernel_size"], "strides": attrs["stride"]}
    if op in ("flatten", "add"):
        return op.capitalize(), {}
    known = "linear, conv with zeros around it, sums, pooling and leaky-ReLU"
    raise LbnnError(f"op {node.op!r} has no plain form here; compare networks of {known}")


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
