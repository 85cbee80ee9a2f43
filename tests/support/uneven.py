"""Networks with variances of a form, the sigmas or factors of which differ."""

from __future__ import annotations

import torch

from lbnn.nn import BayesianLayer


def uneven(module: torch.nn.Module, variance: str) -> torch.nn.Module:
    """The module with variances of a form; those that it was made with if they are full."""
    for layer in module.modules():
        if isinstance(layer, BayesianLayer) and variance != "full":
            layer.spread_evenly(-3.0, variance)
            with torch.no_grad():
                for name, parameter in layer.named_parameters():
                    parameter.add_(0.3 * torch.randn_like(parameter) * name.endswith("rho"))
    return module
