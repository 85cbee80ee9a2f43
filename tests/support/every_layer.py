"""A network around each class of lbnn.nn, with what random networks draw for it, so that a new layer is among them."""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch import Tensor, nn

from draws import SeededDraw, Variety
from layer_choices import LAYERS
from lbnn import Moments
from lbnn import nn as bnn
from lbnn.nn.base import Layer
from lbnn.nn.heads import ClassHead
from recipes import Part

SHAPES = [(6,), (4, 6), (2, 12), (4, 6, 6), (1, 9, 9)]


def every_layer() -> list[str]:
    """The names of all classes that compute."""
    kinds = {name: kind for name in bnn.__all__ if isinstance(kind := getattr(bnn, name), type)}
    abstract = {"Layer", "BayesianLayer"}
    return [name for name, kind in kinds.items() if name not in abstract and issubclass(kind, (Layer, ClassHead))]


class Both(nn.Module):
    """What a layer makes of known values, and of random ones."""

    def __init__(self, layer: nn.Module, inputs: int) -> None:
        super().__init__()
        self.layer, self.inputs = layer, inputs

    def forward(self, x: Tensor) -> Any:
        known, random = (x, x * 2), (Moments(x, 0.1 + x * x), Moments(x * 2, 0.2 + x * x))
        return self.layer(*known[: self.inputs]), self.layer(*random[: self.inputs])


def network_of(name: str) -> tuple[nn.Module, Tensor]:
    """A network with this layer, in eval mode, and an input."""
    torch.manual_seed(1)
    layer, shape = _layer(name)
    inputs = 2 if isinstance(layer, Layer) and name not in LAYERS else 1
    return Both(layer, inputs).eval(), torch.randn((3, *shape))


def _layer(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    if name not in LAYERS:  # heads, and what joins several values
        return getattr(bnn, name)(), (6,)
    draw = SeededDraw(zlib.crc32(name.encode()), Variety())
    for shape in SHAPES * 3:
        arguments = LAYERS[name](draw, shape)
        if arguments is not None:
            return Part(f"bnn.{name}", arguments).build(), shape
    raise AssertionError(f"no shape fits {name}")


def flat(out: Any) -> list[Tensor]:
    """The tensors of whatever a network gives."""
    return [out] if isinstance(out, Tensor) else [tensor for part in tuple(out) for tensor in flat(part)]


def kinds(out: Any) -> Any:
    """The types of whatever a network gives."""
    return Tensor if isinstance(out, Tensor) else (type(out), *map(kinds, tuple(out)))
