"""Small graphs for the planner: chains, and random branching networks of every operator that shares memory."""

from math import prod

import numpy as np
from hypothesis import strategies as st

from lbnn.base.moments import Moments
from lbnn.graph import INPUT, GraphBuilder


def gaussian(*shape):
    index = np.arange(prod(shape)).reshape(shape)
    return Moments((index * 37 % 16 - 7.5) / 8, (1 + index * 29 % 8) / 16)


def linear(builder, source, size):
    width = builder.values[source].shape[-1]
    params = {"weight": gaussian(size, width), "bias": gaussian(size)}
    return builder.add("linear", "linear", [source], params=params)


def pointwise(builder, source, channels):
    """A convolution of 1x1."""
    shape = builder.values[source].shape
    rank = len(shape) - 1
    attrs = dict(stride=(1,) * rank, padding=(0,) * rank, dilation=(1,) * rank, groups=1)
    params = {"weight": gaussian(channels, shape[0], *(1,) * rank), "bias": gaussian(channels)}
    return builder.add("point", "conv", [source], attrs, params)


def depthwise(builder, source, stride=1):
    """A convolution of 3x3, channel by channel."""
    shape = builder.values[source].shape
    rank = len(shape) - 1
    attrs = dict(stride=(stride,) * rank, padding=(1,) * rank, dilation=(1,) * rank, groups=shape[0])
    params = {"weight": gaussian(shape[0], 1, *(3,) * rank), "bias": gaussian(shape[0])}
    return builder.add("depth", "conv", [source], attrs, params)


def pool(builder, source, size=2, padding=0):
    attrs = dict(kernel_size=(size,), stride=(size,), padding=(padding,), ceil_mode=True, count_include_pad=False)
    return builder.add("pool", "avg_pool", [source], attrs)


def affine(builder, source):
    return builder.add("affine", "affine", [source], params={"scale": np.array(2.0), "shift": np.array(1.0)})


def activation(builder, source):
    return builder.add("act", "leaky_relu", [source], {"negative_slope": 0.1})


def chain(sizes, random=False, decorate=lambda builder, value: value):
    builder = GraphBuilder("chain", (sizes[0],), random)
    value = INPUT
    for size in sizes[1:]:
        value = decorate(builder, linear(builder, value, size))
    return builder.finish(value)


def stack(*layers, shape=(2, 4, 4)):
    """A graph of convolutions: a number of channels for 1x1, d for depthwise, s for depthwise with stride 2."""
    builder = GraphBuilder("stack", shape, random=True)
    value = activation(builder, INPUT)
    for layer in layers:
        if isinstance(layer, int):
            value = pointwise(builder, value, layer)
        else:
            value = depthwise(builder, value, 1 if layer == "d" else 2)
        value = activation(builder, value)
    return builder.finish(value)


KINDS = ("linear", "act", "affine", "add", "concat", "concat1", "flatten", "pool", "head", "point", "depth")


@st.composite
def graphs(draw, random=None):
    """Branching networks of every operator that shares memory; the last layer has weights."""
    random = draw(st.booleans()) if random is None else random
    builder = GraphBuilder("random", (draw(st.integers(1, 6)), 4), random)
    values = [INPUT]
    for _ in range(draw(st.integers(1, 14))):
        source = draw(st.sampled_from(values[-4:]))
        shape = builder.values[source].shape
        same = [name for name in values if builder.values[name].shape == shape]
        kind = draw(st.sampled_from(KINDS))
        if kind == "point" and len(shape) == 2:
            value = pointwise(builder, source, draw(st.integers(1, 8)))
        elif kind == "depth" and len(shape) == 2:
            value = depthwise(builder, source, draw(st.integers(1, 2)))
        elif kind == "linear":
            value = linear(builder, source, draw(st.integers(1, 8)))
        elif kind == "add":
            value = builder.add("add", "add", [source, draw(st.sampled_from(same))])
        elif kind == "concat" or (kind == "concat1" and len(shape) == 2):
            parts = draw(st.lists(st.sampled_from(same), min_size=1, max_size=3))
            value = builder.add("concat", "concat", [source, *parts], {"axis": int(kind == "concat1")})
        elif kind == "flatten":
            value = builder.add("flatten", "flatten", [source])
        elif kind == "pool" and len(shape) == 2:
            value = pool(builder, source, padding=draw(st.integers(0, 1)))
        elif kind == "head" and shape[0] % 2 == 0:
            value = builder.add("head", "variance_head", [source])
        else:
            value = (activation if kind == "act" else affine)(builder, source)
        values.append(value)
    return builder.finish(linear(builder, values[-1], 2))
