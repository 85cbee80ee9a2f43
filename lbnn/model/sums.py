"""Values of a trace as sums of multiples of others: a value added to itself is not independent of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import Array
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.ops import Shape
from lbnn.ops.table import Use

MOVING = ("flatten", "pad")
"""Operators that only move elements and put known zeros beside them."""


@dataclass(frozen=True)
class MovedValue:
    """A value whose elements have been moved, by nodes that count by what they do."""

    source: str
    moves: tuple[str, ...] = ()
    by: tuple[str, ...] = field(default=(), compare=False)

    def moved(self, node: Node) -> MovedValue:
        """The same, moved once more."""
        what = f"{ops.find(node.op).general} {sorted(node.attrs.items())}"
        return MovedValue(self.source, (*self.moves, what), (*self.by, node.name))


@dataclass(frozen=True)
class Form:
    """The sum of terms, each times known numbers, and a known shift: arrays of the value's shape, or single numbers."""

    scales: Mapping[MovedValue, Array]
    shift: Array

    def mapped(self, scale: Array, shift: Array) -> Form:
        """scale * self + shift."""
        return Form({term: own * scale for term, own in self.scales.items()}, self.shift * scale + shift)

    def moved(self, node: Node, shape: Shape) -> Form:
        """The form of the moved value; `shape` is that of the value before."""

        def move(array: Array) -> Array:
            full = np.broadcast_to(array, shape)[None]
            moved: Array = ops.find(f"{ops.find(node.op).general}_point").formula(NUMPY, full, **node.attrs)[0]
            return moved

        scales = {term.moved(node): scale if scale.ndim == 0 else move(scale) for term, scale in self.scales.items()}
        return Form(scales, self.shift if not self.shift.any() else move(self.shift))

    def __add__(self, other: Form) -> Form:
        scales = dict(self.scales)
        for term, scale in other.scales.items():
            scales[term] = scales[term] + scale if term in scales else scale
        return Form(scales, self.shift + other.shift)

    @property
    def only(self) -> MovedValue | None:
        """The one term that this is and nothing else."""
        (term, scale), *more = self.scales.items()
        return term if not more and np.all(scale == 1.0) and not self.shift.any() else None


class SharedSums:
    """The forms of the values of one trace."""

    def __init__(self) -> None:
        self.forms: dict[str, Form] = {}
        self.places: dict[MovedValue, str] = {}

    def form(self, name: str) -> Form:
        """What a value is; its own only term, where it is not made of others."""
        return self.forms.setdefault(name, Form({MovedValue(name): np.ones(())}, np.zeros(())))

    def note(self, node: Node, shape_of: Callable[[str], Shape]) -> None:
        """Takes up a new node."""
        form = self._made(node, shape_of)
        if form is not None:
            self.forms[node.name] = form
        if (term := self.form(node.name).only) is not None:
            self.places.setdefault(term, node.name)

    def _made(self, node: Node, shape_of: Callable[[str], Shape]) -> Form | None:
        general, params = ops.find(node.op).general, dict[str, Any](node.params)
        use = Use(tuple(map(shape_of, node.inputs)), shape_of(node.name), params, node.attrs)
        if ops.find(node.op).identity(use):
            return self.form(node.inputs[0])
        if general == "affine":
            shape = shape_of(node.name)
            scale, shift = (_spread(params[key], shape) for key in ("scale", "shift"))
            return self.form(node.inputs[0]).mapped(scale, shift)
        if general in MOVING:
            return self.form(node.inputs[0]).moved(node, shape_of(node.inputs[0]))
        return self.form(node.inputs[0]) + self.form(node.inputs[1]) if general == "add" else None

    def shared(self, names: list[str]) -> Form | None:
        """The form of a sum in which a term would count as two independent ones; None where there is no such term."""
        first, second = map(self.form, names)
        return first + second if set(first.scales) & set(second.scales) else None

    def meet(self, names: list[str]) -> bool:
        """Some element of a term has a part in both values: their sum's variance is not that of independent ones."""
        first, second = (self.form(name).scales for name in names)
        return any(np.any(first[term] * second[term]) for term in set(first) & set(second))


def told_of(paths: Sequence[str]) -> tuple[str, ...]:
    """Sums whose variance the module has not, as it takes both values for independent: a warning names them."""
    if paths:
        warnings.warn(
            f"{', '.join(dict.fromkeys(paths))}: a value is added to a multiple of itself. What is saved and exported "
            "has the variance of that, the module itself takes both for independent: write one multiple, as 3 * x, "
            "or use what lbnn.load gives (docs/layers.md)",
            stacklevel=2,
        )
    return tuple(paths)


def _spread(array: Any, shape: Shape) -> Array:
    """A single number, or one for each element."""
    values = np.asarray(array, np.float64)
    return values.reshape(()) if values.size == 1 else np.broadcast_to(values, shape)


def least(array: Array) -> Array:
    """The fewest numbers that say the same: one, or one for each channel, or all."""
    if np.all(array == array.reshape(-1)[0]):
        return array.reshape(-1)[:1].reshape(())
    first: Array = array[(slice(None), *(slice(0, 1),) * (array.ndim - 1))]
    return first if np.all(array == first) else array
