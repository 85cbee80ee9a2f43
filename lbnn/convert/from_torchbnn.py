"""From networks of torchbnn, which samples weights: `weight_mu` and exp(`weight_log_sigma`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lbnn.convert import others
from lbnn.convert.others import OtherConverter, Package


def from_torchbnn(network: nn.Module, correlated: bool = False) -> nn.Module:
    """A copy of a torchbnn network with the same Gaussian weights; frozen layers keep the weights that were drawn.

    `correlated` is that of `lbnn.from_torch`.
    """
    return others.convert_network(TORCHBNN, network, correlated)


def _gaussians(module: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Means and rho; a frozen layer's weights are those of its draw, and known."""
    mean: dict[str, Tensor] = {}
    rho: dict[str, Tensor] = {}
    for name in ("weight", "bias"):
        mu, log_sigma, eps = (getattr(module, f"{name}_{part}", None) for part in ("mu", "log_sigma", "eps"))
        if mu is not None and log_sigma is not None:
            mean[name] = mu if eps is None else mu + torch.exp(log_sigma) * eps
            rho[name] = others.rho_of(torch.exp(log_sigma)) if eps is None else others.known_rho(mu)
    return mean, rho


def _linear(converter: OtherConverter, module: Any, path: str) -> nn.Module:
    mean, rho = _gaussians(module)
    plain = others.plain_layer(nn.Linear, module, others.LINEAR_NAMES, mean["weight"], mean.get("bias"))
    return others.gaussian_layer(plain, rho)


def _conv(converter: OtherConverter, module: Any, path: str) -> nn.Module:
    mean, rho = _gaussians(module)
    names = (*(name for name in others.CONV_NAMES if name != "output_padding"), "padding_mode")
    plain = others.plain_layer(nn.Conv2d, module, names, mean["weight"], mean.get("bias"))
    return others.gaussian_layer(plain, rho)


def _batch_norm(converter: OtherConverter, module: Any, path: str) -> nn.Module:
    norm = nn.BatchNorm2d(module.num_features, module.eps, module.momentum, affine=False)
    norm.running_mean, norm.running_var = module.running_mean, module.running_var
    return others.gaussian_batch_norm(norm, *_gaussians(module)) if module.affine else converter.convert(norm, path)


TORCHBNN = Package("torchbnn", {"BayesLinear": _linear, "BayesConv2d": _conv, "BayesBatchNorm2d": _batch_norm})
