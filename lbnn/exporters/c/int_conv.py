"""Calls of the integer kernels of feature maps: a convolution is computed with the leaky-ReLU and the pool behind it.

Its memory beside the values is laid out as c_runtime/lbnn_int_conv.h reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lbnn.exporters.c.int_calls import SOURCE, SPREAD, own_value, tail_constant, value_at
from lbnn.exporters.c.int_memory import chain_words, halves, map_scratch
from lbnn.exporters.c.int_pack import (
    ROW,
    LayerStruct,
    pack_columns,
    pack_rows8,
    pack_rows16,
    stored_rows,
    struct_exponents,
)
from lbnn.exporters.c.int_pools import (
    AROUND,
    MAX,
    POOL,
    UPSAMPLE,
    avg_pool_calls,
    max_pool_calls,
    pad_calls,
    sizes,
    upsample_calls,
)
from lbnn.exporters.c.program import Call, Emission, Emitter, Row, call
from lbnn.graph import INPUT, Node
from lbnn.graph.ints.chains import Chain, pool_window
from lbnn.graph.ints.conv import inverse
from lbnn.graph.ints.quantise_conv import ConvInts
from lbnn.graph.ints.reference import input_affine
from lbnn.graph.ints.study import Study
from lbnn.ops.memory import MEAN, VAR

CONV, MAP = "lbnn_int_conv.h", "lbnn_int_map.h"


@dataclass(frozen=True)
class ConvStruct:
    """The members of lbnn_int_conv_shape."""

    tail: str
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
    groups: int
    inputs: int
    outputs: int
    pool_height: int
    pool_width: int
    inverse: int
    correlated: int
    mean_bits: int
    sigma_bits: int

    @property
    def largest(self) -> int:
        """The largest number that C computes of it as an int: an element of the map, or a place beyond it."""
        rows = self.height + 2 * self.top + self.kernel_height * self.dilation_height + self.stride_height
        columns = self.width + 2 * self.left + self.kernel_width * self.dilation_width + self.stride_width
        return max(self.channels * (self.height * self.width + 1), rows, columns)


def emit_chain(kernel: str, chain: Chain, emission: Emission) -> list[Call]:
    """A convolution with all that is computed with it, in the place of its last node."""
    facts: Study = emission.facts
    conv, node = facts.conv[chain.conv], emission.graph.by_name[chain.conv]
    emission.include(CONV)
    packed, roots, _ = chain_words(chain, emission.graph, facts)
    calls, given = _packed(chain, conv, emission) if packed else ([], value_at(emission, chain.source))
    layer = emission.geometry(node, "lbnn_int_layer", _layer_struct(kernel, conv, node, emission))
    windows = emission.geometry(node, "lbnn_int_conv_shape", _conv_struct(chain, conv, emission), "_windows")
    if roots:
        place = emission.scratch(chain.last, packed)
        calls.append(call("lbnn_int_roots_map", layer, windows, *given, place, SPREAD))
    else:
        calls.append(call("lbnn_int_no_spread", SPREAD))
    last = emission.graph.by_name[chain.last]
    work = emission.scratch(chain.last, packed + roots)
    return [*calls, call(kernel, layer, windows, *given, SPREAD, *own_value(emission, last), work)]


def _packed(chain: Chain, conv: ConvInts, emission: Emission) -> tuple[list[Call], tuple[str, str, str]]:
    """The calls that make mantissas of the input, and where they lie then."""
    window = conv.window
    elements = window.in_pixels * window.channels
    mean = emission.scratch(chain.last)
    sigma = emission.scratch(chain.last, halves(elements)) if emission.graph.input.random else mean
    given, bits = (mean, sigma, "&scale[0]"), emission.facts.bits[INPUT]
    vectors = emission.graph.by_name[chain.conv].op.startswith("linear")
    if vectors or window.channels == 1 or window.in_pixels == 1:
        return [call("lbnn_int_pack", SOURCE, *given, elements, *bits)], given
    sizes = (window.channels, window.in_pixels)
    return [call("lbnn_int_pack_map", SOURCE, 0, 1, *given, *sizes, *bits)], given


def _layer_struct(kernel: str, conv: ConvInts, node: Node, emission: Emission) -> LayerStruct:
    layer, eight = conv.layer, kernel == "lbnn_int8_conv"
    pack = pack_rows8 if eight else pack_rows16
    weight = emission.constant(node, np.concatenate([pack(conv.weight_of(g)) for g in range(conv.groups)]), "_weight")
    sigmas = [pack_rows8(conv.free_of(g), np.uint8) for g in range(conv.groups)] if layer.form == "free" else []
    free = emission.constant(node, np.concatenate(sigmas), "_sigma") if sigmas else "0"
    columns = emission.constant(node, pack_columns(layer, conv.groups), "_columns") if layer.columns.size else "0"
    rows = emission.constant(node, stored_rows(layer.rows), "_rows", lines=((ROW * conv.channels, ROW),))
    sizes = (conv.length, conv.channels, layer.free_bits, layer.column_exponent)
    arrays = (weight, "0") if eight else ("0", weight)
    return LayerStruct(*arrays, free, columns, rows, *sizes, *struct_exponents(layer.rows))


def _conv_struct(chain: Chain, conv: ConvInts, emission: Emission) -> ConvStruct:
    graph, window, out = emission.graph, conv.window, conv.window.out
    tail = tail_constant(graph.by_name[chain.leaky], emission) if chain.leaky else "0"
    pool, share, correlated = (1, 1), 0, False
    if chain.pool is not None:
        found, _ = pool_window(graph.by_name[chain.pool], graph)
        pool, out = found.kernel, found.out
        share = int(inverse(np.array(found.taps))[0])
        correlated = graph.by_name[chain.pool].op == "avg_pool_correlated"
    bits = emission.facts.bits[emission.facts.source[chain.last]]
    pooling: tuple[Any, ...] = (*pool, share, int(correlated), *bits)
    members: tuple[Any, ...] = (
        tail,
        *sizes(window, out),
        *window.dilation,
        conv.groups,
        conv.inputs,
        conv.outputs,
        *pooling,
    )
    return ConvStruct(*members)


def _map_leaky(node: Node, emission: Emission) -> list[Call]:
    emission.include(MAP)
    bits = emission.facts.bits[emission.facts.source[node.name]]
    arrays = (*value_at(emission, node.inputs[0]), *own_value(emission, node))
    table, work = tail_constant(node, emission), emission.scratch(node.name)
    return [call("lbnn_int_map_leaky", *arrays, emission.size(node.name), *bits, table, work)]


def _map_add(node: Node, emission: Emission) -> list[Call]:
    emission.include(MAP)
    bits = emission.facts.bits[emission.facts.source[node.name]]
    inputs: list[Any] = []
    for name in node.inputs:
        mean, sigma, scale = value_at(emission, name)
        inputs += [mean, sigma if len(emission.parts(name)) > 1 else "0", scale]
    own, work = own_value(emission, node), emission.scratch(node.name)
    return [call("lbnn_int_map_add", *inputs, *own, emission.size(node.name), *bits, work)]


def _map_affine(node: Node, emission: Emission) -> list[Call]:
    emission.include(MAP)
    facts, size = emission.facts, emission.size(node.name)
    channels, own, bits = facts.maps[node.name], own_value(emission, node), facts.bits[facts.source[node.name]]
    if node.inputs[0] == INPUT:
        shift, scale = (
            part.astype(np.uint32).view(np.float32) for part in reversed(input_affine(node, emission.graph))
        )
        count = _fewest(shift, scale, channels)
        factors = np.concatenate([part.reshape(count, -1)[:, 0] for part in (shift, scale)])
        name = emission.constant(node, factors, "_factors")
        return [call("lbnn_int_pack_map", SOURCE, name, count, *own, channels, size // channels, *bits)]
    rows = facts.affine[node.name]
    stored = emission.constant(node, stored_rows(rows), "_rows", lines=((ROW * channels, ROW),))
    struct = LayerStruct("0", "0", "0", "0", stored, channels, channels, 0, 0, *struct_exponents(rows))
    layer = emission.geometry(node, "lbnn_int_layer", struct)
    arrays = (*value_at(emission, node.inputs[0]), *own)
    return [call("lbnn_int_map_affine", layer, *arrays, size // channels, *bits, emission.scratch(node.name))]


def _fewest(shift: Any, scale: Any, channels: int) -> int:
    """One factor for all, one a channel, or one an element."""
    counts = (1, channels, shift.size)
    rows = {count: [part.reshape(count, -1) for part in (shift, scale)] for count in counts}
    return next(count for count in counts if all(np.all(row == row[:, :1]) for row in rows[count]))


def _map_concat(node: Node, emission: Emission) -> list[Call]:
    emission.include(MAP)
    facts, calls, ahead = emission.facts, [], 0
    own = own_value(emission, node)
    given = [value_at(emission, name) for name in node.inputs]
    for number, (_, _, scale) in enumerate(given):
        calls.append(call("lbnn_int_join_scale", scale, own[2], int(number == 0)))
    for name, part in zip(node.inputs, given, strict=True):
        channels = facts.maps[name]
        places = (emission.size(name) // channels, channels, facts.maps[node.name], ahead)
        calls.append(call("lbnn_int_join", *part, *own, *places))
        ahead += channels
    return calls


def map_closing(emission: Emission, vectors: list[Call]) -> list[Call]:
    """What brings a result into torch's order; else as `vectors` says."""
    name = emission.graph.output
    order = emission.facts.orders[name]
    if order is None:
        return vectors
    emission.include(MAP)
    channels = emission.facts.maps[emission.facts.source[name]]
    given, (mean, var) = value_at(emission, name), _unfolded(emission)
    sizes = (channels, emission.size(name) // channels)
    return [call("lbnn_int_unfold", *given, mean, var, given[2], *sizes)]


def _unfolded(emission: Emission) -> tuple[str, str]:
    """Behind all else that the last node has."""
    name, size = emission.graph.output, emission.size(emission.graph.output)
    ahead = map_scratch(emission.graph, emission.facts)[name] - 2 * size
    return emission.scratch(name, ahead), emission.scratch(name, ahead + size)


def map_result(emission: Emission) -> tuple[str, str]:
    """Where mean and variance of the result lie."""
    if emission.facts.orders[emission.graph.output] is None:
        return emission.at(emission.graph.output, MEAN), emission.at(emission.graph.output, VAR)
    return _unfolded(emission)


def _either(kernel: str, on_map: Emitter, on_vector: Emitter, node: Node, emission: Emission) -> list[Call]:
    facts: Study = emission.facts
    if node.name in facts.inner:
        return []
    if node.name in facts.chains:
        return emit_chain(kernel, facts.chains[node.name], emission)
    return (on_map if node.name in facts.maps else on_vector)(node, emission)


def _nothing(node: Node, emission: Emission) -> list[Call]:
    return []


_KERNELS = (
    *("lbnn_int_no_spread", "lbnn_int_roots_map", "lbnn_int_window", "lbnn_int_factored", "lbnn_int_free_sums"),
    *("lbnn_int_pool_window", "lbnn_int_settle", "lbnn_int_level", "lbnn_int_map_means", "lbnn_int_map_sigmas"),
    *("lbnn_int_map_leaky", "lbnn_int_map_add", "lbnn_int_map_affine", "lbnn_int_unfold"),
)
"""What a network with convolutions may call."""

_ON_MAPS: Mapping[str, Emitter] = {
    "linear": _nothing,
    "leaky_relu": _map_leaky,
    "affine": _map_affine,
    "add": _map_add,
    "concat": _map_concat,
}


def rows_with_maps(kernel: str, rows: Mapping[str, Row]) -> Mapping[str, Row]:
    """The rows of an arithmetic for vectors, and what they do with feature maps; `kernel` computes convolutions."""
    found = dict(rows)
    for op, emit in _ON_MAPS.items():
        row = rows[op]
        found[op] = Row(row.header, row.kernels, partial(_either, kernel, emit, row.emit))
    sums = kernel.replace("conv", "sums")
    pooled = partial(_either, kernel, avg_pool_calls, _nothing)
    return found | {
        "conv": Row(CONV, (kernel, sums, *_KERNELS), partial(_either, kernel, _nothing, _nothing)),
        "avg_pool": Row(POOL, ("lbnn_int_pool",), pooled),
        "avg_pool_correlated": Row(POOL, ("lbnn_int_pool",), pooled),
        "max_pool": Row(MAX, ("lbnn_int_max_pool", "lbnn_int_match"), max_pool_calls),
        "upsample": Row(UPSAMPLE, ("lbnn_int_upsample",), upsample_calls),
        "pad": Row(AROUND, ("lbnn_int_pad",), pad_calls),
    }
