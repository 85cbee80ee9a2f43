"""Instructions a product takes on a Cortex-M4F, whatever the shape of a convolution: width, stride, odd channel counts.

A network here has many shapes, as real ones have: the numbers of a single one gcc would put into the kernel.
"""

from math import prod

import numpy as np
import pytest
import torch

from lbnn import nn as bnn
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.layers import layer_costs
from lbnn.model.file import read_model
from places import need

FLAGS = ("-O2", "-std=gnu99", "-fno-math-errno")
CHANNELS = 8
DEPTHWISE, ODD = 10.0, 1.2
STRIDES = {1: 6.5, 3: 6.2}
"""The most for a product with stride 2, by kernel."""
OTHER = {1: {3: 67.0, 5: 47.0, 9: 33.0}, 2: {5: 25.0, 7: 19.0}}
"""The most for a depthwise product of other windows, by axes and kernel."""


def per_product(layers, shape, folder):
    """Instructions for each product of the convolutions, taps outside counted, on inputs of this shape."""
    need("arm-none-eabi-gcc")
    torch.manual_seed(0)
    model, options = read_model(bnn.Sequential(*layers), shape), COptions(name="net", input_variance=True)
    program, rng = lower(model, options), np.random.default_rng(0)
    given = rng.normal(size=(1, prod(shape))), rng.exponential(size=(1, prod(shape)))
    net = write_program(program, model, options, folder / "c")
    result = run_model("cortex-m4-gcc", net, *(x.astype(np.float32) for x in given), flags=FLAGS, profile=True)
    macs = [_macs(node, program.graph) for node in program.graph.nodes if node.op == "conv"]
    taken = [layer.instructions for layer in layer_costs(program, net.source, result) if layer.op == "conv"]
    return [count / products for count, products in zip(taken, macs, strict=True)]


def _macs(node, graph):
    return prod(graph.values[node.name].shape[1:]) * node.params["weight"].mean.size


def depthwise(**keywords):
    return bnn.Conv2d(CHANNELS, CHANNELS, 3, groups=CHANNELS, **keywords)


def dear(kinds, layers, widest, folder):
    """Those kinds of depthwise layers of a network that take more for a product."""
    found = dict(zip(kinds, per_product(layers, (CHANNELS, widest, widest), folder), strict=True))
    return {kind: cost for kind, cost in found.items() if cost > DEPTHWISE}


@pytest.mark.parametrize("widest", [26, 25])
def test_a_depthwise_product_takes_at_most_ten_at_any_width(widest, tmp_path):
    """Outputs of 3 to 24 columns, every other one, with a column of padding; a layer without any leads to the next."""
    layers, kinds = [], []
    for width in range(widest, 4, -2):
        layers += [bnn.UpsampleNearest(2), depthwise(stride=2, padding=1), depthwise(padding=1), depthwise()]
        kinds += [(width, "stride 2"), (width, "stride 1"), (width - 2, "no padding")]
    small = (widest - 1) % 2 + 3  # what is left
    layers += [bnn.UpsampleNearest(2), depthwise(stride=2, padding=1), depthwise(padding=1)]
    kinds += [(small, "stride 2"), (small, "stride 1")]
    assert dear(kinds, layers, widest, tmp_path) == {}


@pytest.mark.parametrize("widths", [range(24, 13, -1), range(13, 2, -1)])
def test_so_does_one_with_stride_2_and_no_padding(widths, tmp_path):
    """Twice as large and a column less is what the next smaller output needs."""
    layers = [depthwise(stride=2)]
    for _ in widths[1:]:
        layers += [bnn.UpsampleNearest(2), bnn.AvgPool2d(2, stride=1), depthwise(stride=2)]
    assert dear([(width, "stride 2") for width in widths], layers, 2 * widths[0] + 1, tmp_path) == {}


@pytest.mark.parametrize("axes", OTHER)
def test_depthwise_windows_without_a_kernel_of_their_own_stay_as_dear_as_stated(axes, tmp_path):
    """docs/performance.md states these numbers: the general convolution takes them, in a network of several shapes."""
    make, size, layers = (bnn.Conv1d, (64,), []) if axes == 1 else (bnn.Conv2d, (12, 12), [])
    for kernel in OTHER[axes]:
        layers += [make(CHANNELS, CHANNELS, kernel, groups=CHANNELS, padding=kernel // 2)]
    layers += [make(CHANNELS, CHANNELS, 3, groups=CHANNELS // 2, stride=2, dilation=2)]
    found = dict(zip(OTHER[axes], per_product(layers, (CHANNELS, *size), tmp_path), strict=False))
    assert all(found[kernel] <= most for kernel, most in OTHER[axes].items()), found


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (1, 2), (3, 2)])
def test_odd_channel_counts_take_at_most_a_fifth_more(kernel, stride, tmp_path):
    """A product with 5, 7, ... 15 output channels takes at most 1.2 times one with either even neighbour."""
    layers, counts = [], range(4, 17)
    for count in counts:
        for channels in ((CHANNELS, count), (count, CHANNELS)):
            enlarged = [bnn.UpsampleNearest(stride)] if stride > 1 else []
            layers += [*enlarged, bnn.Conv2d(*channels, kernel, stride=stride, padding=kernel // 2)]
    found = dict(zip(counts, per_product(layers, (CHANNELS, 8, 8), tmp_path)[::2], strict=True))
    times = {odd: found[odd] / min(found[odd - 1], found[odd + 1]) for odd in counts if odd % 2}
    assert max(times.values()) <= ODD, times


def test_a_stride_of_two_makes_products_little_dearer(tmp_path):
    """32 to 64 channels, from 16x16 to 8x8: products of 1x1 and 3x3 beside the same ones with stride 1 on 8x8."""
    layers = []
    for kernel in STRIDES:
        strided = bnn.Conv2d(32, 64, kernel, stride=2, padding=kernel // 2)
        layers += [bnn.UpsampleNearest(2), strided, bnn.Conv2d(64, 32, kernel, padding=kernel // 2)]
    costs = per_product(layers, (32, 8, 8), tmp_path)
    found = {kernel: costs[2 * at] for at, kernel in enumerate(STRIDES)}
    assert all(found[kernel] <= most for kernel, most in STRIDES.items()), found
