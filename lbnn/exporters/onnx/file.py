"""From a prepared graph to one ONNX file of standard operators, by running the formulas over symbols.

Inputs: `input`, and `input_variance` where the graph's input is random. Outputs: `mean` and `variance`. All are float32
with a free batch axis `N`. A graph whose result has no variance gives zeros for it. A graph with a head gives
`probability`, `entropy` and `mutual_information` as well; mean and variance are those of its logits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from lbnn import ops
from lbnn.base.errors import LbnnError
from lbnn.base.files import write_file
from lbnn.base.moments import Moments
from lbnn.base.version import __version__
from lbnn.exporters.onnx.namespace import OnnxNamespace
from lbnn.exporters.onnx.symbols import BATCH, Extents, Recorder, Symbol
from lbnn.exporters.options import OPSETS, OnnxOptions
from lbnn.graph import INPUT, Graph, Node, Value
from lbnn.graph.passes import prepare
from lbnn.graph.reference import evaluate_node
from lbnn.model.file import Model
from lbnn.model.inputs import trained_range, unsure_entropy
from lbnn.ops.heads import find_head
from lbnn.train.about import given_classes
from lbnn.train.calibration import read_calibration
from lbnn.train.class_calibration import read_class_calibration

CLASS_OUTPUTS = ("probability", "entropy", "mutual_information")
"""Of a graph with a head, beside mean and variance of the logits."""
ROW_OUTPUTS = CLASS_OUTPUTS[1:]
"""One number for each sample."""


def to_onnx(
    graph: Graph,
    sha256: str,
    opset: int = 17,
    command: str | None = None,
    namespace: type[OnnxNamespace] = OnnxNamespace,
    facts: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
    """The model file of a prepared graph; `namespace` decides which nodes compute each function.

    `facts` are for its metadata.
    """
    if opset not in OPSETS:
        raise LbnnError(f"opset {opset} is not supported; choose one from {OPSETS[0]} to {OPSETS[-1]}")
    body = _Builder(graph, namespace).build()
    operators = helper.make_opsetid("", opset)
    model = helper.make_model(
        body,
        opset_imports=[operators],
        ir_version=helper.find_min_ir_version_for([operators]),
        producer_name="lbnn",
        producer_version=__version__,
    )
    notes = {"lbnn_version": __version__, "model_sha256": sha256, "name": graph.name, "command": command}
    notes |= facts or {}
    helper.set_model_props(model, {key: _utf8(text) for key, text in notes.items() if text is not None})
    onnx.checker.check_model(model, full_check=True)
    return model


def export_onnx(model: Model, out: str | Path, options: OnnxOptions | None = None, force: bool = False) -> Path:
    """Writes the file of a model in one step."""
    options = options or OnnxOptions()
    graph, command = prepare(model.graph, options.input_variance), options.command or None
    proto = to_onnx(graph, model.sha256, options.opset, command, facts=_facts(model))
    return write_file(out, proto.SerializeToString(deterministic=True), force)


def _facts(model: Model) -> dict[str, str]:
    """What the file knows of its training range and calibration, as JSON."""
    facts: dict[str, Any] = {}
    if (given := trained_range(model.metadata, model.graph.input.shape[0])) is not None:
        facts |= {"input_low": given[0].tolist(), "input_high": given[1].tolist()}
    outputs = math.prod(model.graph.values[model.graph.output].shape)
    if (found := read_calibration(model.metadata, outputs)) is not None:
        facts |= {"interval_level": found.level, "interval_factor": found.factor, "unsure_sd": found.unsure_sd}
    return {key: json.dumps(value) for key, value in (facts | _class_facts(model, outputs)).items()}


def _class_facts(model: Model, outputs: int) -> dict[str, Any]:
    """Of a network with a head: the names of its classes, and what its calibration found."""
    if model.graph.head is None:
        return {}
    names, limit = given_classes(model.metadata, max(2, outputs)), unsure_entropy(model.metadata)
    facts: dict[str, Any] = ({"classes": names} if names else {}) | ({} if limit is None else {"unsure_entropy": limit})
    if (found := read_class_calibration(model.metadata)) is not None:
        facts |= {"temperature": found.temperature, "set_level": found.level, "set_threshold": found.threshold}
    return facts


class _Builder:
    """Runs the formulas of one graph."""

    def __init__(self, graph: Graph, namespace: type[OnnxNamespace]) -> None:
        self.graph = graph
        self.recorder = Recorder()
        self.namespace = namespace(self.recorder)
        self.shapes: dict[str, Extents] = {}

    def build(self) -> onnx.GraphProto:
        """The nodes of all layers, then those that name the outputs; what nothing reads is left out."""
        values: dict[str, Any] = {INPUT: self._input(self.graph.input)}
        for node in self.graph.nodes:
            self.recorder.layer = node.name
            values[node.name] = self._apply(node, [values[name] for name in node.inputs])
        outputs = self._outputs(values[self.graph.output], values[INPUT])
        nodes = _live(list(self.recorder.nodes.values()), set(outputs))
        return self._assemble(_renamed(nodes, outputs), outputs)

    def _input(self, value: Value) -> Any:
        mean = Symbol(self.recorder, INPUT, (BATCH, *value.shape))
        return Moments(mean, replace(mean, name="input_variance", low=0.0)) if value.random else mean

    def _apply(self, node: Node, inputs: list[Any]) -> Any:
        """A node's result; what depends on constants alone is computed here and keeps a batch axis of extent 1."""
        if not any(isinstance(part, Symbol) for value in inputs for part in _parts(value)):
            result = evaluate_node(node, inputs)
            return result if inputs else result[None]
        shape: Extents = (BATCH, *self.graph.values[node.name].shape)
        result = ops.find(node.op).formula(self.namespace, *inputs, **node.params, **node.attrs)
        if not isinstance(result, Moments):
            return self._settled(result, shape)
        mean, var = (self._settled(part, shape) for part in result)
        return Moments(mean, replace(var, low=max(var.low, 0.0)))

    def _settled(self, symbol: Symbol, shape: Extents) -> Symbol:
        """The symbol without the axes of extent 1 that a formula left in front."""
        extra = len(symbol.shape) - len(shape)
        if extra:
            axes = self.recorder.integers(*range(extra))
            symbol = symbol.like(self.recorder.node("Squeeze", [symbol.name, axes]), shape)
        assert symbol.shape == shape, (symbol, shape)
        self.shapes[symbol.name] = shape
        return symbol

    def _outputs(self, result: Any, source: Any) -> dict[str, str]:
        """The tensors of mean and variance, each with the name that it will have."""
        self.recorder.layer = "output"
        like = source.mean if isinstance(source, Moments) else source
        mean, var = result if isinstance(result, Moments) else (result, result * 0.0)
        symbols = [part if isinstance(part, Symbol) else self.namespace.repeated(part, like) for part in (mean, var)]
        tensors = [symbol.tensor() for symbol in symbols]
        if tensors[0] in (INPUT, tensors[1]):
            tensors[0] = self.recorder.node("Identity", [tensors[0]])
        if tensors[1] == "input_variance":
            tensors[1] = self.recorder.node("Identity", [tensors[1]])
        named = dict(zip(tensors, ("mean", "variance"), strict=True))
        logits = Moments(*(replace(s, name=t, factor=1.0) for s, t in zip(symbols, tensors, strict=True)))
        return named | self._classes(logits)

    def _classes(self, logits: Moments[Symbol]) -> dict[str, str]:
        """The tensors of what the head makes of the logits."""
        if self.graph.head is None:
            return {}
        self.recorder.layer = self.graph.head
        found = find_head(self.graph.head).formula(self.namespace, logits)
        parts = (found.probability, found.entropy, found.epistemic)
        return {part.tensor(): name for part, name in zip(parts, CLASS_OUTPUTS, strict=True)}

    def _assemble(self, nodes: list[onnx.NodeProto], outputs: Mapping[str, str]) -> onnx.GraphProto:
        used = {name for node in nodes for name in node.input}
        given, out = self.graph.input, self.graph.values[self.graph.output]
        whole: Extents = (BATCH, *out.shape)
        shapes = {name: (BATCH,) if name in ROW_OUTPUTS else whole for name in outputs.values()}
        made = {name for node in nodes for name in node.output} - set(shapes)
        names = [INPUT, "input_variance"] if given.random else [INPUT]
        return helper.make_graph(
            nodes,
            _utf8(self.graph.name),
            [_float_info(name, (BATCH, *given.shape)) for name in names],
            [_float_info(name, shape) for name, shape in shapes.items()],
            [tensor for tensor in self.recorder.initializers.values() if tensor.name in used],
            value_info=[_float_info(name, shape) for name, shape in self.shapes.items() if name in made],
        )


def _parts(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Moments) else (value,)


def _utf8(text: str) -> str:
    """The text with half surrogate pairs, as in a file name that is no UTF-8, spelled out: protobuf takes no others."""
    return text.encode(errors="backslashreplace").decode()


def _float_info(name: str, shape: Extents) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def _live(nodes: list[onnx.NodeProto], needed: set[str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs need."""
    live = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            live.append(node)
    return live[::-1]


def _renamed(nodes: list[onnx.NodeProto], names: Mapping[str, str]) -> list[onnx.NodeProto]:
    """The nodes with some tensors called by other names."""
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return nodes
