"""Which kernels may write their result over their input, and where: the planner's knowledge of float32 kernels.

A depthwise convolution writes plane after plane, a convolution of 1x1 pixel after pixel, each from scratch that it
filled before. So the planes of a depthwise result may be those of its input, or the same array's beginning where they
are smaller; and the input of a 1x1 convolution may lie in the last planes of its result.
"""

from __future__ import annotations

from collections.abc import Collection

from lbnn import ops
from lbnn.exporters.c.rank1 import kernel_of
from lbnn.exporters.c.shapes import convolution_shape, in_place
from lbnn.graph import Graph, Node


def over_inputs(graph: Graph, small: Collection[str]) -> dict[str, int]:
    """For each layer that may overwrite its input: how many floats its result begins before it.

    `small` are the layers that lbnn_conv2d_small computes, which reads inputs again and again.
    """
    convs = [node for node in graph.nodes if ops.find(node.op).general == "conv" and node.name not in small]
    found = {node.name: _ahead(node, graph) for node in convs}
    return {name: ahead for name, ahead in found.items() if ahead is not None}


def _ahead(node: Node, graph: Graph) -> int | None:
    shape = convolution_shape(node, graph)
    where, plane = in_place(kernel_of(node, shape), shape), shape.in_height * shape.in_width
    if where == "ends":
        return max(0, shape.out_channels - shape.in_channels) * plane
    return 0 if where == "start" and shape.out_height * shape.out_width <= plane else None
