"""The integer reference: a graph in numpy integers, which integer C equals bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Floats
from lbnn.graph.graph import INPUT, Graph, Node
from lbnn.graph.ints import ends, kernels, others
from lbnn.graph.ints.fixed import Whole
from lbnn.graph.ints.study import Study, elementwise, study
from lbnn.graph.ints.tables import tail_table
from lbnn.graph.ints.values import Narrow, Wide

AnyValue = Wide | Narrow


@dataclass(frozen=True)
class IntegerResult:
    """What NAME_predict gives for a batch: float32 [n, outputs], and where a result was beyond float."""

    mean: Floats
    var: Floats
    saturated: Any


def predict_integers(graph: Graph, mean_bits: int, mean: Any, var: Any = None) -> IntegerResult:
    """A prepared graph for inputs [n, *shape] of float32; `mean_bits` is 8 or 12."""
    facts = study(graph, mean_bits)
    inputs = tuple(None if part is None else ends.float_bits(part).reshape(len(mean), -1) for part in (mean, var))
    values: dict[str, AnyValue] = {}
    for node in graph.nodes:
        values[node.name] = _Step(graph, facts, inputs, values).run(node)
    out = values[graph.output]
    wide = out if isinstance(out, Wide) else kernels.widen(out)
    mean_bits_out, var_bits, beyond = ends.emit(wide, facts.units)
    return IntegerResult(ends.from_bits(mean_bits_out), ends.from_bits(var_bits), beyond)


@dataclass(frozen=True)
class _Step:
    """One node, with all that it may need."""

    graph: Graph
    facts: Study
    inputs: tuple[Whole | None, ...]
    values: dict[str, AnyValue]

    def run(self, node: Node) -> AnyValue:
        general = ops.find(node.op).general
        result: AnyValue = getattr(self, f"_{general}")(node)
        if isinstance(result, Wide) and node.name not in self.facts.wide:
            return kernels.narrow(result, *self.facts.bits[node.name])
        return result

    def _narrow(self, name: str) -> Narrow:
        """A value as layers take it; the input is packed where it is needed."""
        if self.facts.source[name] == INPUT:
            mean, var = self.inputs
            assert mean is not None
            return ends.pack_input(mean, var, *self.facts.bits[name])
        value = self.values[name]
        assert isinstance(value, Narrow)
        return value

    def _as_wide(self, name: str) -> Wide:
        value = self.values[name]
        return value if isinstance(value, Wide) else kernels.widen(value)

    def _linear(self, node: Node) -> AnyValue:
        return kernels.int_linear(self._narrow(node.inputs[0]), self.facts.linear[node.name])

    def _leaky_relu(self, node: Node) -> AnyValue:
        table = tail_table(node.attrs["negative_slope"])
        return kernels.narrow(self._as_wide(node.inputs[0]), *self.facts.bits[node.name], table)

    def _affine(self, node: Node) -> AnyValue:
        if self.facts.source[node.inputs[0]] != INPUT:
            return kernels.int_affine(self._as_wide(node.inputs[0]), self.facts.affine[node.name])
        factor, shift = input_affine(node, self.graph)
        mean, var = self.inputs
        assert mean is not None
        spread = None if var is None else ends.affine_variance_bits(var, factor)
        return ends.pack_input(ends.affine_bits(mean, shift, factor), spread, *self.facts.bits[node.name])

    def _add(self, node: Node) -> AnyValue:
        return others.int_add(*(self._narrow(name) for name in node.inputs))

    def _concat(self, node: Node) -> AnyValue:
        return others.int_concat([self._narrow(name) for name in node.inputs], concat_order(node, self.graph))

    def _flatten(self, node: Node) -> AnyValue:
        if self.facts.source[node.name] == INPUT:
            return self._narrow(node.name)
        return self.values[node.inputs[0]]

    def _variance_head(self, node: Node) -> AnyValue:
        return others.int_variance_head(self._as_wide(node.inputs[0]))


def input_affine(node: Node, graph: Graph) -> tuple[Whole, Whole]:
    """Scale s and shift t/s of (x + t/s) s as bit patterns of float32, one for each element."""
    scale, shift = elementwise(node, graph)
    return ends.float_bits(scale), ends.float_bits(shift / scale)


def concat_order(node: Node, graph: Graph) -> Whole:
    """Places of the result's elements among those of all parts, one behind the other."""
    shapes = [graph.values[name].shape for name in node.inputs]
    starts = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    places = [start + np.arange(np.prod(shape)).reshape(shape) for start, shape in zip(starts, shapes, strict=False)]
    return np.concatenate(places, node.attrs["axis"]).reshape(-1)
