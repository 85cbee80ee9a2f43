"""model.pt: a dict of plain data and float32 tensors, and the reader that checks every field of it.

    format        "lbnn"
    version       1
    lbnn_version  the lbnn that wrote it
    name          text or None: the file's name is used then
    input_shape   [int, ...], without the batch axis
    graph         {"output": name, "nodes": [{name, op, inputs, attrs, params, training}, ...]}
                  params: {"weight": {"mu": tensor, "rho": tensor}} for Gaussians, {"scale": tensor} for known numbers
    metadata      plain data of the user's
    tensors       {tensor: float32}; nodes that name the same tensor share it
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

import lbnn
from lbnn import ops
from lbnn.archive import read_archive
from lbnn.errors import LbnnError
from lbnn.files import write_file
from lbnn.graph import INPUT, Graph, GraphBuilder, Node, Param
from lbnn.nn.base import BayesianLayer, Layer
from lbnn.nn.network import LAYERS, TRAINED, Network, Step, build_layer
from lbnn.nn.plain import BatchNorm
from lbnn.ops import Shape
from lbnn.trace import NO_BIAS, check_shape, exact, gaussian, record, unwrap

FORMAT = "lbnn"
VERSION = 1

MAX_NODES = 10_000
MAX_NAME = 1_000
MAX_TEXT = 1_000_000
MAX_DEPTH = 32
MAX_ITEMS = 1_000_000
MAX_ELEMENTS = 2**28
"""Of one value of the graph: a gigabyte of float32."""


@dataclass(frozen=True)
class Model:
    """What exporters read: the graph in its general form (random input), and where it comes from."""

    graph: Graph
    sha256: str
    name: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class SavedNode:
    """A node as the file has it; `params` names tensors, by the layer's own names for them (weight_mu, scale, ...)."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    params: Mapping[str, str]
    training: Mapping[str, Any]


@dataclass(frozen=True)
class Saved:
    """The contents of a file, each field checked."""

    name: str | None
    input_shape: Shape
    nodes: tuple[SavedNode, ...]
    output: str
    tensors: Mapping[str, Tensor]
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
    return write_file(path, serialise(model, input_shape, name, metadata), force=True)


def load(path: str | Path) -> Network:
    """The model of a file as a module of ordinary layers, ready to predict or to train on."""
    with _named(path):
        return _network(_parse(_read(Path(path))))


def read_model(source: str | Path | nn.Module, input_shape: Sequence[int] | None = None) -> Model:
    """The graph of a file, or of a module as if it had been saved."""
    if isinstance(source, nn.Module):
        return _model(serialise(source, input_shape), "model")
    with _named(source):
        return _model(_read(Path(source)), Path(source).stem)


def _model(data: bytes, default_name: str) -> Model:
    saved = _parse(data)
    name = default_name if saved.name is None else saved.name
    return Model(_graph(saved, name), hashlib.sha256(data).hexdigest(), name, saved.metadata)


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Errors begin with the file's name."""
    try:
        yield
    except LbnnError as error:
        raise LbnnError(f"{path}: {error}") from None


# Writing


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
        "version": VERSION,
        "lbnn_version": lbnn.__version__,
        "name": name if name is None else _text(name, "name", MAX_NAME),
        "input_shape": list(traced.graph.input.shape),
        "graph": {"output": traced.graph.output, "nodes": nodes},
        "metadata": _plain(dict(metadata or {}), "metadata"),
    }
    buffer = io.BytesIO()
    torch.save({**_canonical(contents), "tensors": tensors.stored}, buffer)
    return buffer.getvalue()


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
            key: {"mu": tensors.add(mu, f"{node}.{key}_mu"), "rho": tensors.add(rho, f"{node}.{key}_rho")}
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


# Reading


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise LbnnError("is a folder; name a model file")
        if not path.is_file():
            raise LbnnError("there is no such file")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise LbnnError(f"can't be read ({error})") from None


def _parse(data: bytes) -> Saved:
    contents = read_archive(data)
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise LbnnError("is not an lbnn model; write it with lbnn.save")
    _check_version(contents.get("version"))
    tensors = _tensors(_field(contents, "tensors", dict), len(data))
    graph = _field(contents, "graph", dict)
    nodes = _field(graph, "nodes", list)
    if len(nodes) > MAX_NODES:
        raise LbnnError(f"has {len(nodes)} nodes; at most {MAX_NODES} are read")
    name = contents.get("name")
    return Saved(
        name=None if name is None else _text(name, "name", MAX_NAME),
        input_shape=check_shape(_field(contents, "input_shape", list)),
        nodes=tuple(_node(node) for node in nodes),
        output=_text(_field(graph, "output", str), "output", MAX_NAME),
        tensors=tensors,
        metadata=_plain(_field(contents, "metadata", dict), "metadata"),
    )


def _check_version(version: Any) -> None:
    if type(version) is not int or version < 1:
        raise LbnnError(f"has no valid format version (got {version!r:.50})")
    if version > VERSION:
        raise LbnnError(f"has format version {version}, this lbnn reads up to {VERSION}; update lbnn")


def _field(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if type(value) is not kind:
        raise LbnnError(f"field {name!r} must be a {kind.__name__}, got {type(value).__name__}")
    return value


def _text(value: Any, what: str, limit: int) -> str:
    if type(value) is not str or len(value) > limit:
        raise LbnnError(f"{what} must be text of at most {limit} characters")
    return value


def _tensors(data: dict[Any, Any], size: int) -> dict[str, Tensor]:
    for name, tensor in data.items():
        label = f"tensor {_text(name, 'the name of a tensor', MAX_NAME + 100)!r}"
        if type(tensor) is not Tensor or tensor.dtype != torch.float32 or tensor.layout != torch.strided:
            kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise LbnnError(f"{label} must be a dense float32 tensor, got {kind}")
        if tensor.numel() * 4 > size or not tensor.is_contiguous():
            raise LbnnError(f"{label} of shape {tuple(tensor.shape)} is larger than the file or not contiguous")
        if not bool(torch.isfinite(tensor).all()):
            raise LbnnError(f"{label} holds a NaN or an infinity")
    if sum(tensor.numel() for tensor in data.values()) * 4 > size:
        raise LbnnError("its tensors are larger than the file")
    return data


def _node(data: Any) -> SavedNode:
    if type(data) is not dict:
        raise LbnnError(f"each node must be a dict, got {type(data).__name__}")
    name = _text(data.get("name"), "the name of a node", MAX_NAME)
    try:
        op = _text(data.get("op"), "op", MAX_NAME)
        return SavedNode(
            name=name,
            op=op,
            inputs=tuple(_text(item, "an input", MAX_NAME) for item in _field(data, "inputs", list)),
            attrs=_attrs(ops.find(op), _field(data, "attrs", dict)),
            params=_params(ops.find(op), _field(data, "params", dict)),
            training=_training(op, _field(data, "training", dict)),
        )
    except LbnnError as error:
        raise LbnnError(f"node {name!r}: {error}") from None


def _attrs(op: ops.Op, data: dict[Any, Any]) -> dict[str, Any]:
    """Exactly the attributes that the operator takes (its samples show which), each of its type."""
    wanted = op.samples[0].attrs
    if set(data) != set(wanted):
        raise LbnnError(f"{op.name} takes the attributes {sorted(wanted)}")
    return {key: ATTRS["pads" if op.name.startswith("pad") else key](key, data[key]) for key in wanted}


def _integers(key: str, value: Any) -> Shape:
    if type(value) is not list or len(value) not in (1, 2):
        raise LbnnError(f"{key} must be a list of one or two integers")
    return tuple(_integer(key, item) for item in value)


def _integer(key: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise LbnnError(f"{key} must be an integer from 0 to 2^31 - 1")
    return value


def _pairs(key: str, value: Any) -> tuple[Shape, ...]:
    pairs = [_integers(key, pair) for pair in value] if type(value) is list else []
    if len(pairs) not in (1, 2) or any(len(pair) != 2 for pair in pairs):
        raise LbnnError(f"{key} must be one or two pairs of integers")
    return tuple(pairs)


def _boolean(key: str, value: Any) -> bool:
    if type(value) is not bool:
        raise LbnnError(f"{key} must be True or False")
    return value


def _number(low: float, high: float) -> Callable[[str, Any], float]:
    def check(key: str, value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high:
            raise LbnnError(f"{key} must be a number from {low:g} to {high:g}")
        return float(value)

    return check


ATTRS: dict[str, Callable[[str, Any], Any]] = {
    "kernel_size": _integers,
    "stride": _integers,
    "padding": _integers,
    "dilation": _integers,
    "pads": _pairs,
    "groups": _integer,
    "axis": _integer,
    "ceil_mode": _boolean,
    "count_include_pad": _boolean,
    "negative_slope": _number(0.0, 1.0),
    "clamp": _number(1e-6, 1e6),
    "eps": _number(1e-12, 1e6),
}
"""The type of each attribute; `pads` is the padding of a pad, before and after each axis."""


def _params(op: ops.Op, data: dict[Any, Any]) -> dict[str, str]:
    """The names of tensors; a Gaussian has two. A bias may be missing."""
    if not set(op.params) - {"bias"} <= set(data) <= set(op.params):
        raise LbnnError(f"{op.name} needs the parameters {list(op.params)}")
    named: dict[str, str] = {}
    for key, value in data.items():
        parts = value if key in op.gaussian else {"": value}
        if type(parts) is not dict or set(parts) != ({"mu", "rho"} if key in op.gaussian else {""}):
            raise LbnnError(f"parameter {key!r} must name its tensors mu and rho")
        for part in sorted(parts):
            named[f"{key}_{part}" if part else key] = _text(parts[part], f"parameter {key!r}", MAX_NAME + 100)
    if "bias" in op.constants and "bias" not in data:
        raise LbnnError(f"{op.name} needs the parameters {list(op.params)}")
    return named


def _training(op: str, data: dict[Any, Any]) -> dict[str, Any]:
    """What a layer needs to train on."""
    if set(data) != ({"momentum"} if op.startswith("batch_norm") else set()):
        raise LbnnError("field 'training' does not fit the operator")
    return {key: _number(0.0, 1.0)(key, value) for key, value in data.items()}


def _plain(value: Any, what: str) -> Any:
    """Plain data of bounded depth and size; anything else is refused with its place."""
    return _Plain().copy(value, what, 0)


class _Plain:
    """Copies plain data and counts its items: a file can name one list many times."""

    def __init__(self) -> None:
        self.items = 0

    def copy(self, value: Any, what: str, depth: int) -> Any:
        """The same data with lists for tuples."""
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise LbnnError(f"{what[:100]} is too deep or too large")
        if isinstance(value, dict):
            return {self._key(key, what): self.copy(item, f"{what}.{key}", depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.copy(item, what, depth + 1) for item in value]
        if value is None or type(value) in (bool, float) or (type(value) is int and abs(value) < 2**63):
            return value
        if type(value) is str:
            return _text(value, what[:100], MAX_TEXT)
        self._refuse(value, what)

    def _key(self, key: Any, what: str) -> str:
        return _text(key, f"a key of {what[:100]}", MAX_NAME)

    def _refuse(self, value: Any, what: str) -> NoReturn:
        raise LbnnError(f"{what[:100]} must be plain data (text, numbers, lists, dicts), got {type(value).__name__}")


def _graph(saved: Saved, name: str) -> Graph:
    """The graph, with names of letters, digits, `_` and `.` only."""
    builder = GraphBuilder(name, saved.input_shape, random=True)
    names = {INPUT: INPUT}
    for node in saved.nodes:
        if node.name in names:
            raise LbnnError(f"node {node.name!r}: the name is used twice")
        inputs = [_known(names, item, node) for item in node.inputs]
        names[node.name] = builder.add(node.name, node.op, inputs, node.attrs, _values(node, saved.tensors))
        _check_size(node.name, builder.values[names[node.name]].shape)
    if saved.output not in names:
        raise LbnnError(f"its output {saved.output!r} is not one of its values")
    return builder.finish(names[saved.output])


def _known(names: Mapping[str, str], name: str, node: SavedNode) -> str:
    if name not in names:
        raise LbnnError(f"node {node.name!r}: its input {name!r} is not computed before it")
    return names[name]


def _check_size(name: str, shape: Shape) -> None:
    size = 1
    for extent in shape:
        size *= extent
    if not 1 <= size <= MAX_ELEMENTS:
        raise LbnnError(f"node {name!r}: its result has {size} elements; at most {MAX_ELEMENTS} are supported")


def _values(node: SavedNode, tensors: Mapping[str, Tensor]) -> dict[str, Param]:
    """The parameters of a node as the graph holds them."""
    op, own = ops.find(node.op), _node_tensors(node, tensors)
    values: dict[str, Param] = {}
    for key in op.params:
        if key not in op.gaussian:
            values[key] = exact(own[key])
        elif f"{key}_mu" not in own:
            values[key] = NO_BIAS
        elif own[f"{key}_mu"].shape != own[f"{key}_rho"].shape:
            raise LbnnError(f"node {node.name!r}: mu and rho of {key!r} differ in shape")
        else:
            values[key] = gaussian(own[f"{key}_mu"], own[f"{key}_rho"])
    return values


def _node_tensors(node: SavedNode, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    missing = [name for name in node.params.values() if name not in tensors]
    if missing:
        raise LbnnError(f"node {node.name!r}: there is no tensor {missing[0]!r}")
    return {key: tensors[name] for key, name in node.params.items()}


def _network(saved: Saved) -> Network:
    """The module; nodes with the same tensors and attributes become one layer, as they were."""
    _graph(saved, saved.name or "model")  # checks shapes and wiring
    held: dict[tuple[str, bool], Tensor] = {}
    layers: dict[Any, int] = {}
    built: list[Layer] = []
    steps: list[Step] = []
    for node in saved.nodes:
        key = (node.op, repr(node.attrs), tuple(node.params.items())) if node.params else node.name
        if key not in layers:
            layers[key] = len(built)
            built.append(_layer(node, saved.tensors, held))
        steps.append(Step(node.name, layers[key], node.inputs))
    return Network(built, steps, saved.output, saved.input_shape, saved.name, saved.metadata)


def _layer(node: SavedNode, tensors: Mapping[str, Tensor], held: dict[tuple[str, bool], Tensor]) -> Layer:
    for key, name in node.params.items():
        trained = key in TRAINED
        held.setdefault((name, trained), nn.Parameter(tensors[name].clone()) if trained else tensors[name].clone())
    own = {key: held[name, key in TRAINED] for key, name in node.params.items()}
    layer = build_layer(_general(node.op), node.attrs, own)
    for key, value in node.training.items():
        setattr(layer, key, value)
    return layer


def _general(op: str) -> str:
    """The operator that a layer is made for; a layer picks its form for known values itself."""
    if op in LAYERS:
        return op
    return next(name for name in LAYERS if ops.find(name).point_form == op)
