"""Model files with one node whose geometry is huge, for every operator that has any."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import torch

from lbnn.model.schema import FORMAT, VERSION
from lbnn.ops import OPS, Op, Sample
from lbnn.ops.attributes import integer, integers, pairs

HUGE = (2**30, 2**30 - 1, 2**31 - 1, 2**29, 2**28 + 1)
GEOMETRIC = (integer, integers, pairs)


def geometric_ops() -> list[Op]:
    """Operators of files that have numbers of geometry."""
    return [op for op in OPS.values() if op.form_of is None and geometric(op)]


def geometric(op: Op) -> list[str]:
    """The attributes that are numbers of geometry."""
    return [key for key, read in op.attributes.items() if read in GEOMETRIC]


def plain(value: Any) -> Any:
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def places(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Where the integers of an attribute are."""
    if not isinstance(value, list):
        yield path
        return
    for index, item in enumerate(value):
        yield from places(item, (*path, index))


def put(value: Any, path: tuple[int, ...], number: int) -> Any:
    """The attribute with another number at a place."""
    if not path:
        return number
    return [put(item, path[1:], number) if index == path[0] else item for index, item in enumerate(value)]


def spots(op: Op, sample: Sample) -> list[tuple[str, tuple[int, ...]]]:
    """Every number of geometry of a sample: its attribute and where in it."""
    return [(key, path) for key in geometric(op) for path in places(plain(sample.attrs[key]))]


def changed(sample: Sample, numbers: dict[tuple[str, tuple[int, ...]], int]) -> dict[str, Any]:
    """The sample's attributes as a file has them, with other numbers at some spots."""
    attrs = {key: plain(value) for key, value in sample.attrs.items()}
    for (key, path), number in numbers.items():
        attrs[key] = put(attrs[key], path, number)
    return attrs


def model_file(op: Op, sample: Sample, attrs: dict[str, Any]) -> bytes:
    """A file with one node."""
    tensors: dict[str, torch.Tensor] = {}
    params: dict[str, Any] = {}
    for key, shape in sample.params.items():
        parts = ("mu", "rho") if key in op.gaussian else ("",)
        named = {part: f"node.{key}{part}" for part in parts}
        tensors |= {name: torch.ones(shape) for name in named.values()}
        params[key] = named if key in op.gaussian else named[""]
    node = {"name": "node", "op": op.name, "inputs": ["input"] * len(sample.inputs), "attrs": attrs}
    contents = {
        "format": FORMAT,
        "version": VERSION,
        "lbnn_version": "0",
        "name": None,
        "input_shape": list(sample.inputs[0]),
        "graph": {"output": "node", "nodes": [{**node, "params": params, "training": {}}]},
        "metadata": {},
        "tensors": tensors,
    }
    buffer = io.BytesIO()
    torch.save(contents, buffer)
    return buffer.getvalue()
