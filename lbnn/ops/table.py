"""What an operator is: one formula, its shape rule, and everything else that any part of lbnn asks of it.

An operator is one file that registers it here. Passes, planner, files, cost tables and tests look up its facts and know
no operator by name; what C needs is one row in the table of lbnn/exporters/c/calls.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.ops.attributes import Attribute
from lbnn.ops.memory import MemoryUse
from lbnn.ops.namespace import Shape

ShapeRule = Callable[..., Shape]


@dataclass(frozen=True)
class Sample:
    """One call of an operator: shapes without the batch axis, and attributes. Values are drawn by the tests.

    `variance` is that of its weights: "rank1" and "row" are drawn as Factored.
    """

    inputs: tuple[Shape, ...]
    params: Mapping[str, Shape] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    variance: str = "full"


@dataclass(frozen=True)
class Use:
    """One use of an operator in a graph: shapes of inputs and result, parameters and attributes."""

    inputs: tuple[Shape, ...]
    output: Shape
    params: Mapping[str, Any]
    attrs: Mapping[str, Any]


def _nothing_to_check(params: Mapping[str, Any]) -> None:
    """Any numbers will do."""


def _never(use: Use) -> bool:
    return False


def _as_it_is(weight: Any, attrs: Mapping[str, Any]) -> Any:
    """(out, in, ...) already."""
    return weight


def _nothing_held(use: Use) -> int:
    return 0


@dataclass(frozen=True)
class Op:
    """An operator of the moment graph.

    `formula(xp, *inputs, **params, **attrs)` takes Moments or, if `point_inputs`, plain arrays. Parameters in
    `gaussian` arrive as Moments, those in `constants` as arrays. `oracle` is the same operator on plain random
    numbers, f(torch tensors, **attrs); `kind` says how its moments are checked:
    'multilinear' by enumerating two-point distributions, exact; 'pointwise' by quadrature between its `kinks`;
    'correlated' by the same with one sign for all elements; 'moments' by an oracle of mean and variance; 'clamped',
    'tournament' and 'smooth' by tests of their own.

    `arithmetic` is the fewest instructions it takes, `memory` what its result may share, `attributes` how each one is
    read from a file, `training` what its layer needs beside them to train on. `identity` says of a use whether it
    gives back its input, `held` how many elements a backend may hold while it computes, beside inputs and result
    (limits.py), `check` refuses parameters that have no meaning. `channel_axis(rank)` (of a layer with weights) is
    the axis of a value with so many axes along which the rows of its weight lie, and `rows(weight, attrs)` the weight
    with a row for each output, or such rows as its weight;
    `as_affine(rank, **params, **attrs)` gives scale and shift where the operator is an affine map.
    """

    name: str
    formula: Callable[..., Any]
    shape: ShapeRule
    oracle: Callable[..., Any]
    kind: str
    samples: tuple[Sample, ...]
    arithmetic: Callable[[Use], int]
    memory: MemoryUse
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    gaussian: tuple[str, ...] = ()
    factored: tuple[str, ...] = ()  # those of them whose variances may be products, `Factored`
    constants: tuple[str, ...] = ()
    arity: int | None = 1  # None: any number from one
    point_inputs: bool = False
    point_output: bool = False
    point_form: str | None = None  # the operator to use where every input is a point
    mixed_form: str | None = None  # the operator to use for a random value and a point, in this order
    form_of: str | None = None  # the operator of which this is the form for points, or for a point and a random value
    identity: Callable[[Use], bool] = _never
    held: Callable[[Use], int] = _nothing_held
    check: Callable[[Mapping[str, Any]], None] = _nothing_to_check
    training: Mapping[str, Attribute] = field(default_factory=dict)
    channel_axis: Callable[[int], int] | None = None
    rows: Callable[[Any, Mapping[str, Any]], Any] = _as_it_is
    as_affine: Callable[..., tuple[Any, Any]] | None = None
    kinks: tuple[float, ...] = ()
    tolerance: float = 1e-6  # relative, in float32

    @property
    def params(self) -> tuple[str, ...]:
        """The names of all parameters."""
        return self.gaussian + self.constants

    @property
    def general(self) -> str:
        """The operator of which this is a form, or itself."""
        return self.form_of or self.name

    @property
    def is_mixed(self) -> bool:
        """Takes a random value and a point."""
        return self.form_of is not None and not self.point_inputs

    def takes_random(self, count: int) -> list[bool]:
        """For each of `count` inputs whether it is random."""
        return [True, *[False] * (count - 1)] if self.is_mixed else [not self.point_inputs] * count

    def at_points(self, attrs: Mapping[str, Any]) -> tuple[Op, dict[str, Any]]:
        """The operator for known inputs, and those attributes that it takes."""
        assert self.point_form is not None, self.name
        form = find(self.point_form)
        return form, {key: value for key, value in attrs.items() if key in form.attributes}


OPS: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Adds an operator to the table."""
    assert op.name not in OPS, op.name
    OPS[op.name] = op
    return op


def register_forms(
    op: Op, formula: Callable[..., Any], arithmetic: Callable[[Use], int], point_output: bool = True
) -> None:
    """Adds an operator and NAME_point, its form for known inputs: another formula, and what that costs."""
    name, taken = f"{op.name}_point", inspect.signature(formula).parameters
    attributes = {key: read for key, read in op.attributes.items() if key in taken}
    register(replace(op, point_form=name))
    register(
        replace(
            op,
            name=name,
            formula=formula,
            arithmetic=arithmetic,
            attributes=attributes,
            form_of=op.name,
            mixed_form=None,
            point_inputs=True,
            point_output=point_output,
        )
    )


def find(name: str) -> Op:
    """The operator called `name`."""
    try:
        return OPS[name]
    except KeyError:
        raise LbnnError(f"unknown operator {name!r}; this version knows {', '.join(sorted(OPS))}") from None
