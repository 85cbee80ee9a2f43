"""Linear layer with Gaussian weights."""

from __future__ import annotations

from math import prod
from typing import Any

import torch.nn.functional as F

from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import weighted, weighted_point
from lbnn.ops.factored import linear_factored
from lbnn.ops.memory import OWN
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, Use, register_forms


def linear(xp: Namespace, x: Moments[Any], weight: Moments[Any] | Factored[Any], bias: Moments[Any]) -> Moments[Any]:
    """E' = E[b] + E * E[w];  V' = V[b] + V * (V[w] + E[w]^2) + E^2 * V[w]."""
    if isinstance(weight, Factored):
        return linear_factored(xp, x, weight, bias)
    return Moments(
        xp.linear(bias.mean, (x.mean, weight.mean)),
        xp.linear(bias.var, (x.mean * x.mean, weight.var), (x.var, weight.var + weight.mean * weight.mean)),
    )


def linear_point(xp: Namespace, x: Any, weight: Moments[Any] | Factored[Any], bias: Moments[Any]) -> Moments[Any]:
    """V' = V[b] + E^2 * V[w]: the input is known."""
    if isinstance(weight, Factored):
        return linear_factored(xp, x, weight, bias)
    return Moments(xp.linear(bias.mean, (x, weight.mean)), xp.linear(bias.var, (x * x, weight.var)))


def linear_shape(x: Shape, weight: Shape, bias: Shape) -> Shape:
    """(..., in) -> (..., out)."""
    if len(weight) != 2 or x[-1:] != weight[1:] or bias not in ((), weight[:1]):
        raise LbnnError(f"linear: input {x} does not fit weight {weight} and bias {bias}")
    return (*x[:-1], weight[0])


def _products(use: Use) -> int:
    """Pairs of a weight and an input."""
    return prod(use.output) * use.inputs[0][-1]


_SAMPLES = (
    Sample(((3,),), {"weight": (2, 3), "bias": (2,)}),
    Sample(((4,),), {"weight": (1, 4), "bias": (1,)}),
    Sample(((2, 3),), {"weight": (2, 3), "bias": (2,)}),
    Sample(((3,),), {"weight": (2, 3), "bias": ()}),
    Sample(((3,),), {"weight": (2, 3), "bias": (2,)}, variance="rank1"),
    Sample(((2, 3),), {"weight": (4, 3), "bias": ()}, variance="rank1"),
    Sample(((4,),), {"weight": (3, 4), "bias": (3,)}, variance="row"),
)
register_forms(
    Op(
        "linear",
        linear,
        shape=linear_shape,
        oracle=lambda x, weight, bias: F.linear(x, weight) + bias,
        kind="multilinear",
        samples=_SAMPLES,
        arithmetic=weighted(_products),
        memory=OWN,
        gaussian=("weight", "bias"),
        factored=("weight",),
        channel_axis=lambda rank: rank - 1,
    ),
    linear_point,
    weighted_point(_products),
    point_output=False,
)
