"""Symbols of an ONNX graph under construction, and the recorder that collects its nodes and constants.

A symbol is a tensor times a known number. The number travels with the symbol for free and is folded into the next
weights; only where nothing can take it up does it become a node. Constants are computed in float64 and rounded to
float32 once, when they become initializers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lbnn.base.errors import LbnnError

BATCH = "N"
"""The name of the batch axis."""

Extents = tuple[int | str, ...]
Number = np.ndarray[Any, Any] | float | int


@dataclass(frozen=True, eq=False)
class Symbol:
    """`factor` times the tensor `name`; no element is below `low`."""

    recorder: Recorder
    name: str
    shape: Extents
    factor: float = 1.0
    low: float = -np.inf

    __array_ufunc__ = None  # numpy leaves `array * symbol` to the symbol

    def like(self, name: str, shape: Extents | None = None) -> Symbol:
        """Another tensor with the same factor and bound: elements moved, not changed."""
        return replace(self, name=name, shape=self.shape if shape is None else shape)

    def tensor(self) -> str:
        """The name of a tensor that holds this value, its factor multiplied in."""
        if self.factor == 1.0:
            return self.name
        return self.recorder.node("Mul", [self.name, self.recorder.constant(self.factor)])

    def __mul__(self, other: Symbol | Number) -> Symbol:
        if not isinstance(other, Symbol):
            return self._times_constant(np.asarray(other, dtype=np.float64))
        name = self.recorder.node("Mul", [self.name, other.name])
        low = 0.0 if other.name == self.name and self.factor * other.factor >= 0 else -np.inf
        return Symbol(self.recorder, name, broadcast(self.shape, other.shape), self.factor * other.factor, low)

    def _times_constant(self, constant: np.ndarray[Any, Any]) -> Symbol:
        if constant.size and np.all(constant == constant.flat[0]):
            number = float(constant.flat[0])
            low = self.low * number if number > 0.0 else 0.0 if number == 0.0 else -np.inf
            return replace(self, factor=self.factor * number, low=low)
        name = self.recorder.node("Mul", [self.name, self.recorder.constant(constant * self.factor)])
        return Symbol(self.recorder, name, broadcast(self.shape, constant.shape))

    def __add__(self, other: Symbol | Number) -> Symbol:
        return self._sum("Add", other)

    def __sub__(self, other: Symbol | Number) -> Symbol:
        return self._sum("Sub", other if isinstance(other, Symbol) else -np.asarray(other))

    def __rsub__(self, other: Number) -> Symbol:
        name = self.recorder.node("Sub", [self.recorder.constant(other), self.tensor()])
        return Symbol(self.recorder, name, broadcast(self.shape, np.shape(other)))

    def __truediv__(self, other: Symbol) -> Symbol:
        name = self.recorder.node("Div", [self.name, other.name])
        return Symbol(self.recorder, name, broadcast(self.shape, other.shape), self.factor / other.factor)

    __rmul__ = __mul__
    __radd__ = __add__

    def _sum(self, op: str, other: Symbol | Number) -> Symbol:
        """A sum or difference; one with zeros is no node, and a factor common to both sides stays outside."""
        if not isinstance(other, Symbol):
            return self._plus_constant(np.asarray(other, dtype=np.float64))
        if other.factor == 0.0:
            return self
        if self.factor == 0.0 and op == "Add":
            return other
        shape, low = broadcast(self.shape, other.shape), self.low + other.low if op == "Add" else -np.inf
        if self.factor == other.factor:
            return Symbol(self.recorder, self.recorder.node(op, [self.name, other.name]), shape, self.factor, low)
        return Symbol(self.recorder, self.recorder.node(op, [self.tensor(), other.tensor()]), shape, 1.0, low)

    def _plus_constant(self, constant: np.ndarray[Any, Any]) -> Symbol:
        if not np.any(constant):
            return self
        name = self.recorder.node("Add", [self.tensor(), self.recorder.constant(constant)])
        return Symbol(self.recorder, name, broadcast(self.shape, constant.shape), 1.0, self.low + constant.min())


def broadcast(a: Sequence[int | str], b: Sequence[int | str]) -> Extents:
    """The shape of an elementwise result, aligned at the last axes."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True)
    return tuple(right if left == 1 else left for left, right in pairs)


class Recorder:
    """Collects nodes, named after the layer they belong to, and initializers; equal ones are made once."""

    def __init__(self) -> None:
        self.layer = ""
        self.nodes: dict[Any, onnx.NodeProto] = {}
        self.initializers: dict[Any, onnx.TensorProto] = {}
        self._names: set[str] = set()

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Appends a node with one output and returns the output's name, which is also the node's."""
        return self.split_node(op, inputs, 1, **attributes)[0]

    def split_node(self, op: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> Sequence[str]:
        """Appends a node with several outputs."""
        key = (op, tuple(inputs), repr(attributes))
        if key not in self.nodes:
            name = self._unique(f"{self.layer}/{op}")
            names = [name] if outputs == 1 else [f"{name}:{i}" for i in range(outputs)]
            self.nodes[key] = helper.make_node(op, list(inputs), names, name=name, **attributes)
        return list(self.nodes[key].output)

    def maker(self, name: str) -> str | None:
        """The operator that gives a tensor; None for an input."""
        return next((node.op_type for node in self.nodes.values() if name in node.output), None)

    def constant(self, value: Any) -> str:
        """The name of a float32 initializer."""
        with np.errstate(over="ignore"):
            array = np.asarray(value, dtype=np.float64).astype(np.float32)
        if not np.all(np.isfinite(array)):
            raise LbnnError(f"layer {self.layer!r}: a constant does not fit float32; rescale the model")
        return self._store(array)

    def integers(self, *values: int) -> str:
        """The name of an int64 initializer: axes, sizes, shapes."""
        return self._store(np.array(values, dtype=np.int64))

    def _store(self, array: np.ndarray[Any, Any]) -> str:
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self.initializers:
            self.initializers[key] = numpy_helper.from_array(array, self._unique(f"{self.layer}/constant"))
        return self.initializers[key].name

    def _unique(self, name: str) -> str:
        candidate, number = name, 1
        while candidate in self._names:
            number += 1
            candidate = f"{name}_{number}"
        self._names.add(candidate)
        return candidate
