"""Which integer kernel computes which operator: one row for each, and the emitters that make its calls.

Values are wide or narrow as lbnn/graph/ints/study.py decides; `scale` holds the exponents of each, that of the input
first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from lbnn.exporters.c.int_pack import (
    ROW,
    LayerStruct,
    pack_columns,
    pack_rows8,
    pack_weights8,
    pack_weights16,
    stored_rows,
    struct_exponents,
)
from lbnn.exporters.c.program import Call, Emission, Row, call
from lbnn.graph import INPUT, Graph, Node
from lbnn.graph.ints.quantise import LinearInts
from lbnn.graph.ints.reference import input_affine
from lbnn.graph.ints.study import Study
from lbnn.graph.ints.tables import tail_table
from lbnn.ops.memory import MEAN, VAR

SOURCE = "source"
"""What generated C calls the input."""

SPREAD = "&spread"
"""And what the variances of a layer's weights are times of."""


def integer_scratch(graph: Graph, facts: Study) -> dict[str, int]:
    """Words that layers need beside their values: the packed input, roots of second moments, their sums."""
    found = {}
    for node in graph.nodes:
        layer = facts.linear.get(node.name)
        if layer is not None:
            inputs = layer.weight.shape[1]
            packed = _packed_words(inputs, graph) if facts.source[node.inputs[0]] == INPUT else 0
            found[node.name] = packed + (sum(layer.weight.shape) if layer.form == "free" else 0)
    return {name: words for name, words in found.items() if words}


def _packed_words(inputs: int, graph: Graph) -> int:
    return (2 if graph.input.random else 1) * ((inputs + 1) // 2)


def _scale(emission: Emission, name: str) -> str:
    source = emission.facts.source[name]
    index = 0 if source == INPUT else 1 + [node.name for node in emission.graph.nodes].index(source)
    return f"&scale[{index}]"


def _pointers(emission: Emission, name: str) -> tuple[str, str]:
    """Mean and second array of a value; a known value has no second one, and kernels do not touch it."""
    parts = emission.parts(name)
    return emission.at(name, MEAN), emission.at(name, VAR if len(parts) > 1 else MEAN)


def value_at(emission: Emission, name: str) -> tuple[str, str, str]:
    """The arrays of a value and its exponents."""
    return (*_pointers(emission, name), _scale(emission, name))


def own_value(emission: Emission, node: Node) -> tuple[str, str, str]:
    """Those of a node's result."""
    return value_at(emission, node.name)


def _finished(emission: Emission, node: Node, calls: list[Call]) -> list[Call]:
    """A wide value becomes narrow where something needs it so; the last one stays or becomes wide."""
    if node.name in emission.facts.wide:
        return calls
    return [*calls, _narrow(emission, node, own_value(emission, node))]


def _narrow(emission: Emission, node: Node, source: tuple[str, str, str], table: str = "") -> Call:
    bits = emission.facts.bits[emission.facts.source[node.name]]
    given = (*source, *own_value(emission, node), emission.size(node.name), *bits)
    return call("lbnn_int_activate", *given, table) if table else call("lbnn_int_narrow", *given)


def _widened(emission: Emission, node: Node) -> tuple[list[Call], tuple[str, str, str]]:
    """The calls that make a wide input of a node, and where it lies then."""
    name, own = node.inputs[0], own_value(emission, node)
    if name in emission.facts.wide:
        return [], value_at(emission, name)
    return [call("lbnn_int_widen", *value_at(emission, name), *own, emission.size(name))], own


def _linear(kernel: str, node: Node, emission: Emission) -> list[Call]:
    layer: LinearInts = emission.facts.linear[node.name]
    name = node.inputs[0]
    calls, scratch, given = [], "0", value_at(emission, name)
    if node.name in emission.plan.scratch:
        scratch = emission.scratch(node.name)
    if emission.facts.source[name] == INPUT:
        inputs = layer.weight.shape[1]
        sigma = emission.scratch(node.name, (inputs + 1) // 2) if emission.graph.input.random else scratch
        given = (scratch, sigma, "&scale[0]")
        bits = emission.facts.bits[emission.facts.source[name]]
        calls.append(call("lbnn_int_pack", SOURCE, *given, inputs, *bits))
        scratch = emission.scratch(node.name, _packed_words(inputs, emission.graph)) if layer.form == "free" else "0"
    geometry = emission.geometry(node, "lbnn_int_layer", _struct(kernel, layer, node, emission))
    calls += _spread_calls(layer, geometry, given, scratch)
    calls.append(call(kernel, geometry, *given, SPREAD, *own_value(emission, node)))
    return _finished(emission, node, calls)


def _spread_calls(layer: LinearInts, geometry: str, given: tuple[str, str, str], scratch: str) -> list[Call]:
    """What finds the factor of the variances of the weights."""
    if layer.form == "none":
        return [call("lbnn_int_no_spread", SPREAD)]
    if layer.form == "factors":
        return [call("lbnn_int_shared", geometry, *given, SPREAD)]
    return [call("lbnn_int_moments", geometry, *given, scratch, SPREAD)]


def _struct(kernel: str, layer: LinearInts, node: Node, emission: Emission) -> LayerStruct:
    eight = kernel == "lbnn_int8_linear"
    weight = emission.constant(node, pack_weights8(layer) if eight else pack_weights16(layer), "_weight")
    free = emission.constant(node, pack_rows8(layer.free, np.uint8), "_sigma") if layer.form == "free" else "0"
    columns = emission.constant(node, pack_columns(layer), "_columns") if layer.columns.size else "0"
    rows = emission.constant(node, stored_rows(layer.rows), "_rows", lines=((ROW * len(layer.weight), ROW),))
    outputs, inputs = layer.weight.shape
    sizes = (inputs, outputs, layer.free_bits, layer.column_exponent)
    return LayerStruct(
        weight if eight else "0", "0" if eight else weight, free, columns, rows, *sizes, *struct_exponents(layer.rows)
    )


def _leaky_relu(node: Node, emission: Emission) -> list[Call]:
    calls, source = _widened(emission, node)
    return [*calls, _narrow(emission, node, source, tail_constant(node, emission))]


def tail_constant(node: Node, emission: Emission) -> str:
    """Layers with the same slope share a table."""
    values = tail_table(node.attrs["negative_slope"]).astype(np.uint16)
    for array in emission.weights:
        if array.name.endswith("_tail") and np.array_equal(array.values, values):
            return array.name
    return emission.constant(node, values, "_tail", lines=((65, 13), (65, 13), (65, 13)))


def _affine(node: Node, emission: Emission) -> list[Call]:
    own, size = own_value(emission, node), emission.size(node.name)
    if emission.facts.source[node.inputs[0]] == INPUT:
        scale, shift = (pattern.astype(np.uint32).view(np.float32) for pattern in input_affine(node, emission.graph))
        factors = emission.constant(node, np.concatenate([shift, scale]), "_factors")
        bits = emission.facts.bits[node.name]
        return [call("lbnn_int_standardize", SOURCE, factors, *own, size, *bits)]
    rows = emission.facts.affine[node.name]
    stored = emission.constant(node, stored_rows(rows), "_rows", lines=((ROW * size, ROW),))
    struct = LayerStruct("0", "0", "0", "0", stored, size, size, 0, 0, *struct_exponents(rows))
    calls, source = _widened(emission, node)
    geometry = emission.geometry(node, "lbnn_int_layer", struct)
    return _finished(emission, node, [*calls, call("lbnn_int_affine", geometry, *source, *own)])


def _add(node: Node, emission: Emission) -> list[Call]:
    inputs: list[Any] = []
    for name in node.inputs:
        mean, sigma, scale = value_at(emission, name)
        inputs += [mean, sigma if len(emission.parts(name)) > 1 else "0", scale]
    return _finished(
        emission, node, [call("lbnn_int_add", *inputs, *own_value(emission, node), emission.size(node.name))]
    )


def _concat(node: Node, emission: Emission) -> list[Call]:
    axis, calls, ahead = node.attrs["axis"], [], 0
    count, step = prod(emission.shape(node.name)[:axis]), prod(emission.shape(node.name)[axis:])
    scales = [_scale(emission, name) for name in (*node.inputs, node.name)]
    for number, scale in enumerate(scales[:-1]):
        calls.append(call("lbnn_int_join_scale", scale, scales[-1], int(number == 0)))
    for name in node.inputs:
        length = prod(emission.shape(name)[axis:])
        places = (count, length, step, ahead)
        calls.append(call("lbnn_int_join", *value_at(emission, name), *own_value(emission, node), *places))
        ahead += length
    return calls


def _variance_head(node: Node, emission: Emission) -> list[Call]:
    given = value_at(emission, node.inputs[0])
    kernel = call("lbnn_int_variance_head", *given, *own_value(emission, node), emission.size(node.name))
    return _finished(emission, node, [kernel])


def _lift(node: Node, emission: Emission) -> list[Call]:
    _, sigma, scale = own_value(emission, node)
    given, words = value_at(emission, node.inputs[0])[2], (emission.size(node.name) + 1) // 2
    return [call("lbnn_int_known", given, sigma, scale, words)]


def _nothing(node: Node, emission: Emission) -> list[Call]:
    return []


def closing_calls(emission: Emission) -> list[Call]:
    """What makes a narrow result wide, where it lies; notes the units of outputs."""
    name = emission.graph.output
    if np.any(emission.facts.units):
        emission.constant(emission.graph.by_name[name], emission.facts.units.astype(np.int16), "_units")
    if name in emission.facts.wide:
        return []
    own = value_at(emission, name)
    return [call("lbnn_int_widen", *own, *own, emission.size(name))]


_PACK = ("lbnn_int_pack_means", "lbnn_int_pack_sigmas")
_SCALE = ("lbnn_int_scale_means", "lbnn_int_scale_vars")
_LINEAR = (*_PACK, "lbnn_int_narrow", "lbnn_int_activate", "lbnn_int_shared", "lbnn_int_moments", "lbnn_int_no_spread")


def integer_rows(kernel: str) -> Mapping[str, Row]:
    """The rows of an arithmetic whose linear layers `kernel` computes."""
    end, more = "lbnn_int.h", "lbnn_int_more.h"
    return {
        "linear": Row("lbnn_int_linear.h", (kernel, *_LINEAR), partial(_linear, kernel)),
        "leaky_relu": Row(end, ("lbnn_int_activate", "lbnn_int_widen"), _leaky_relu),
        "affine": Row(more, ("lbnn_int_affine", *_SCALE, *_PACK, "lbnn_int_widen", "lbnn_int_narrow"), _affine),
        "add": Row(more, ("lbnn_int_add", "lbnn_int_narrow"), _add),
        "concat": Row(more, ("lbnn_int_join_scale", "lbnn_int_join"), _concat),
        "flatten": Row(end, (), _nothing),
        "lift": Row(more, ("lbnn_int_known",), _lift),
        "variance_head": Row(more, ("lbnn_int_variance_head", "lbnn_int_narrow"), _variance_head),
    }
