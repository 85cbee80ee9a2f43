"""What an operator is: one formula, its shape rule, and the mathematics that its tests hold it to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.ops.namespace import Shape

ShapeRule = Callable[..., Shape]


@dataclass(frozen=True)
class Sample:
    """One call of an operator: shapes without the batch axis, and attributes. Values are drawn by the tests."""

    inputs: tuple[Shape, ...]
    params: Mapping[str, Shape] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Op:
    """An operator of the moment graph.

    `formula(xp, *inputs, **params, **attrs)` takes Moments or, if `point_inputs`, plain arrays. Parameters in
    `gaussian` arrive as Moments, those in `constants` as arrays. `oracle` is the same operator on plain random
    numbers, f(torch tensors, **attrs); `kind` says how its moments are checked:
    'multilinear' by enumerating two-point distributions, exact; 'pointwise' by quadrature.
    """

    name: str
    formula: Callable[..., Any]
    shape: ShapeRule
    oracle: Callable[..., Any]
    kind: str
    samples: tuple[Sample, ...]
    gaussian: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    arity: int | None = 1  # None: any number from two
    point_inputs: bool = False
    point_output: bool = False
    point_form: str | None = None  # the operator to use where every input is a point
    tolerance: float = 1e-6  # relative, in float32

    @property
    def params(self) -> tuple[str, ...]:
        """The names of all parameters."""
        return self.gaussian + self.constants

    def at_points(self, attrs: Mapping[str, Any]) -> tuple[Op, dict[str, Any]]:
        """The operator for known inputs, and those attributes that it takes."""
        assert self.point_form is not None, self.name
        form = find(self.point_form)
        taken = inspect.signature(form.formula).parameters
        return form, {key: value for key, value in attrs.items() if key in taken}


OPS: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Adds an operator to the table."""
    assert op.name not in OPS, op.name
    OPS[op.name] = op
    return op


def find(name: str) -> Op:
    """The operator called `name`."""
    try:
        return OPS[name]
    except KeyError:
        raise LbnnError(f"unknown operator {name!r}; this version knows {', '.join(sorted(OPS))}") from None
