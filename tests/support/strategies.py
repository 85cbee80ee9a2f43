"""Random networks for property tests, drawn by hypothesis; and inputs for them."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor, nn

from draws import Draw, Variety
from lbnn.base.errors import LbnnError
from lbnn.model.trace import record
from lbnn.ops import Shape
from network_choices import draw_recipe


class HypothesisDraw(Draw):
    """Choices that hypothesis makes, repeats and simplifies."""

    def __init__(self, draw: Any, variety: Variety) -> None:
        super().__init__(variety)
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        drawn: int = self._draw(st.integers(low, high))
        return drawn


@st.composite
def networks(
    draw: Any, most_layers: int = 6, constant_outputs: bool = False, clamps: bool = True
) -> tuple[nn.Module, Shape]:
    """A network with random weights, in eval mode, and its input shape without the batch axis.

    With `constant_outputs` one in ten gives the same known numbers whatever its input is. A clamped activation or a
    head gives a variance to a value without one: networks of certain weights are ordinary ones only without `clamps`.
    """
    variety = Variety(most_layers=most_layers, constant_outputs=constant_outputs, clamps=clamps)
    recipe = draw_recipe(HypothesisDraw(draw, variety))
    network = recipe.build()
    assume(_is_taken_as_it_is(network, recipe.shape))
    return network, recipe.shape


def _is_taken_as_it_is(network: nn.Module, shape: Shape) -> bool:
    """Not if a value meets itself: a product is refused then, and of a sum the module and its graph differ."""
    try:
        return not record(network, shape).folded
    except LbnnError as error:
        if "times itself" in str(error):
            return False
        raise


def inputs_for(shape: Shape, count: int, seed: int) -> Tensor:
    """Ordinary inputs, large ones, zeros and single spikes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *shape, generator=generator)
    x[1::4] *= 10.0
    x[2::8] = 0.0
    x[3::8] = 0.0
    x.view(count, -1)[3::8, 0] = 5.0
    return x
