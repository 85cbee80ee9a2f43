"""From networks of BLiTZ, which samples weights: `weight_sampler` draws from its `mu` and softplus(`rho`)."""

from __future__ import annotations

from typing import Any

from torch import nn

from lbnn.convert import others
from lbnn.convert.others import OtherConverter, Package, Reader, refuse

SHARED = "its weights are shared through time, which one pass would get wrong; only feed-forward layers are converted"


def from_blitz(network: nn.Module, correlated: bool = False) -> nn.Module:
    """A copy of a BLiTZ network with the same Gaussian weights; frozen layers have known ones.

    `correlated` is that of `lbnn.from_torch`.
    """
    return others.convert_network(BLITZ, network, correlated)


def _layer(kind: type[nn.Module], names: tuple[str, ...]) -> Reader:
    def read(converter: OtherConverter, module: Any, path: str) -> nn.Module:
        """From the samplers, not the layer's own parameters: a network that was moved and trained has two sets."""
        parts = {"weight": module.weight_sampler, **({"bias": module.bias_sampler} if module.bias else {})}
        mean, rho = ({name: getattr(part, key) for name, part in parts.items()} for key in ("mu", "rho"))
        if module.freeze:  # which computes with the layer's own
            mean = {name: getattr(module, f"{name}_mu") for name in parts}
            rho = {name: others.known_rho(value) for name, value in mean.items()}
        return others.gaussian_layer(others.plain_layer(kind, module, names, mean["weight"], mean.get("bias")), rho)

    return read


BLITZ = Package(
    "blitz",
    {
        "BayesianLinear": _layer(nn.Linear, others.LINEAR_NAMES),
        "BayesianConv1d": _layer(nn.Conv1d, others.CONV_NAMES),
        "BayesianConv2d": _layer(nn.Conv2d, others.CONV_NAMES),
        "BayesianConv3d": refuse("lbnn has one and two spatial axes"),
        "BayesianLSTM": refuse(SHARED),
        "BayesianGRU": refuse(SHARED),
        "BayesianEmbedding": refuse("lbnn has no embeddings; give the network its vectors"),
    },
)
