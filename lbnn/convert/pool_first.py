"""Max pools before activations: the same plain network, better moments, fewer activations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from lbnn.model.network import Network, Step
from lbnn.nn.base import Layer


def pool_first(module: nn.Module) -> nn.Module:
    """Puts max pools before activations that never fall, in any `Sequential` or loaded network; returns the network.

    The largest of f(x) is f of the largest x for every f that never falls (`rises` of its layer: ReLU, Tanh, PReLU of a
    slope above 0, not SiLU), so known values give the same result. Of moments the pool then takes Gaussians, for which
    it is made, and the activation sees fewer elements. A model with its own `forward` has no order that could be
    changed; what `lbnn.load` makes of its file has.
    """
    for part in module.modules():
        if isinstance(part, nn.Sequential):
            _reorder(part)
        elif isinstance(part, Network):
            while pair := _activation_and_pool(part):
                _swap(part, *pair)
    return module


def put_pools_first(module: nn.Module) -> nn.Module:
    """The same for what a converter has made, with a word where a `forward` of the network's own keeps the order."""
    pool_first(module)
    holders = [part for part in module.modules() if _calls_layers(part)]
    children = [child for part in holders for child in _children(part)]
    pools = any(_is_pool(edge_of(child, 0)) for child in children)
    if pools and any(_rises(edge_of(child, -1)) for child in children):
        name = type(holders[0]).__name__
        warnings.warn(
            f"{name}.forward keeps the order of its max pools and activations: moments are better with pools first; "
            "after lbnn.save use lbnn.pool_first(lbnn.load(path)), or put them first yourself (docs/layers.md); "
            "pool_first=False leaves this out",
            stacklevel=3,
        )
    return module


def _calls_layers(module: nn.Module) -> bool:
    """It has a forward of its own, in which the order of layers is Python."""
    return not isinstance(module, (Layer, Network, nn.Sequential, nn.ModuleList, nn.ModuleDict)) and any(
        True for _ in module.children()
    )


def _children(module: nn.Module) -> Iterator[nn.Module]:
    """The layers that its forward can call, those of lists among them."""
    for child in module.children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _children(child)
        else:
            yield child


def edge_of(module: nn.Module, at: int) -> nn.Module:
    """The first (0) or the last (-1) layer of a chain, or the layer itself."""
    layers = [each for each in module if not isinstance(each, nn.Identity)] if isinstance(module, nn.Sequential) else []
    return edge_of(layers[at], at) if layers else module


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


def _activation_and_pool(net: Network) -> tuple[Step, Step] | None:
    """An activation that rises and whose values nothing reads but the max pool behind it."""
    made = {step.name: step for step in net.steps}
    read = [net.output, *(name for step in net.steps for name in step.inputs)]
    for pool in net.steps:
        before = made.get(pool.inputs[0]) if _is_pool(net.layers[pool.layer]) else None
        if before is not None and _rises(net.layers[before.layer]) and read.count(before.name) == 1:
            return before, pool
    return None


def _swap(net: Network, activation: Step, pool: Step) -> None:
    """Both keep their names, and whatever read the pool reads the activation."""

    def now(name: str) -> str:
        return activation.name if name == pool.name else name

    swapped = [replace(pool, inputs=activation.inputs), replace(activation, inputs=(pool.name,))]
    others = [replace(step, inputs=tuple(map(now, step.inputs))) for step in net.steps if step is not activation]
    at = [step.name for step in others].index(pool.name)
    net.steps, net.output = (*others[:at], *swapped, *others[at + 1 :]), now(net.output)


def _is_pool(layer: nn.Module | None) -> bool:
    return isinstance(layer, Layer) and layer.op == "max_pool"


def _rises(layer: nn.Module | None) -> bool:
    return isinstance(layer, Layer) and layer.rises
