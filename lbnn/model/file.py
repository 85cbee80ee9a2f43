"""Models in files: save, load, and read for export; `lbnn.model.schema` has the layout of the file."""

from __future__ import annotations

import hashlib
import io
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lbnn import ops
from lbnn.base.errors import LbnnError, one_line
from lbnn.base.factored import Factored
from lbnn.base.files import write_file
from lbnn.base.version import __version__
from lbnn.graph import INPUT, Graph, GraphBuilder, Node, Param
from lbnn.model.network import TRAINED, Network, Step, build_layer
from lbnn.model.params import NO_BIAS, exact, gaussian
from lbnn.model.schema import (
    FACTORED_VERSION,
    FIRST_VERSION,
    FORMAT,
    HEADED_VERSION,
    MAX_NAME,
    Saved,
    SavedNode,
    parse,
    plain,
    text,
)
from lbnn.model.trace import record
from lbnn.nn.base import BayesianLayer, Layer
from lbnn.nn.scaling import BatchNorm
from lbnn.nn.spread import RHOS, FactoredRho, named_rhos
from lbnn.nn.wrapped import unwrap
from lbnn.ops.limits import MAX_ELEMENTS, check_size

LONGEST_MESSAGE = 1000
OTHER_FILES = {
    ".onnx": "is an ONNX file; give the model file (.pt) that it was exported from",
    **dict.fromkeys((".csv", ".tsv", ".parquet"), "is a table, not a model; lbnn train makes a model file of it"),
}
"""What is taken for a model file, by the end of its name."""


@dataclass(frozen=True)
class Model:
    """What exporters read: the graph in its general form (random input), and where it comes from."""

    graph: Graph
    sha256: str
    name: str
    metadata: Mapping[str, Any]


def save(
    model: nn.Module,
    path: str | Path,
    input_shape: Sequence[int] | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a model that any lbnn reads without the model's own classes; replaces an existing file in one step.

    `input_shape` is the shape of one sample, without the batch axis; a loaded model knows it. Weights are stored in
    float32. Without `name` the file's own name becomes the name of generated code. `metadata` is plain data.
    """
    data = serialise(model, input_shape, name, metadata)
    _graph(parse(data), "model")  # what is written can be read
    return write_file(path, data, force=True)


def load(path: str | Path) -> Network:
    """The model of a file as a module of ordinary layers, in eval mode as `fit` leaves one; it can be trained on."""
    with _named(path):
        return _network(parse(_read(Path(path)))).eval()


def read_model(source: str | Path | nn.Module, input_shape: Sequence[int] | None = None) -> Model:
    """The graph of a file, or of a module as if it had been saved."""
    if isinstance(source, nn.Module):
        return _model(serialise(source, input_shape), "model")
    with _named(source):
        return _model(_read(Path(source)), Path(source).stem)


def _model(data: bytes, default_name: str) -> Model:
    saved = parse(data)
    name = default_name if saved.name is None else saved.name
    return Model(_graph(saved, name), hashlib.sha256(data).hexdigest(), name, saved.metadata)


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Errors begin with the file's name and are one line, whatever of the file they quote."""
    try:
        yield
    except LbnnError as error:
        raise LbnnError(f"{path}: {one_line(str(error)):.{LONGEST_MESSAGE}}") from None


def serialise(
    model: nn.Module,
    input_shape: Sequence[int] | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> bytes:
    """The bytes of the model's file: the same for the same model, whatever the file will be called."""
    model = unwrap(model)
    if isinstance(model, Network):
        input_shape = model.input_shape if input_shape is None else input_shape
        name, metadata = name or model.model_name, model.metadata if metadata is None else metadata
    if input_shape is None:
        raise LbnnError("give the input_shape of one sample, such as input_shape=(16,)")
    traced = record(model, input_shape)
    tensors = TensorNames()
    nodes = [_node_data(node, traced.layers.get(node.name), tensors) for node in traced.graph.nodes]
    contents = {
        "format": FORMAT,
        "version": _version(traced.graph),
        "lbnn_version": __version__,
        "name": name if name is None else text(name, "name", MAX_NAME),
        "input_shape": list(traced.graph.input.shape),
        "graph": {"output": traced.graph.output, "nodes": nodes, **_head_data(traced.graph)},
        "metadata": plain(dict(metadata or {}), "metadata"),
    }
    buffer = io.BytesIO()
    torch.save({**_canonical(contents), "tensors": tensors.stored}, buffer)
    return buffer.getvalue()


def _version(graph: Graph) -> int:
    """The first that has all that this graph has, so that an older lbnn reads what it can."""
    if any(isinstance(param, Factored) for node in graph.nodes for param in node.params.values()):
        return FACTORED_VERSION
    return FIRST_VERSION if graph.head is None else HEADED_VERSION


def _head_data(graph: Graph) -> dict[str, str]:
    """A graph without a head is written as it was before there were heads."""
    return {} if graph.head is None else {"head": graph.head}


class TensorNames:
    """Gives each tensor one name, however many nodes use it."""

    def __init__(self) -> None:
        self.stored: dict[str, Tensor] = {}
        self._names: dict[Tensor, str] = {}  # tensors hash by identity

    def add(self, tensor: Tensor, name: str) -> str:
        """The tensor's name; `name` if it is new."""
        if tensor not in self._names:
            self._names[tensor] = sys.intern(name)
            self.stored[self._names[tensor]] = tensor.detach().to("cpu", torch.float32).clone().contiguous()
        return self._names[tensor]


def _node_data(node: Node, layer: Layer | None, tensors: TensorNames) -> dict[str, Any]:
    training = {"momentum": layer.momentum} if isinstance(layer, BatchNorm) else {}
    return {
        "name": node.name,
        "op": node.op,
        "inputs": list(node.inputs),
        "attrs": dict(node.attrs),
        "params": {} if layer is None else _params_data(node.name, layer, tensors),
        "training": training,
    }


def _params_data(node: str, layer: Layer, tensors: TensorNames) -> dict[str, Any]:
    if isinstance(layer, BayesianLayer):
        return {
            key: {part: tensors.add(t, f"{node}.{key}_{part}") for part, t in {"mu": mu, **named_rhos(rho)}.items()}
            for key, mu, rho in layer.named_gaussians()
        }
    return {key: tensors.add(tensor, f"{node}.{key}") for key, tensor in layer.op_params().items()}


def _canonical(data: Any) -> Any:
    """Lists for tuples and one object for equal texts: pickle writes an object it has seen before as a reference."""
    if isinstance(data, str):
        return sys.intern(data)
    if isinstance(data, dict):
        return {_canonical(key): _canonical(value) for key, value in data.items()}
    return [_canonical(item) for item in data] if isinstance(data, (list, tuple)) else data


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise LbnnError("is a folder; name a model file")
        if not path.is_file():
            raise LbnnError("there is no such file")
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise LbnnError(f"can't be read ({error})") from None
    if not data.startswith(b"PK") and path.suffix.lower() in OTHER_FILES:
        raise LbnnError(OTHER_FILES[path.suffix.lower()])
    return data


def _graph(saved: Saved, name: str) -> Graph:
    """The graph, with names of letters, digits, `_` and `.` only."""
    builder = GraphBuilder(name, saved.input_shape, random=True)
    params = Parameters(saved.tensors)
    names = {INPUT: INPUT}
    elements = check_size("the input", saved.input_shape)
    for node in saved.nodes:
        if node.name in names:
            raise LbnnError(f"node {node.name!r}: the name is used twice")
        inputs = [_known(names, item, node) for item in node.inputs]
        names[node.name] = builder.add(node.name, node.op, inputs, node.attrs, params.of(node))
        elements += math.prod(builder.values[names[node.name]].shape)
        if elements > MAX_ELEMENTS:
            raise LbnnError(f"its values have more than {MAX_ELEMENTS} elements in all")
    if saved.output not in names:
        raise LbnnError(f"its output {saved.output!r} is not one of its values")
    return builder.finish(names[saved.output], saved.head)


def _known(names: Mapping[str, str], name: str, node: SavedNode) -> str:
    if name not in names:
        raise LbnnError(f"node {node.name!r}: its input {name!r} is not computed before it")
    return names[name]


class Parameters:
    """The parameters of nodes as the graph holds them; those that nodes share are computed once."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.computed: dict[tuple[str, ...], Param] = {}
        self.elements = 0

    def of(self, node: SavedNode) -> dict[str, Param]:
        """One node's parameters by name."""
        try:
            op = ops.find(node.op)
            groups = node.attrs.get("groups", 1)
            values = {key: self._value(node.params, key, key in op.gaussian, groups) for key in op.params}
            self._count(values)
        except LbnnError as error:
            raise LbnnError(f"node {node.name!r}: {error}") from None
        return values

    def _value(self, names: Mapping[str, str], key: str, is_gaussian: bool, groups: int) -> Param:
        parts = [f"{key}_{part}" for part in ("mu", *RHOS)] if is_gaussian else [key]
        if parts[0] not in names:
            return NO_BIAS
        named = {part: names[part] for part in parts if part in names}
        source = (*named, *named.values(), str(groups))
        if source not in self.computed:
            tensors = {part: self._tensor(name) for part, name in named.items()}
            self.computed[source] = _gaussian(key, tensors, groups) if is_gaussian else exact(tensors[key])
        return self.computed[source]

    def _tensor(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise LbnnError(f"there is no tensor {name!r}")
        return self.tensors[name]

    def _count(self, values: Mapping[str, Param]) -> None:
        """A small file could name one tensor in thousands of nodes, and each of them is checked."""
        self.elements += sum(math.prod(value.shape) for value in values.values())
        if self.elements > MAX_ELEMENTS:
            raise LbnnError(f"the nodes have more than {MAX_ELEMENTS} parameters")


def _gaussian(key: str, tensors: Mapping[str, Tensor], groups: int) -> Param:
    """From mu and rho of one shape, or from mu and the rhos of its rows and columns."""
    mu, rho = (tensors.get(f"{key}_{part}") for part in ("mu", "rho"))
    row, column = (tensors.get(f"{key}_{part}") for part in RHOS[1:])
    assert mu is not None
    if rho is not None:
        if mu.shape != rho.shape:
            raise LbnnError(f"mu and rho of {key!r} differ in shape")
        return gaussian(mu, rho)
    assert row is not None
    if mu.ndim < 2 or row.shape != mu.shape[:1] or (column is not None and column.shape != mu.shape[1:]):
        raise LbnnError(f"row_rho and column_rho of {key!r} do not fit its mu")
    return gaussian(mu, FactoredRho(row, column), groups)


def _network(saved: Saved) -> Network:
    """The module; nodes with the same tensors and attributes become one layer, as they were."""
    _graph(saved, saved.name or "model")  # checks shapes and wiring
    held: dict[tuple[str, bool], Tensor] = {}
    numbers: dict[Any, int] = {}
    layers: list[Layer] = []
    steps: list[Step] = []
    for node in saved.nodes:
        key = (node.op, repr(node.attrs), tuple(node.params.items())) if node.params else node.name
        if key not in numbers:
            layers.append(_layer(node, saved.tensors, held))
        steps.append(Step(node.name, numbers.setdefault(key, len(numbers)), node.inputs))
    return Network(layers, steps, saved.output, saved.input_shape, saved.name, saved.metadata, saved.head)


def _layer(node: SavedNode, tensors: Mapping[str, Tensor], held: dict[tuple[str, bool], Tensor]) -> Layer:
    """One layer; `held` has the parameters (True) and buffers (False) of those before it, to be shared by name."""
    for key, name in node.params.items():
        trained, tensor = key in TRAINED, tensors[name].clone()
        held.setdefault((name, trained), nn.Parameter(tensor) if trained else tensor)
    own = {key: held[name, key in TRAINED] for key, name in node.params.items()}
    return build_layer(ops.find(node.op).general, {**node.attrs, **node.training}, own)
