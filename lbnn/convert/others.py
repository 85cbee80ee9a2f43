"""What converters of other packages' networks share: layers are known by class and parameters, nothing is imported."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import lbnn.nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.convert.from_torch import COUNTERPARTS, Converter
from lbnn.convert.pool_first import put_pools_first
from lbnn.nn.base import BayesianLayer, inverse_softplus

KNOWN_SIGMA = 1e-8
"""Of weights that the network knows: no sum in float32 sees it, and a training can go on from it."""
LINEAR_NAMES = ("in_features", "out_features")
CONV_NAMES = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "output_padding", "dilation", "groups")


@dataclass(frozen=True)
class Package:
    """A package that people have networks of: its name in Python, and how each of its classes is read."""

    name: str
    readers: Mapping[str, Reader]


class OtherConverter(Converter):
    """Layers of a package become those of lbnn with the same Gaussians; torch's own keep known weights."""

    def __init__(self, package: Package, correlated: bool) -> None:
        super().__init__(KNOWN_SIGMA, correlated)
        self.package = package

    def own(self, module: nn.Module, path: str) -> nn.Module | None:
        """By the first class of the package that the module is an instance of."""
        names = [kind.__name__ for kind in type(module).__mro__ if kind.__module__.split(".")[0] == self.package.name]
        read = next((self.package.readers[name] for name in names if name in self.package.readers), None)
        if read is None:
            if names and not _holds_layers(module):
                known = ", ".join(sorted(self.package.readers))
                raise LbnnError(f"module {path!r}: {names[0]} of {self.package.name} is none of those known: {known}")
            return None
        try:
            return read(self, module, path).train(module.training)
        except LbnnError as error:
            text = str(error)
            raise LbnnError(text if text.startswith("module ") else f"module {path!r} ({names[0]}): {text}") from None


Reader = Callable[[OtherConverter, Any, str], nn.Module]
"""(converter, module, its path) -> what it becomes."""


def convert_network(package: Package, network: nn.Module, correlated: bool) -> nn.Module:
    """A copy of a network with its layers replaced, and max pools before activations as `from_torch` has them."""
    return put_pools_first(OtherConverter(package, correlated).convert(copy.deepcopy(network), ""))


def _holds_layers(module: nn.Module) -> bool:
    """A network or block, which has no Gaussians of its own."""
    return any(True for _ in module.children()) and not any(True for _ in module.parameters(recurse=False))


def refuse(what: str) -> Reader:
    """The reader of a class that nothing here stands for."""

    def read(converter: OtherConverter, module: Any, path: str) -> nn.Module:
        raise LbnnError(what)

    return read


def plain_layer(kind: type[nn.Module], module: Any, names: tuple[str, ...], weight: Tensor, bias: Tensor | None) -> Any:
    """The torch layer whose weights are sampled, with their means; arguments are attributes of the same names."""
    arguments = {name: getattr(module, name) for name in names if hasattr(module, name)}
    plain: Any = kind(**arguments, bias=bias is not None, device="meta")
    if plain.weight.shape != weight.shape:
        raise LbnnError(f"a weight of shape {tuple(weight.shape)} where {tuple(plain.weight.shape)} was expected")
    plain.weight, plain.bias = nn.Parameter(weight.detach()), None if bias is None else nn.Parameter(bias.detach())
    return plain


def gaussian_layer(plain: nn.Module, rho: Mapping[str, Tensor | None]) -> nn.Module:
    """The Bayesian layer with the means of a torch layer and these rho, softplus(rho) = sigma; None is known."""
    convert = COUNTERPARTS.get(type(plain))
    layer = None if convert is None else convert(plain, KNOWN_SIGMA)
    if not isinstance(layer, BayesianLayer):
        raise LbnnError(f"lbnn has no layer with Gaussian weights for torch.nn.{type(plain).__name__}")
    for name, value in rho.items():
        if value is not None and getattr(layer, f"{name}_rho") is not None:
            setattr(layer, f"{name}_rho", nn.Parameter(value.detach().clone()))
    return layer


def gaussian_batch_norm(norm: Any, mean: Mapping[str, Tensor], rho: Mapping[str, Tensor]) -> nn.Module:
    """Batch norm with a Gaussian scale and shift: known statistics, then a convolution of each channel by itself."""
    if not isinstance(norm, nn.BatchNorm2d):
        raise LbnnError("batch norm with a Gaussian scale is supported as BatchNorm2d only; make the scale known")
    bare = nn.BatchNorm2d(norm.num_features, norm.eps, norm.momentum, affine=False)
    bare.running_mean, bare.running_var = norm.running_mean, norm.running_var
    plain = nn.Conv2d(norm.num_features, norm.num_features, 1, groups=norm.num_features, device="meta")
    plain.weight = nn.Parameter(mean["weight"].detach().reshape(-1, 1, 1, 1))
    plain.bias = nn.Parameter(mean["bias"].detach())
    scale = gaussian_layer(plain, {"weight": rho["weight"].reshape(-1, 1, 1, 1), "bias": rho["bias"]})
    return bnn.Sequential(COUNTERPARTS[nn.BatchNorm2d](bare, None), scale)


def rho_of(sigma: Tensor) -> Tensor:
    """rho such that softplus(rho) = sigma, in double precision on the way."""
    wide = sigma.detach().double().clamp_min(KNOWN_SIGMA)
    return (wide + torch.log(-torch.expm1(-wide))).to(sigma.dtype)


def known_rho(like: Tensor) -> Tensor:
    """Of weights that are known."""
    return torch.full_like(like.detach(), inverse_softplus(KNOWN_SIGMA))
