"""From a deterministic torch network to a Bayesian one with the same means."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import lbnn.nn as bnn
from lbnn.base.advice import instead_of
from lbnn.base.errors import LbnnError
from lbnn.convert.activations import ACTIVATIONS, Functions, given_activation
from lbnn.convert.pool_first import edge_of, put_pools_first
from lbnn.model.network import build_layer
from lbnn.nn.base import BayesianLayer, Layer, default_sigma, inverse_softplus
from lbnn.nn.pooling import AveragePool
from lbnn.nn.spread import VARIANCES, check_variance

RELATIVE_SIGMA = 0.1
"""Without `sigma`, the weights of a layer get this fraction of their root mean square as standard deviation."""


def from_torch(
    module: nn.Module,
    sigma: float | None = None,
    correlated: bool = False,
    pool_first: bool = True,
    dropout: str = "drop",
    variance: str = "full",
    pointwise: Functions | None = None,
) -> nn.Module:
    """A copy of a torch network in which each layer is its lbnn counterpart, the weights as means.

    Every weight starts with the standard deviation `sigma`; without it, with a tenth of the root mean square of its
    layer's weights. With `correlated` average pools take their elements as rising and falling together. With
    `pool_first` a max pool comes before the activation that it follows in a `Sequential`: the plain network is the
    same; a warning says where a `forward` of its own keeps the order. Dropout goes: the weights' variance takes its
    place; with `dropout="keep"` it stays on, as `lbnn.nn.Dropout`. `variance` is that of layers with weights
    (lbnn.nn.Linear); a Bayesian layer that the network has already keeps its own, and factors can't be fitted to free
    ones. `pointwise` gives functions for activations that are not known, by their class: `{MyActivation: torch.sin}`,
    or a `lbnn.nn.Pointwise` with a range of its own. The network's own `forward` stays as it is and must call layers,
    not functions such as `torch.relu`.
    """
    if dropout not in ("drop", "keep"):
        raise LbnnError(f"dropout must be 'drop' or 'keep', got {dropout!r}")
    copied = copy.deepcopy(module)
    converted = Converter(sigma, correlated, dropout == "keep", variance, pointwise).convert(copied, "")
    if converted is not (last := edge_of(converted, -1)) and isinstance(last, bnn.Sigmoid):
        warnings.warn(
            "the network ends in Sigmoid and gives its moments; to tell classes or labels apart end it in "
            "lbnn.nn.SigmoidHead() in place of Sigmoid, which gives probabilities and entropies",
            stacklevel=2,
        )
    return put_pools_first(converted) if pool_first else converted


class Converter:
    """Replaces layers; one that is used twice is replaced once."""

    def __init__(
        self,
        sigma: float | None,
        correlated: bool,
        keep_dropout: bool = False,
        variance: str = "full",
        pointwise: Functions | None = None,
    ) -> None:
        check_variance(variance, VARIANCES, "from_torch")
        self.pointwise = pointwise or {}
        self.sigma, self.correlated, self.keep_dropout, self.variance = sigma, correlated, keep_dropout, variance
        self.done: dict[nn.Module, nn.Module] = {}

    def convert(self, module: nn.Module, path: str) -> nn.Module:
        """The counterpart of a layer, or a module whose layers have been replaced."""
        if module not in self.done:
            self.done[module] = self._counterpart(module, path)
        return self.done[module]

    def own(self, module: nn.Module, path: str) -> nn.Module | None:
        """What a module that is not torch's becomes, where a converter of other networks knows it."""
        return None

    def _counterpart(self, module: nn.Module, path: str) -> nn.Module:
        found = self.own(module, path) or given_activation(module, self.pointwise)
        if found is not None:
            return found
        if isinstance(module, BayesianLayer) and module.variance != self.variance != "full":
            raise LbnnError(
                f"module {path!r} has the variance {module.variance!r}, to which factors can't be fitted afterwards; "
                f"build it with variance={self.variance!r} and train it"
            )
        known = COUNTERPARTS.get(type(module))
        if known is not None:
            try:
                return self._chosen(module, known).train(module.training)
            except LbnnError as error:
                raise LbnnError(f"module {path!r} (torch.nn.{type(module).__name__}): {error}") from None
        if type(module).__module__.startswith("torch.nn.") and not isinstance(module, CONTAINERS):
            name = type(module).__name__
            raise LbnnError(f"module {path!r}: torch.nn.{name} has no moments; {instead_of(name)}")
        for name, child in list(module._modules.items()):
            if child is not None:
                module._modules[name] = self.convert(child, f"{path}.{name}" if path else name)
        return module

    def _chosen(self, module: nn.Module, known: Callable[[Any, float | None], nn.Module]) -> nn.Module:
        """The counterpart, with what torch's layers leave open."""
        if self.keep_dropout and isinstance(module, DROPOUTS) and module.p > 0.0:
            return bnn.Dropout(module.p)
        layer = known(module, self.sigma)
        if isinstance(layer, AveragePool):
            layer.correlated = self.correlated
        if isinstance(layer, BayesianLayer) and self.variance != "full":
            layer.spread_evenly(float(layer.weight_rho.detach().flatten()[0]), self.variance)
        return layer


DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def _weighted(op: str, attrs: dict[str, Any], module: Any, sigma: float | None) -> nn.Module:
    """A layer with the module's weights as means and one standard deviation for all of them."""
    rho = inverse_softplus(_relative_sigma(module.weight) if sigma is None else sigma)
    tensors: dict[str, Tensor] = {}
    for name in ("weight", "bias"):
        mean = getattr(module, name)
        if mean is not None:
            tensors[f"{name}_mu"] = nn.Parameter(mean.detach())
            tensors[f"{name}_rho"] = nn.Parameter(torch.full_like(mean.detach(), rho))
    return build_layer(op, attrs, tensors)


def _relative_sigma(weight: Tensor) -> float:
    size = float(weight.detach().double().square().mean().sqrt())
    return RELATIVE_SIGMA * size if size > 0.0 else default_sigma(weight[0].numel())


def _linear(module: nn.Linear, sigma: float | None) -> nn.Module:
    return _weighted("linear", {}, module, sigma)


def _conv(module: nn.Conv1d | nn.Conv2d, sigma: float | None) -> nn.Module:
    names = ("stride", "padding", "dilation", "groups", "padding_mode")
    return _weighted("conv", {name: getattr(module, name) for name in names}, module, sigma)


def _conv_transposed(module: nn.ConvTranspose1d | nn.ConvTranspose2d, sigma: float | None) -> nn.Module:
    names = ("stride", "padding", "output_padding", "dilation", "groups", "padding_mode")
    return _weighted("conv_transposed", {name: getattr(module, name) for name in names}, module, sigma)


def _batch_norm(module: nn.BatchNorm1d | nn.BatchNorm2d, sigma: float | None) -> nn.Module:
    if module.running_mean is None or module.running_var is None or module.momentum is None:
        raise LbnnError("batch norm without running statistics and momentum is not supported")
    ones, zeros = torch.ones_like(module.running_var), torch.zeros_like(module.running_mean)
    tensors: dict[str, Tensor] = {
        "weight": nn.Parameter(ones if module.weight is None else module.weight.detach()),
        "bias": nn.Parameter(zeros if module.bias is None else module.bias.detach()),
        "running_mean": module.running_mean,
        "running_var": module.running_var,
    }
    return build_layer("batch_norm", {"eps": module.eps, "momentum": module.momentum}, tensors)


def _flatten(module: nn.Flatten, sigma: float | None) -> nn.Module:
    return bnn.Flatten(module.start_dim, module.end_dim)


def _softmax(module: nn.Softmax | nn.LogSoftmax, sigma: float | None) -> nn.Module:
    if module.dim not in (1, -1):
        kind = type(module).__name__
        raise LbnnError(f"softmax over axis {module.dim} is not supported; use {kind}(dim=1) on logits of shape (N, K)")
    return bnn.SoftmaxHead()


def _identity(module: nn.Module, sigma: float | None) -> nn.Module:
    return nn.Identity()


def _layer(kind: type[Layer]) -> Callable[[Any, float | None], nn.Module]:
    return lambda module, sigma: kind.like(module)


def _activation(make: Callable[[Any], nn.Module]) -> Callable[[Any, float | None], nn.Module]:
    return lambda module, sigma: make(module)


_CLASSES = [
    kind for kind in (getattr(bnn, name) for name in bnn.__all__) if isinstance(kind, type) and issubclass(kind, Layer)
]

COUNTERPARTS: dict[type[nn.Module], Callable[[Any, float | None], nn.Module]] = {
    **{kind.counterpart: _layer(kind) for kind in _CLASSES if kind.counterpart is not None},
    **{kind: _activation(make) for kind, make in ACTIVATIONS.items()},
    nn.Linear: _linear,
    nn.Conv1d: _conv,
    nn.Conv2d: _conv,
    nn.ConvTranspose1d: _conv_transposed,
    nn.ConvTranspose2d: _conv_transposed,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.Flatten: _flatten,
    nn.Softmax: _softmax,
    nn.LogSoftmax: _softmax,
    nn.Identity: _identity,
    nn.Dropout: _identity,
    nn.Dropout1d: _identity,
    nn.Dropout2d: _identity,
}
"""How each torch layer becomes one of lbnn: as its class says, or by a function that takes its weights."""
