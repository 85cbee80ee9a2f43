"""The product of two independent values: gates, and scaling by what a network computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each
from lbnn.ops.memory import OWN
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, register, register_forms


def multiply(xp: Namespace, x: Moments[Any], y: Moments[Any]) -> Moments[Any]:
    """E' = E1 E2;  V' = V1 (V2 + E2^2) + V2 E1^2, exact for independent values of any distribution."""
    return Moments(x.mean * y.mean, x.var * (y.var + y.mean * y.mean) + y.var * (x.mean * x.mean))


def multiply_known(xp: Namespace, x: Moments[Any], y: Any) -> Moments[Any]:
    """A random value times a known one: E' = E y;  V' = V y^2."""
    return Moments(x.mean * y, x.var * (y * y))


def multiply_point(xp: Namespace, x: Any, y: Any) -> Any:
    """The product of known values."""
    return x * y


def multiply_shape(x: Shape, y: Shape) -> Shape:
    """One shape, or one of them a value for each channel, (C, 1, ...), that serves all places of the other."""
    for whole, gate in ((x, y), (y, x)):
        if gate in (whole, (whole[0],) + (1,) * (len(whole) - 1)):
            return whole
    raise LbnnError(f"multiply: shapes {x} and {y} differ; one may have a single value for each channel")


_MULTIPLY = Op(
    "multiply",
    multiply,
    shape=multiply_shape,
    oracle=torch.mul,
    kind="multilinear",
    samples=(Sample(((2, 3), (2, 3))), Sample(((2, 2, 2), (2, 1, 1))), Sample(((3, 1), (3, 2)))),
    arithmetic=each(5),
    memory=OWN,
    arity=2,
    mixed_form="multiply_known",
)
register_forms(_MULTIPLY, multiply_point, each(1))
register(
    replace(
        _MULTIPLY,
        name="multiply_known",
        formula=multiply_known,
        arithmetic=each(3),
        form_of="multiply",
        mixed_form=None,
    )
)
