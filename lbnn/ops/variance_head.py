"""The learned-variance head: half of the features are means, the other half give the noise."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import SOFTPLUS, each
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, register_forms


def variance_head(xp: Namespace, x: Moments[Any]) -> Moments[Any]:
    """Features (mu, s): E' = E[mu];  V' = V[mu] + softplus(E[s]), epistemic plus learned noise."""
    mean, raw = xp.halves(x.mean)
    spread, _ = xp.halves(x.var)
    return Moments(mean, spread + xp.softplus(raw))


def variance_head_point(xp: Namespace, x: Any) -> Moments[Any]:
    """Known features: only the learned noise remains."""
    mean, raw = xp.halves(x)
    return Moments(mean, xp.softplus(raw))


def variance_head_shape(x: Shape) -> Shape:
    """(2k, ...) -> (k, ...)."""
    if x[0] % 2:
        raise LbnnError(f"variance_head: needs an even number of features (means, then noise), got {x}")
    return (x[0] // 2, *x[1:])


def _oracle(mean: Any, var: Any) -> tuple[Any, Any]:
    k = mean.shape[0] // 2
    return mean[:k], var[:k] + F.softplus(mean[k:])


register_forms(
    Op(
        "variance_head",
        variance_head,
        shape=variance_head_shape,
        oracle=_oracle,
        kind="moments",
        samples=(Sample(((2,),)), Sample(((6,),)), Sample(((4, 3),))),
        arithmetic=each(SOFTPLUS + 1),
        memory=IN_PLACE,
    ),
    variance_head_point,
    each(SOFTPLUS),
    point_output=False,
)
