"""A layer's parameters as the graph holds them: what training left, in float64 arrays of float32 values."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lbnn.base.arrays import Array
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph import Param
from lbnn.nn.base import BayesianLayer, Layer
from lbnn.nn.spread import Rho

NO_BIAS = Moments(np.zeros(()), np.zeros(()))
"""The bias of a layer without one: zero, known exactly."""


def parameters(layer: Layer) -> dict[str, Param]:
    """A layer's parameters as the graph holds them: float32 values in float64 arrays."""
    if not isinstance(layer, BayesianLayer):
        return {key: exact(value) for key, value in layer.op_params().items()}
    params: dict[str, Param] = {key: gaussian(mu, rho, layer.groups) for key, mu, rho in layer.named_gaussians()}
    params.setdefault("bias", NO_BIAS)
    return params


def gaussian(mu: Tensor, rho: Rho, groups: int = 1) -> Moments[Array] | Factored[Array]:
    """Mean and variance, or its factors for so many groups of outputs."""
    if isinstance(rho, Tensor):
        return Moments(exact(mu), _variance(rho))
    column = np.ones(mu.shape[1:]) if rho.column is None else _variance(rho.column)
    if not 0 < groups <= len(mu):
        raise LbnnError(f"{len(mu)} outputs can't be divided into {groups} groups")
    return Factored(exact(mu), _variance(rho.row), np.array(np.broadcast_to(column, (groups, *column.shape))))


def _variance(rho: Tensor) -> Array:
    """softplus(rho)^2, computed in float64 and rounded to float32 once."""
    with np.errstate(over="ignore"):
        variance: Array = np.square(np.logaddexp(0.0, exact(rho))).astype(np.float32).astype(np.float64)
    return variance


def exact(tensor: Tensor) -> Array:
    """The float32 values of a tensor in float64."""
    array: Array = tensor.detach().to("cpu", torch.float32).numpy().astype(np.float64)
    return array
