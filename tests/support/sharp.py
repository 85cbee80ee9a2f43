"""Networks of one sigma throughout: with a small one their sums cancel beside |mean| + sd, and float32 shows."""

from __future__ import annotations

from itertools import pairwise

import torch

from lbnn import nn as bnn
from lbnn.model.file import Model, read_model
from lbnn.nn.base import BayesianLayer


def with_sigma(network: torch.nn.Module, sigma: float, spread: float = 0.0) -> torch.nn.Module:
    """The same network, every weight and bias with this sigma, or with one near it (`spread`, of its logarithm)."""
    draw = torch.Generator().manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, BayesianLayer):
            _fill_sigma(layer, sigma, spread, draw)
    return network


def _fill_sigma(layer: BayesianLayer, sigma: float, spread: float, draw: torch.Generator) -> None:
    """With factors the row's is sigma and the column's 1."""
    for name, parameter in layer.named_parameters():
        if name.endswith("rho"):
            least = 1.0 if name == "weight_column_rho" else sigma
            own = least * torch.exp(spread * torch.randn(parameter.shape, generator=draw))
            with torch.no_grad():
                parameter.copy_(torch.log(torch.expm1(own.double())))


def mlp(*widths: int, sigma: float = 0.1, seed: int = 0) -> Model:
    """Linear layers with a leaky-ReLU between them."""
    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [bnn.Linear(inputs, outputs), bnn.LeakyReLU(0.1)]
    return read_model(with_sigma(bnn.Sequential(*layers[:-1]), sigma), widths[:1])


def cnn(sigma: float) -> Model:
    """Two convolutions, each with a pool, and a linear layer."""
    torch.manual_seed(0)
    network = bnn.Sequential(
        bnn.Conv2d(1, 8, 3, padding=1),
        bnn.LeakyReLU(0.1),
        bnn.AvgPool2d(2),
        bnn.Conv2d(8, 8, 3, padding=1),
        bnn.LeakyReLU(0.1),
        bnn.AvgPool2d(2),
        bnn.Flatten(),
        bnn.Linear(32, 10),
    )
    return read_model(with_sigma(network, sigma), (1, 8, 8))
