"""Weights as IEEE half floats: rounding a graph to what they hold, and the words that the kernels read.

A weight is one word of 32 bits, its mean in the lower half and sigma in the upper; biases stay floats. Means are
rounded to the nearest half float. Sigmas are rounded up, by less than 2^-10 of themselves, so that a network becomes
less sure and never surer. What no normal half float can hold that near is scaled by a power of two, for the whole layer
or for each of its outputs, and an affine node behind the layer scales back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import AnyArray, Array
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.exporters.c import literals
from lbnn.exporters.c.dtypes.float32 import FLOAT32_DTYPE
from lbnn.exporters.c.pack import PackedLayer, packed_blocks
from lbnn.exporters.c.weighted import gaussian_param
from lbnn.graph import Graph, Node
from lbnn.graph.graph import rebuild

MOST_HALF = 65504.0
"""The largest half float."""
LEAST_HALF = 2.0**-14
"""The smallest that has all 11 digits."""
TOP_EXPONENT = 14
"""Scaled, the largest number of a row lies in [2^14, 2^15)."""
LEAST_FLOAT = float(np.finfo(np.float32).tiny)
HALF_OPS = ("linear", "conv", "conv_transposed")
"""Operators whose kernels read half floats, by the name of their general form."""


def halve(graph: Graph) -> Graph:
    """The graph with weights that half floats hold; where they must be scaled, an affine node has the layer's name."""
    return rebuild(graph, (made for node in graph.nodes for made in _halved(node, graph)))


def _halved(node: Node, graph: Graph) -> Iterator[Node]:
    if ops.find(node.op).general not in HALF_OPS:
        yield node
        return
    rows, bias = ops.find(node.op).rows, gaussian_param(node, "bias")
    weight = Moments(*(rows(part, node.attrs) for part in gaussian_param(node, "weight")))
    exponents = _exponents(node.name, weight)
    scale = np.ldexp(1.0, -exponents)
    stored = Moments(_scaled(weight.mean, scale), _scaled(weight.var, scale * scale))
    rounded = Moments(*(rows(part, node.attrs) for part in _rounded(stored)))
    params = {"weight": rounded, "bias": _scaled_bias(bias, scale)}
    if not exponents.any():
        yield replace(node, params=params)
        return
    layer = f"{node.name}_half"
    while layer in graph.values:
        layer += "_"
    yield replace(node, name=layer, params=params)
    axes = 1 if ops.find(node.op).general == "linear" else len(graph.values[node.name].shape)
    back = (1.0 / scale).reshape(-1, *(1,) * (axes - 1))
    yield Node(node.name, "affine", (layer,), {}, {"scale": back, "shift": np.zeros_like(back)})


def _scaled(values: Array, scale: Array) -> Array:
    return values * scale.reshape(-1, *(1,) * (values.ndim - 1))


def _scaled_bias(bias: Moments[Array], scale: Array) -> Moments[Array]:
    """Floats have room for any scale but the largest; a variance that would fall out of them below stays above 0."""
    if (scale == 1.0).all():
        return bias
    mean, var = bias.mean * scale, bias.var * scale * scale
    return Moments(mean, np.where(var > 0.0, np.maximum(var, LEAST_FLOAT), 0.0))


def _exponents(name: str, weight: Moments[Array]) -> AnyArray:
    """For each output the power of two by which its weights are divided: none, one for all, or one for each."""
    mean, sigma = (part.reshape(len(weight.mean), -1) for part in (np.abs(weight.mean), np.sqrt(weight.var)))
    largest = np.maximum(mean.max(axis=1), sigma.max(axis=1))
    rows = np.where(largest > 0.0, np.frexp(largest)[1] - 1 - TOP_EXPONENT, 0)
    for exponents in (np.zeros_like(rows), np.full_like(rows, rows.max()), rows):
        scale = np.ldexp(1.0, -exponents)[:, None]
        if _fits(mean * scale, sigma * scale).all():
            return exponents
    worst = int(np.argmin(_fits(mean * scale, sigma * scale)))
    least, most = sigma[worst][sigma[worst] > 0.0].min(), largest[worst]
    raise LbnnError(
        f"layer {name}: the weights of output {worst} go from sigmas of {least:.2g} up to {most:.2g}, which half "
        "floats do not span; export with --weights source"
    )


def _fits(mean: Array, sigma: Array) -> AnyArray:
    """Whether half floats hold each row with all digits that count.

    A mean below 2^-14 loses digits, at most 2^-25: less than 2^-11 of the least sigma, so that no weight with a
    variance shows it. One that is known for sure may lose what float32 rounds away beside the row's largest.
    """
    held: AnyArray = (np.maximum(mean, sigma) <= MOST_HALF).all(axis=1) & ((sigma == 0.0) | (sigma >= LEAST_HALF)).all(
        axis=1
    )
    lost = (mean > 0.0) & (mean < LEAST_HALF) & (sigma == 0.0)
    held &= ~lost.any(axis=1) | (mean.max(axis=1) >= 0.5)
    return held


def _rounded(weight: Moments[Array]) -> Moments[Array]:
    """Means to the nearest half float, sigmas to the least whose square is no smaller than the variance."""
    return Moments(weight.mean.astype(np.float16).astype(np.float64), _sigma(weight.var).astype(np.float64) ** 2)


def _sigma(var: Array) -> AnyArray:
    nearest = np.sqrt(var).astype(np.float16)
    below = nearest.astype(np.float64) ** 2 < var
    return np.where(below, np.nextafter(nearest, np.float16(np.inf)), nearest)


def half_words(weight: Moments[Any]) -> AnyArray:
    """Of weights that half floats hold: mean in the lower 16 bits, sigma in the upper."""
    mean, sigma = weight.mean.astype(np.float16), np.sqrt(weight.var).astype(np.float16)
    assert np.array_equal(mean.astype(np.float64), weight.mean), "rounded before"
    assert np.array_equal(sigma.astype(np.float64) ** 2, weight.var), "rounded before"
    words: AnyArray = sigma.view(np.uint16).astype(np.uint32) << np.uint32(16)
    words |= mean.view(np.uint16)
    return words


def pack_halves(weight: Moments[Any], bias: Moments[Any], groups: int, pad: int, what: str) -> PackedLayer:
    """As pack_weights: a row of biases, the bits of floats, and a row of words for each input."""
    words = half_words(weight).reshape(len(weight.mean), -1)
    biases = [literals.float32(part, what).view(np.uint32) for part in bias]
    parts, lines = [], []
    for rows in packed_blocks(len(words), groups):
        width = len(words[rows])
        parts += [*(part[rows] for part in biases), words[rows].T.reshape(-1)]
        lines += [(2 * width, 2 * width), (width * words.shape[1], width)]
    return PackedLayer(np.concatenate([*parts, np.zeros(pad, np.uint32)]), tuple(lines))


def _store(values: Any, what: str) -> AnyArray:
    words = isinstance(values, np.ndarray) and values.dtype == np.uint32
    return values if words else literals.float32(values, what)


def _lines(values: AnyArray, width: int) -> list[str]:
    if values.dtype != np.uint32:
        return literals.rows(values, width)
    texts = [f"0x{word:08x}u" for word in values.tolist()]
    return [", ".join(texts[start : start + width]) for start in range(0, len(texts), width)]


HALF_DTYPE = replace(FLOAT32_DTYPE, store=_store, lines=_lines, pack=pack_halves, round=halve, half=True)
"""float32 with weights in half floats."""
