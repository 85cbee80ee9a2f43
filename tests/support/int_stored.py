"""A graph with the numbers that its integers store: what is lost by the arithmetic alone is lost against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lbnn.base.moments import Moments
from lbnn.graph import Graph, rebuild
from lbnn.graph.ints.study import Study, study


def stored_weights(graph: Graph, mean_bits: int = 8) -> Graph:
    """The prepared graph with weights, their variances and biases as its integers say."""
    facts, nodes = study(graph, mean_bits), []
    for node in graph.nodes:
        layer = facts.linear.get(node.name) or (facts.conv[node.name].layer if node.name in facts.conv else None)
        if layer is not None:
            rows, unit = layer.rows, np.ldexp(1.0, facts.units.astype(int)) if node.name == graph.output else 1.0
            scale = unit * rows.m * 2.0 ** (rows.scale_exponent - 15 - rows.km)
            weight, bias = _moments(node.params["weight"]), _moments(node.params["bias"])
            groups = node.attrs.get("groups", 1)
            var = _torch_order(_free(layer, unit, groups), node, facts) if layer.form == "free" else weight.var
            mean = _torch_order(layer.weight * scale[:, None], node, facts)
            stored = unit * rows.b * 2.0 ** (rows.bias_exponent + 6.0 - rows.kb)
            node = replace(node, params={"weight": Moments(mean, var), "bias": Moments(stored, bias.var)})
        nodes.append(node)
    return rebuild(graph, nodes)


def _moments(value: Any) -> Moments[Any]:
    return Moments(value.mean, value.var)


def _free(layer: Any, unit: Any, groups: int) -> Any:
    """Variances that are stored as sigmas of 8 bits; each group has columns of its own, which taps share."""
    rows = unit**2 * layer.rows.a * 2.0 ** (layer.rows.spread_exponent - 16 - layer.rows.ka)
    columns = (layer.columns * 2.0 ** (layer.column_exponent - 16.0)).reshape(groups, -1)
    outputs, inputs = layer.free.shape
    own = np.repeat(np.tile(columns, (1, inputs // columns.shape[1])), outputs // groups, axis=0)
    return rows[:, None] * np.square(layer.free * own)


def _torch_order(weight: Any, node: Any, facts: Study) -> Any:
    if node.name in facts.conv:
        out, inputs, *kernel = node.params["weight"].shape
        return np.moveaxis(weight.reshape(out, *kernel, inputs), -1, 1)
    order = facts.orders[node.inputs[0]]
    return weight if order is None else weight[:, np.argsort(order)]
