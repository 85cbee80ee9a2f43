"""The absolute value of a Gaussian: exact moments."""

from __future__ import annotations

from typing import Any

import torch

from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each
from lbnn.ops.leaky_relu import same_shape
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace
from lbnn.ops.table import Op, Sample, register_forms


def absolute(xp: Namespace, x: Moments[Any]) -> Moments[Any]:
    """Exact moments of |a| for a ~ N(E, V): leaky-ReLU's with the slope -1.

    With sigma = sqrt(V), x = |E|/sigma and Q, I1, J2 the probability and the first two moments of the normal tail
    beyond x (the part of the distribution on the other side of zero):

        E' = |E| + 2 sigma I1
        V' = V [ 1 - 4 Q + 4 (J2 - I1^2) ]
    """
    size, sigma = xp.abs(x.mean), xp.sqrt(x.var)
    excess, ratio = xp.tail_mix(xp.ratio(size, sigma), [(0.0, 0.0, 2.0, 0.0), (1.0, -4.0, 0.0, 4.0)])
    return Moments(size + sigma * excess, x.var * (ratio - excess * excess))


def absolute_point(xp: Namespace, x: Any) -> Any:
    """The absolute value of a known value."""
    return xp.abs(x)


# Per element: sigma, |E|, x = |E| / sigma and its bound 4; x^2, e^(-x^2/2) 12; N, P, T, D, quotient 10; E', V' 7.
register_forms(
    Op(
        "abs",
        absolute,
        shape=same_shape,
        oracle=torch.abs,
        kind="pointwise",
        samples=(Sample(((64,),)),),
        arithmetic=each(33),
        memory=IN_PLACE,
        kinks=(0.0,),
    ),
    absolute_point,
    each(1),
)
