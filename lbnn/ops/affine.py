"""A known scale and shift, and batch normalisation at inference, which is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch.nn.functional as F

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import each
from lbnn.ops.attributes import number
from lbnn.ops.memory import IN_PLACE
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, Use, register_forms


def affine(xp: Namespace, x: Moments[Any], scale: Any, shift: Any) -> Moments[Any]:
    """E' = s E + t;  V' = s^2 V."""
    return Moments(x.mean * scale + shift, x.var * (scale * scale))


def affine_point(xp: Namespace, x: Any, scale: Any, shift: Any) -> Any:
    """s x + t of a known value."""
    return x * scale + shift


def affine_shape(x: Shape, scale: Shape, shift: Shape) -> Shape:
    """Scale and shift broadcast over the input, never the other way round."""
    try:
        fits = np.broadcast_shapes(x, scale, shift) == x
    except ValueError:
        fits = False
    if not fits:
        raise LbnnError(f"affine: scale {scale} and shift {shift} do not fit input {x}")
    return x


_SAMPLES = (
    Sample(((3,),), {"scale": (3,), "shift": (3,)}),
    Sample(((2, 2, 3),), {"scale": (2, 1, 1), "shift": ()}),
    Sample(((4,),), {"scale": (), "shift": (4,)}),
)


def _is_identity(use: Use) -> bool:
    return bool(np.all(use.params["scale"] == 1.0) and not np.any(use.params["shift"]))


register_forms(
    Op(
        "affine",
        affine,
        shape=affine_shape,
        oracle=lambda x, scale, shift: x * scale + shift,
        kind="multilinear",
        samples=_SAMPLES,
        arithmetic=each(2),
        memory=IN_PLACE,
        constants=("scale", "shift"),
        identity=_is_identity,
        as_affine=lambda rank, scale, shift: (scale, shift),
    ),
    affine_point,
    each(1),
)


def batch_norm(
    xp: Namespace, x: Moments[Any], weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float
) -> Moments[Any]:
    """The affine map of the running statistics."""
    return affine(xp, x, *batch_norm_affine(len(x.mean.shape) - 1, weight, bias, running_mean, running_var, eps))


def batch_norm_point(
    xp: Namespace, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float
) -> Any:
    """The affine map of the running statistics on a known value."""
    return affine_point(xp, x, *batch_norm_affine(len(x.shape) - 1, weight, bias, running_mean, running_var, eps))


def batch_norm_affine(
    rank: int, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float
) -> tuple[Any, Any]:
    """Scale and shift per channel, shaped to broadcast over `rank` axes (channels first)."""
    scale = weight / (running_var + eps) ** 0.5
    per_channel = (-1,) + (1,) * (rank - 1)
    return scale.reshape(per_channel), (bias - running_mean * scale).reshape(per_channel)


def batch_norm_shape(x: Shape, eps: float, **params: Shape) -> Shape:
    """One entry per channel in each parameter."""
    if any(shape != x[:1] for shape in params.values()):
        raise LbnnError(f"batch_norm: parameters {sorted(set(params.values()))} do not fit input {x}")
    return x


def _batch_norm_oracle(x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float) -> Any:
    return F.batch_norm(x[None], running_mean, running_var, weight, bias, False, 0.0, eps)[0]


def _check_statistics(params: Mapping[str, Any]) -> None:
    if np.any(params["running_var"] < 0):
        raise LbnnError("running_var is negative")


_STATISTICS = ("weight", "bias", "running_mean", "running_var")
register_forms(
    Op(
        "batch_norm",
        batch_norm,
        shape=batch_norm_shape,
        oracle=_batch_norm_oracle,
        kind="multilinear",
        samples=(
            Sample(((3,),), dict.fromkeys(_STATISTICS, (3,)), {"eps": 1e-5}),
            Sample(((2, 2, 2),), dict.fromkeys(_STATISTICS, (2,)), {"eps": 1e-2}),
        ),
        arithmetic=each(2),
        memory=IN_PLACE,
        attributes={"eps": number(1e-12, 1e6)},
        constants=_STATISTICS,
        check=_check_statistics,
        training={"momentum": number(0.0, 1.0)},
        as_affine=batch_norm_affine,
    ),
    batch_norm_point,
    each(1),
)
