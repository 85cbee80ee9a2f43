"""Dropout that stays on: noise that multiplies each element, by its moments."""

from __future__ import annotations

from typing import Any

from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each
from lbnn.ops.attributes import number
from lbnn.ops.leaky_relu import same_shape
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace
from lbnn.ops.table import Op, Sample, register_forms


def dropout(xp: Namespace, x: Moments[Any], p: float) -> Moments[Any]:
    """E' = E;  V' = (V + p E^2) / (1 - p): each element is 0 with probability p, else divided by 1 - p."""
    return Moments(x.mean, (x.var + x.mean * x.mean * p) * (1.0 / (1.0 - p)))


def dropout_point(xp: Namespace, x: Any, p: float) -> Moments[Any]:
    """V' = p / (1 - p) x^2: only the noise remains."""
    return Moments(x, x * x * (p / (1.0 - p)))


def _oracle(mean: Any, var: Any, p: float) -> tuple[Any, Any]:
    """By both outcomes: 0 and x / (1 - p)."""
    second = (1.0 - p) * (var + mean * mean) / (1.0 - p) ** 2
    return mean, second - mean * mean


register_forms(
    Op(
        "dropout",
        dropout,
        shape=same_shape,
        oracle=_oracle,
        kind="moments",
        samples=tuple(Sample(((2, 3),), {}, {"p": p}) for p in (0.1, 0.5, 0.9)),
        arithmetic=each(3),
        memory=IN_PLACE,
        attributes={"p": number(1e-6, 0.999)},
    ),
    dropout_point,
    each(2),
    point_output=False,
)
