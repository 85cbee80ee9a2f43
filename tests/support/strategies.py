"""Random networks for property tests, drawn by hypothesis; inputs for them, and which of those float32 can answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from draws import Draw, Variety
from lbnn.graph.reference import predict
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors
from lbnn.measure.samples import Samples
from lbnn.model.file import Model
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
    return recipe.build(), recipe.shape


def inputs_for(shape: Shape, count: int, seed: int) -> Tensor:
    """Ordinary inputs, large ones, zeros and single spikes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *shape, generator=generator)
    x[1::4] *= 10.0
    x[2::8] = 0.0
    x[3::8] = 0.0
    x.view(count, -1)[3::8, 0] = 5.0
    return x


def well_conditioned(model: Model, samples: Samples) -> Any:
    """Which samples float32 can answer: the exact answer moves little when every input moves by half a float32 step.

    A sum of inputs of size 1e6 that nearly cancel, with no variance yet, is lost in float32 whoever computes it.
    """
    rng, exact = np.random.default_rng(5), predict(model.graph, samples.mean, samples.var)
    moved = [samples.mean * (1.0 + 2.0**-24 * rng.choice([-1.0, 1.0], samples.mean.shape)) for _ in range(4)]
    gaps = [errors(Outcome(*predict(model.graph, x, samples.var)), exact) for x in moved]
    return np.max([np.maximum(*gap).max(axis=1) for gap in gaps], axis=0) <= FLOAT32_TOLERANCE / 8
