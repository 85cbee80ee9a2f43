"""Transposed convolutions of stride 1, which are ordinary ones with their kernel turned around."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.moments import Moments
from lbnn.graph.graph import Node


def turned_around(node: Node) -> Node:
    """The ordinary convolution that a node is, or the node itself.

    Tap k of element i meets the result in i + k d - p. From there i is d (K - 1 - k) behind the first element under a
    window with padding d (K - 1) - p, which an ordinary convolution has on both sides alike.
    """
    op = ops.find(node.op)
    if op.general != "conv_transposed" or set(node.attrs["stride"]) != {1} or any(node.attrs["output_padding"]):
        return node
    weight: Any = node.params["weight"]
    axes = zip(weight.shape[2:], node.attrs["dilation"], node.attrs["padding"], strict=True)
    padding = tuple(step * (extent - 1) - cut for extent, step, cut in axes)
    if min(padding) < 0:
        return node
    attrs = {"stride": node.attrs["stride"], "padding": padding, "dilation": node.attrs["dilation"]}
    spatial = tuple(range(2, weight.mean.ndim))
    mean, var = (np.flip(op.rows(part, node.attrs), spatial) for part in weight)
    form = "conv_point" if op.point_inputs else "conv"
    params = {**node.params, "weight": Moments(mean, var)}
    return replace(node, op=form, attrs={**attrs, "groups": node.attrs["groups"]}, params=params)
