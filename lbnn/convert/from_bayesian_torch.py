"""From networks of Bayesian-Torch, which samples weights: `mu_weight` (`mu_kernel`) and softplus(`rho_weight`)."""

from __future__ import annotations

from typing import Any

from torch import nn

from lbnn.base.moments import Moments
from lbnn.convert import others
from lbnn.convert.others import OtherConverter, Package, Reader, refuse


def from_bayesian_torch(network: nn.Module, correlated: bool = False) -> nn.Module:
    """A copy of a Bayesian-Torch network, written with its layers or made by `dnn_to_bnn`, with the same Gaussians.

    Reparameterization and Flipout draw the same weights for one sample. A forward that takes (value, KL) from its
    layers goes on doing so; the KL is 0, and the network gives the value alone. `correlated` is that of
    `lbnn.from_torch`.
    """
    converted = others.convert_network(BAYESIAN_TORCH, network, correlated)
    return WithoutKl(converted) if any(isinstance(part, Paired) for part in converted.modules()) else converted


class Paired(nn.Module):
    """A layer in a forward that expects (value, KL) from it."""

    def __init__(self, layer: nn.Module, always: bool) -> None:
        super().__init__()
        self.layer, self.always = layer, always

    def forward(self, x: Any, return_kl: bool = True) -> Any:
        """A pair where one came in, or always if the layer is one that has a KL."""
        paired = _is_pair(x)
        out = self.layer(x[0] if paired else x)
        return (out, 0.0) if paired or (self.always and return_kl) else out


class WithoutKl(nn.Module):
    """A network without the KL that its forward gives beside the value."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Any) -> Any:
        """The value."""
        out = self.network(x)
        return out[0] if _is_pair(out) else out


def _is_pair(x: Any) -> bool:
    return isinstance(x, tuple) and not isinstance(x, Moments)


def _gaussian(kind: type[nn.Module], weight: str, names: tuple[str, ...]) -> Reader:
    def read(converter: OtherConverter, module: Any, path: str) -> nn.Module:
        plain = others.plain_layer(kind, module, names, getattr(module, f"mu_{weight}"), module.mu_bias)
        layer = others.gaussian_layer(plain, {"weight": getattr(module, f"rho_{weight}"), "bias": module.rho_bias})
        return layer if module.dnn_to_bnn_flag else Paired(layer, always=True)

    return read


def _batch_norm(kind: type[nn.Module]) -> Reader:
    def read(converter: OtherConverter, module: Any, path: str) -> nn.Module:
        plain: Any = kind(len(module.running_mean), module.eps, module.momentum, affine=module.affine)
        for name in ("weight", "bias", "running_mean", "running_var"):
            setattr(plain, name, getattr(module, name))
        return Paired(converter.convert(plain, path), always=False)

    return read


def _plain(kind: type[nn.Module]) -> Reader:
    return lambda converter, module, path: Paired(converter.convert(kind(), path), always=False)


FORMS = ("Reparameterization", "Flipout")
GAUSSIANS = {
    "Linear": _gaussian(nn.Linear, "weight", others.LINEAR_NAMES),
    "Conv1d": _gaussian(nn.Conv1d, "kernel", others.CONV_NAMES),
    "Conv2d": _gaussian(nn.Conv2d, "kernel", others.CONV_NAMES),
    "ConvTranspose1d": _gaussian(nn.ConvTranspose1d, "kernel", others.CONV_NAMES),
    "ConvTranspose2d": _gaussian(nn.ConvTranspose2d, "kernel", others.CONV_NAMES),
    "LSTM": refuse("its weights are shared through time, which one pass would get wrong"),
    "Conv3d": refuse("lbnn has one and two spatial axes"),
    "ConvTranspose3d": refuse("lbnn has one and two spatial axes"),
}
BAYESIAN_TORCH = Package(
    "bayesian_torch",
    {
        **{f"{name}{form}": read for name, read in GAUSSIANS.items() for form in FORMS},
        "BatchNorm1dLayer": _batch_norm(nn.BatchNorm1d),
        "BatchNorm2dLayer": _batch_norm(nn.BatchNorm2d),
        "ReLU": _plain(nn.ReLU),
        "Dropout": _plain(nn.Dropout),
    },
)
