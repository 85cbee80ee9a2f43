"""Nearest-neighbour upsampling: each element several times along the spatial axes."""

from __future__ import annotations

from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import none
from lbnn.ops.attributes import integers
from lbnn.ops.memory import OWN
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, register_forms


def upsample(xp: Namespace, x: Moments[Any], factors: Shape) -> Moments[Any]:
    """Copies: each has the mean and the variance of its element, and no independence of the others."""
    return Moments(xp.repeat(x.mean, factors), xp.repeat(x.var, factors))


def upsample_point(xp: Namespace, x: Any, factors: Shape) -> Any:
    """Copies of known elements."""
    return xp.repeat(x, factors)


def upsample_shape(x: Shape, factors: Shape) -> Shape:
    """Each spatial axis grows by its factor."""
    if len(x) not in (2, 3):
        raise LbnnError(f"upsample: input {x} must have channels and one or two spatial axes")
    if len(factors) != len(x) - 1 or min(factors) < 1:
        raise LbnnError(f"upsample: factors {factors} do not fit input {x}; one of at least 1 for each spatial axis")
    return (x[0], *(size * factor for size, factor in zip(x[1:], factors, strict=True)))


def _oracle(x: Any, factors: Shape) -> Any:
    for axis, factor in enumerate(factors, start=1):
        x = x.repeat_interleave(factor, axis)
    return x


register_forms(
    Op(
        "upsample",
        upsample,
        shape=upsample_shape,
        oracle=_oracle,
        kind="multilinear",
        samples=(
            Sample(((2, 3),), {}, {"factors": (2,)}),
            Sample(((1, 2, 3),), {}, {"factors": (3, 2)}),
            Sample(((2, 1, 2),), {}, {"factors": (1, 4)}),
        ),
        arithmetic=none,
        memory=OWN,
        attributes={"factors": integers},
        identity=lambda use: set(use.attrs["factors"]) == {1},
    ),
    upsample_point,
    none,
)
