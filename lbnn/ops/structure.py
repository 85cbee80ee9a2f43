"""Operators that only move or add elements: flatten, pad, add, shift, concat, lift and constants."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each, none
from lbnn.ops.attributes import integer, pairs
from lbnn.ops.memory import MEAN, OWN, VAR, MemoryUse
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, register, register_forms

Padding = tuple[tuple[int, int], ...]


def flatten(xp: Namespace, x: Moments[Any]) -> Moments[Any]:
    """The same elements in one axis."""
    return Moments(xp.flatten(x.mean), xp.flatten(x.var))


def flatten_point(xp: Namespace, x: Any) -> Any:
    """The same known elements in one axis."""
    return xp.flatten(x)


def flatten_shape(x: Shape) -> Shape:
    """(a, b, ...) -> (a * b * ...,)."""
    return (prod(x),)


def pad(xp: Namespace, x: Moments[Any], padding: Padding) -> Moments[Any]:
    """Known zeros around the spatial axes."""
    return Moments(xp.pad(x.mean, padding), xp.pad(x.var, padding))


def pad_point(xp: Namespace, x: Any, padding: Padding) -> Any:
    """Zeros around known values."""
    return xp.pad(x, padding)


def pad_shape(x: Shape, padding: Padding) -> Shape:
    """Each spatial axis grows by before + after."""
    if len(padding) != len(x) - 1 or min(min(pair) for pair in padding) < 0:
        raise LbnnError(f"pad: padding {padding} does not fit input {x}")
    return (x[0], *(size + before + after for size, (before, after) in zip(x[1:], padding, strict=True)))


def add(xp: Namespace, x: Moments[Any], y: Moments[Any]) -> Moments[Any]:
    """The sum of independent values: means add, variances add."""
    return x + y


def shift(xp: Namespace, x: Moments[Any], y: Any) -> Moments[Any]:
    """A known value added: the variance stays."""
    return Moments(x.mean + y, x.var)


def add_point(xp: Namespace, x: Any, y: Any) -> Any:
    """The sum of known values."""
    return x + y


def add_shape(x: Shape, y: Shape) -> Shape:
    """Both inputs have one shape; nothing is broadcast, because a repeated random value is not independent."""
    if x != y:
        raise LbnnError(f"add: shapes {x} and {y} differ")
    return x


def concat(xp: Namespace, *xs: Moments[Any], axis: int) -> Moments[Any]:
    """One behind the other along `axis` (0 is the first behind the batch axis)."""
    return Moments(xp.concat([x.mean for x in xs], axis), xp.concat([x.var for x in xs], axis))


def concat_point(xp: Namespace, *xs: Any, axis: int) -> Any:
    """Known values, one behind the other."""
    return xp.concat(xs, axis)


def concat_shape(*xs: Shape, axis: int) -> Shape:
    """All axes but `axis` agree."""
    first = xs[0]
    if not 0 <= axis < len(first) or any(x[:axis] + x[axis + 1 :] != first[:axis] + first[axis + 1 :] for x in xs):
        raise LbnnError(f"concat: shapes {', '.join(map(str, xs))} do not fit along axis {axis}")
    return (*first[:axis], sum(x[axis] for x in xs), *first[axis + 1 :])


def lift(xp: Namespace, x: Any) -> Moments[Any]:
    """A known value as moments: variance zero."""
    return Moments(x, x * 0.0)


def constant(xp: Namespace, value: Any) -> Any:
    """A known value that is part of the model."""
    return value


def _pad_oracle(x: Any, padding: Padding) -> Any:
    return F.pad(x, [amount for pair in reversed(padding) for amount in pair])


def _concat_oracle(*xs: Any, axis: int) -> Any:
    return torch.cat(xs, axis)


register_forms(
    Op(
        "flatten",
        flatten,
        shape=flatten_shape,
        oracle=torch.flatten,
        kind="multilinear",
        samples=(Sample(((2, 2, 2),)), Sample(((3,),))),
        arithmetic=none,
        memory=MemoryUse(aliases=((MEAN, 0, MEAN), (VAR, 0, VAR))),
        identity=lambda use: len(use.inputs[0]) == 1,
    ),
    flatten_point,
    none,
)
register_forms(
    Op(
        "pad",
        pad,
        shape=pad_shape,
        oracle=_pad_oracle,
        kind="multilinear",
        samples=(
            Sample(((1, 2, 3),), {}, {"padding": ((1, 0), (2, 1))}),
            Sample(((2, 3),), {}, {"padding": ((0, 2),)}),
        ),
        arithmetic=none,
        memory=OWN,
        attributes={"padding": pairs},
        identity=lambda use: not any(map(any, use.attrs["padding"])),
    ),
    pad_point,
    none,
)
_ADD = Op(
    "add",
    add,
    shape=add_shape,
    oracle=torch.add,
    kind="multilinear",
    samples=(Sample(((2, 3), (2, 3))),),
    arithmetic=each(2),
    memory=MemoryUse(in_place=(0, 1)),
    arity=2,
    mixed_form="shift",
)
register_forms(_ADD, add_point, each(1))
register(
    replace(
        _ADD,
        name="shift",
        formula=shift,
        arithmetic=each(1),
        memory=MemoryUse(in_place=(0,), aliases=((VAR, 0, VAR),)),
        form_of="add",
        mixed_form=None,
    )
)
register_forms(
    Op(
        "concat",
        concat,
        shape=concat_shape,
        oracle=_concat_oracle,
        kind="multilinear",
        samples=(
            Sample(((2, 2), (3, 2)), {}, {"axis": 0}),
            Sample(((1, 2), (1, 1), (1, 3)), {}, {"axis": 1}),
        ),
        arithmetic=none,
        memory=MemoryUse(joins=True),
        attributes={"axis": integer},
        arity=None,
        identity=lambda use: len(use.inputs) == 1,
    ),
    concat_point,
    none,
)
register(
    Op(
        "lift",
        lift,
        shape=lambda x: x,
        oracle=lambda x: x,
        kind="multilinear",
        samples=(Sample(((3,),)),),
        arithmetic=none,
        memory=MemoryUse(aliases=((MEAN, 0, MEAN),)),
        point_inputs=True,
    )
)
register(
    Op(
        "constant",
        constant,
        shape=lambda value: value,
        oracle=lambda value: value,
        kind="multilinear",
        samples=(Sample((), {"value": (2, 3)}),),
        arithmetic=none,
        memory=MemoryUse(stored=True),
        constants=("value",),
        arity=0,
        point_inputs=True,
        point_output=True,
    )
)
