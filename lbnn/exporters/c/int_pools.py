"""Calls of the integer kernels of pools, upsampling and padding that stand alone behind feature maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn.exporters.c.int_calls import own_value, value_at
from lbnn.exporters.c.program import Call, Emission, call
from lbnn.graph import Node
from lbnn.graph.ints.chains import max_window, pool_window, two
from lbnn.graph.ints.conv import inverse
from lbnn.graph.ints.known import is_written
from lbnn.graph.ints.maps import Windows

POOL, MAX, UPSAMPLE = "lbnn_int_pool.h", "lbnn_int_maxpool.h", "lbnn_int_upsample.h"
AROUND = "lbnn_int_pad.h"


@dataclass(frozen=True)
class PoolStruct:
    """The members of lbnn_int_pool_shape."""

    inverse: str
    channels: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    top: int
    left: int
    count_include_pad: int
    correlated: int
    mean_bits: int
    sigma_bits: int

    @property
    def largest(self) -> int:
        """The largest number that C computes of it as an int."""
        rows = self.height + 2 * self.top + self.kernel_height + self.stride_height
        columns = self.width + 2 * self.left + self.kernel_width + self.stride_width
        return max(self.channels * (self.height * self.width + 1), rows, columns)


@dataclass(frozen=True)
class MaxStruct:
    """The members of lbnn_int_max_shape."""

    channels: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    top: int
    left: int
    dilation_height: int
    dilation_width: int
    mean_bits: int
    sigma_bits: int

    @property
    def largest(self) -> int:
        """The largest number that C computes of it as an int."""
        rows = self.height + 2 * self.top + self.kernel_height * self.dilation_height + self.stride_height
        columns = self.width + 2 * self.left + self.kernel_width * self.dilation_width + self.stride_width
        return max(self.channels * (self.height * self.width + 1), rows, columns)


def sizes(window: Windows, out: tuple[int, int]) -> tuple[int, ...]:
    """Where a convolution or a pool looks, as the structs begin."""
    return (window.channels, *window.size, *out, *window.kernel, *window.stride, *window.start)


def avg_pool_calls(node: Node, emission: Emission) -> list[Call]:
    """An average pool of a map."""
    emission.include(POOL)
    window, _ = pool_window(node, emission.graph)
    shares = inverse(1 + np.arange(window.taps))[0].astype(np.uint16)
    name = emission.constant(node, shares, "_inverse")
    flags = (int(node.attrs["count_include_pad"]), int(node.op == "avg_pool_correlated"))
    bits = emission.facts.bits[emission.facts.source[node.name]]
    members: tuple[Any, ...] = (name, *sizes(window, window.out), *flags, *bits)
    shape = emission.geometry(node, "lbnn_int_pool_shape", PoolStruct(*members))
    given, work = value_at(emission, node.inputs[0]), emission.scratch(node.name)
    return [call("lbnn_int_pool", shape, *given, *own_value(emission, node), work)]


def max_pool_calls(node: Node, emission: Emission) -> list[Call]:
    """A max pool of a map."""
    emission.include(MAX)
    window, bits = max_window(node, emission.graph), emission.facts.bits[emission.facts.source[node.name]]
    members: tuple[Any, ...] = (*sizes(window, window.out), *window.dilation, *bits)
    shape = emission.geometry(node, "lbnn_int_max_shape", MaxStruct(*members))
    given, work = value_at(emission, node.inputs[0]), emission.scratch(node.name)
    return [call("lbnn_int_max_pool", shape, *given, *own_value(emission, node), work)]


def upsample_calls(node: Node, emission: Emission) -> list[Call]:
    """Each pixel several times."""
    emission.include(UPSAMPLE)
    shape = emission.graph.values[node.inputs[0]].shape
    given = (shape[0], *two(shape[1:], 1), *two(node.attrs["factors"], 1))
    return [call("lbnn_int_upsample", *value_at(emission, node.inputs[0]), *own_value(emission, node), *given)]


def pad_calls(node: Node, emission: Emission) -> list[Call]:
    """Zeros around a map; none where convolutions alone read it, which look beyond the edge themselves."""
    if not is_written(node, emission.graph):
        return []
    emission.include(AROUND)
    shape, out = (emission.graph.values[name].shape for name in (node.inputs[0], node.name))
    (top, _), (left, _) = two(node.attrs["padding"], (0, 0))
    given = (shape[0], *two(shape[1:], 1), top, left, *two(out[1:], 1))
    return [call("lbnn_int_pad", *value_at(emission, node.inputs[0]), *own_value(emission, node), *given)]
