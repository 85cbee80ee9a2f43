"""From networks of FastBNNs, which carry moments as we do: `weight_mean` and softplus(`weight_rho`)."""

from __future__ import annotations

from typing import Any

from torch import nn

import lbnn.nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.convert.others import OtherConverter, Package, convert_network, gaussian_batch_norm, gaussian_layer

PAPER_CLAMP = 3.0
"""Of FastBNNs' closed ReLU and leaky-ReLU, in standard deviations."""
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def from_fastbnns(network: nn.Module, correlated: bool = False) -> nn.Module:
    """A copy of a FastBNNs network (a `BNN`, or a module that `convert_to_bnn_` was called on) made of lbnn's layers.

    Its moments are FastBNNs' own where those are closed formulas: linear layers, convolutions, average pools, and its
    `ReLUa` and `LeakyReLUa`. Activations that FastBNNs takes through its unscented transform get exact moments.
    `correlated` is that of `lbnn.from_torch`.
    """
    return convert_network(FASTBNNS, network, correlated)


def _network(converter: OtherConverter, module: Any, path: str) -> nn.Module:
    return converter.convert(module.bnn, path)


def _broadcast(converter: OtherConverter, module: Any, path: str) -> nn.Module:
    return converter.convert(module.module, path)


def _module(converter: OtherConverter, module: Any, path: str) -> nn.Module:
    inner, params = module._module, module._module_params
    names = [key.removesuffix("_mean") for key in params if key.endswith("_mean")]
    mean, rho = ({name: params[f"{name}_{part}"] for name in names} for part in ("mean", "rho"))
    if all(value is None for value in rho.values()):
        return _closed(module) or converter.convert(inner, path)
    if unknown := set(names) - {"weight", "bias"}:
        raise LbnnError(f"the Gaussian parameters {', '.join(sorted(unknown))} have no counterpart")
    if isinstance(inner, NORMS):
        return gaussian_batch_norm(inner, mean, rho)
    for name, value in mean.items():
        setattr(inner, name, value)
    return gaussian_layer(inner, rho)


def _closed(module: Any) -> nn.Module | None:
    """The activation with FastBNNs' closed moments, if that is what carries them."""
    inner, propagator = module._module, type(module._moment_propagator).__name__
    if propagator == "LeakyReLUa" and isinstance(inner, nn.LeakyReLU):
        return bnn.LeakyReLU(inner.negative_slope, clamp=PAPER_CLAMP)
    return bnn.ReLU(clamp=PAPER_CLAMP) if propagator == "ReLUa" and isinstance(inner, nn.ReLU) else None


FASTBNNS = Package("fastbnns", {"BNN": _network, "BayesianModule": _module, "BroadcastModule": _broadcast})
