"""A layer's parameters as the graph holds them: what training left, in float64 arrays of float32 values."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph import Param
from lbnn.nn.base import BayesianLayer, Layer

NO_BIAS = Moments(np.zeros(()), np.zeros(()))
"""The bias of a layer without one: zero, known exactly."""


def parameters(layer: Layer) -> dict[str, Param]:
    """A layer's parameters as the graph holds them: float32 values in float64 arrays."""
    if not isinstance(layer, BayesianLayer):
        return {key: exact(value) for key, value in layer.op_params().items()}
    params: dict[str, Param] = {key: gaussian(mu, rho) for key, mu, rho in layer.named_gaussians()}
    return params if "bias" in params else {**params, "bias": NO_BIAS}


def gaussian(mu: Tensor, rho: Tensor) -> Moments[Array]:
    """Mean and variance softplus(rho)^2, computed in float64 and rounded to float32 once."""
    with np.errstate(over="ignore"):
        variance = np.square(np.logaddexp(0.0, exact(rho))).astype(np.float32).astype(np.float64)
    return Moments(exact(mu), variance)


def exact(tensor: Tensor) -> Array:
    """The float32 values of a tensor in float64."""
    array: Array = tensor.detach().to("cpu", torch.float32).numpy().astype(np.float64)
    return array
