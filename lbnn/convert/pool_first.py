"""Max pools before activations: the same plain network, better moments, fewer activations."""

from __future__ import annotations

from torch import nn

from lbnn.nn.base import Layer


def pool_first(module: nn.Module) -> nn.Module:
    """Puts max pools before activations that never fall, where they follow in any `Sequential`; returns the network.

    The largest of f(x) is f of the largest x for every f that never falls (`rises` of its layer: ReLU, Tanh, PReLU of a
    slope above 0, not SiLU), so known values give the same result. Of
    moments the pool then takes Gaussians, for which it is made, and the activation sees fewer elements.
    """
    for part in module.modules():
        if isinstance(part, nn.Sequential):
            _reorder(part)
    return module


def _reorder(chain: nn.Sequential) -> None:
    """Pools move up until no activation that rises stands before one; names that are words go with their layers."""
    layers = list(chain._modules.items())
    for end in range(1, len(layers)):
        at = end
        while at > 0 and _is_pool(layers[at][1]) and _rises(layers[at - 1][1]):
            layers[at - 1], layers[at] = layers[at], layers[at - 1]
            at -= 1
    numbered = all(name.isdigit() for name, _ in layers)
    names = list(chain._modules) if numbered else [name for name, _ in layers]
    chain._modules.clear()
    chain._modules.update(zip(names, (layer for _, layer in layers), strict=True))


def _is_pool(layer: nn.Module | None) -> bool:
    return isinstance(layer, Layer) and layer.op == "max_pool"


def _rises(layer: nn.Module | None) -> bool:
    return isinstance(layer, Layer) and layer.rises
