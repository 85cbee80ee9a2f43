"""The contents of model.pt, a dict of plain data and float32 tensors, with every field checked.

format        "lbnn"
version       1; 2 where the network ends in a head: an older lbnn would take it for a regression; 3 where standard
              deviations are factors
lbnn_version  the lbnn that wrote it
name          text or None: the file's name is used then
input_shape   [int, ...], without the batch axis
graph         {"output": name, "nodes": [{name, op, inputs, attrs, params, training}, ...]}; of version 2 also
              {"head": name}, which makes classes of the output
              params: {"weight": {"mu": tensor, "rho": tensor}} for Gaussians, {"scale": tensor} for known numbers;
              of version 3 also {"weight": {"mu", "row_rho"}} and {"weight": {"mu", "row_rho", "column_rho"}}, where
              sigma[n, i] = softplus(row_rho[n]) softplus(column_rho[i])
metadata      plain data of the user's
tensors       {tensor: float32}; nodes that name the same tensor share it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lbnn import ops
from lbnn.base.errors import LbnnError
from lbnn.model.archive import read_archive
from lbnn.model.trace import check_shape
from lbnn.ops import Shape
from lbnn.ops.heads import find_head

FORMAT = "lbnn"
VERSION = 3
FIRST_VERSION = 1
HEADED_VERSION = 2
"""From which on a graph may have a head."""
FACTORED_VERSION = 3
"""From which on the standard deviations of a weight may be factors."""

MAX_NODES = 1_000
MAX_NAME = 1_000
MAX_TENSOR_NAME = MAX_NAME + 20
"""The name of a node and what the layer calls it."""
MAX_DEPTH = 32
MAX_METADATA = 1_000_000
"""Characters and items together."""


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
    head: str | None = None


def parse(data: bytes) -> Saved:
    """The contents of a file's bytes."""
    contents = read_archive(data)
    if type(contents) is not dict or type(contents.get("format")) is not str or contents["format"] != FORMAT:
        raise LbnnError("is not an lbnn model; write it with lbnn.save")
    _check_version(contents.get("version"))
    text(_field(contents, "lbnn_version", str), "lbnn_version", MAX_NAME)
    tensors = _tensors(_field(contents, "tensors", dict), len(data))
    graph = _field(contents, "graph", dict)
    nodes = _field(graph, "nodes", list)
    if len(nodes) > MAX_NODES:
        raise LbnnError(f"has {len(nodes)} nodes; at most {MAX_NODES} are read")
    name, version = contents.get("name"), contents["version"]
    return Saved(
        name=None if name is None else text(name, "name", MAX_NAME),
        input_shape=check_shape(_field(contents, "input_shape", list)),
        nodes=tuple(_node(node, version) for node in nodes),
        output=text(_field(graph, "output", str), "output", MAX_NAME),
        tensors=tensors,
        metadata=plain(_field(contents, "metadata", dict), "metadata"),
        head=_head(graph, version),
    )


def _head(graph: Mapping[str, Any], version: int) -> str | None:
    """The name of the head; a graph without one has no such field."""
    if "head" not in graph:
        return None
    if version < HEADED_VERSION:
        raise LbnnError(f"has a head, which format version {version} does not know; write it with lbnn.save")
    return find_head(text(graph["head"], "head", MAX_NAME)).name


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


def text(value: Any, what: str, limit: int) -> str:
    """A text that is not too long."""
    if type(value) is not str or len(value) > limit:
        raise LbnnError(f"{what} must be text of at most {limit} characters")
    return value


def _tensors(data: dict[Any, Any], size: int) -> dict[str, Tensor]:
    tensors = {text(name, "a tensor's name", MAX_TENSOR_NAME): _tensor(name, data[name], size) for name in data}
    if sum(tensor.numel() for tensor in tensors.values()) * 4 > size:
        raise LbnnError("its tensors are larger than the file")
    return tensors


def _tensor(name: str, tensor: Any, size: int) -> Tensor:
    """A plain float32 tensor, no larger than the file: a tensor may repeat its elements without storing them."""
    if type(tensor) is not Tensor or tensor.dtype != torch.float32:
        kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise LbnnError(f"tensor {name!r} must be float32, got {kind}")
    if not 4 <= tensor.numel() * 4 <= size or not tensor.is_contiguous() or tensor.is_neg() or tensor.requires_grad:
        raise LbnnError(f"tensor {name!r} of shape {tuple(tensor.shape)} is not stored plainly; use lbnn.save")
    if not bool(torch.isfinite(tensor).all()):
        raise LbnnError(f"tensor {name!r} holds a NaN or an infinity")
    return tensor


def _node(data: Any, version: int) -> SavedNode:
    if type(data) is not dict:
        raise LbnnError(f"each node must be a dict, got {type(data).__name__}")
    name = text(data.get("name"), "the name of a node", MAX_NAME)
    try:
        op = text(data.get("op"), "op", MAX_NAME)
        return SavedNode(
            name=name,
            op=op,
            inputs=tuple(text(item, "an input", MAX_NAME) for item in _field(data, "inputs", list)),
            attrs=_attrs(ops.find(op), _field(data, "attrs", dict)),
            params=_params(ops.find(op), _field(data, "params", dict), version),
            training=_training(ops.find(op), _field(data, "training", dict)),
        )
    except LbnnError as error:
        raise LbnnError(f"node {name!r}: {error}") from None


def _attrs(op: ops.Op, data: dict[Any, Any]) -> dict[str, Any]:
    """Exactly the attributes that the operator takes, each as its kind reads it."""
    if set(data) != set(op.attributes):
        raise LbnnError(f"{op.name} takes the attributes {sorted(op.attributes)}")
    return {key: read(key, data[key]) for key, read in op.attributes.items()}


def _training(op: ops.Op, data: dict[Any, Any]) -> dict[str, Any]:
    """What a layer needs to train on."""
    if set(data) != set(op.training):
        raise LbnnError("field 'training' does not fit the operator")
    return {key: read(key, data[key]) for key, read in op.training.items()}


FREE, ROW, RANK1 = {"mu", "rho"}, {"mu", "row_rho"}, {"mu", "row_rho", "column_rho"}
"""The tensors of a Gaussian parameter."""


def _params(op: ops.Op, data: dict[Any, Any], version: int) -> dict[str, str]:
    """The names of tensors; a Gaussian has two, or three. A bias may be missing."""
    if not set(op.params) - {"bias"} <= set(data) <= set(op.params):
        raise LbnnError(f"{op.name} needs the parameters {list(op.params)}")
    named: dict[str, str] = {}
    for key, value in data.items():
        parts = value if key in op.gaussian else {"": value}
        if type(parts) is not dict or set(parts) not in _forms(op, key, version):
            raise LbnnError(f"parameter {key!r} must name its tensors mu and rho")
        for part in sorted(parts):
            named[f"{key}_{part}" if part else key] = text(parts[part], f"parameter {key!r}", MAX_TENSOR_NAME)
    if "bias" in op.constants and "bias" not in data:
        raise LbnnError(f"{op.name} needs the parameters {list(op.params)}")
    return named


def _forms(op: ops.Op, key: str, version: int) -> tuple[set[str], ...]:
    """The tensors that a parameter may have."""
    if key not in op.gaussian:
        return ({""},)
    return (FREE, ROW, RANK1) if key in op.factored and version >= FACTORED_VERSION else (FREE,)


def plain(value: Any, what: str) -> Any:
    """Plain data of bounded depth and size; anything else is refused."""
    return _Plain().copy(value, what, 0)


class _Plain:
    """Copies plain data and measures it: a file can name one list or text many times."""

    def __init__(self) -> None:
        self.size = 0

    def copy(self, value: Any, what: str, depth: int) -> Any:
        """The same data with lists for tuples."""
        self.size += 1 + len(value) if type(value) is str else 1
        if depth > MAX_DEPTH or self.size > MAX_METADATA:
            raise LbnnError(f"{what} is too deep or larger than {MAX_METADATA} items and characters")
        if type(value) is dict:
            return {self._key(key, what): self.copy(item, what, depth + 1) for key, item in value.items()}
        if type(value) in (list, tuple):
            return [self.copy(item, what, depth + 1) for item in value]
        if value is None or type(value) in (str, bool, float) or (type(value) is int and abs(value) < 2**63):
            return value
        raise LbnnError(f"{what} must be plain data (text, numbers, lists, dicts), got {type(value).__name__}")

    def _key(self, key: Any, what: str) -> str:
        self.size += len(text(key, f"a key of {what}", MAX_NAME))
        return str(key)
