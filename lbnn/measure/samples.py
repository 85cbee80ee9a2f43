"""Inputs to compare backends with: ordinary ones, and those on which arithmetic goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lbnn.base.arrays import AnyArray
from lbnn.base.terminal import counted
from lbnn.model.file import Model
from lbnn.model.inputs import input_scale


@dataclass(frozen=True)
class Samples:
    """Inputs [n, *shape] in float32, optionally their variances, and what kind of input each is."""

    mean: AnyArray
    var: AnyArray | None
    kinds: tuple[str, ...]

    def __getitem__(self, index: int) -> Samples:
        pick = slice(index, index + 1)
        return Samples(self.mean[pick], None if self.var is None else self.var[pick], self.kinds[pick])

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def counted(self) -> str:
        """How many, for people."""
        return counted(len(self), "sample")


def draw_samples(model: Model, count: int, seed: int, input_variance: bool = False) -> Samples:
    """Ordinary inputs, inputs 10 times as far out, zeros, single spikes, denormals and inputs of size 1e6."""
    rng = np.random.default_rng(seed)
    centre, spread = input_scale(model.graph)
    shape = model.graph.input.shape
    makers: Sequence[tuple[str, Callable[[], AnyArray]]] = (
        ("ordinary", lambda: centre + spread * rng.normal(size=shape)),
        ("10x out", lambda: centre + 10.0 * spread * rng.normal(size=shape)),
        ("ordinary", lambda: centre + spread * rng.normal(size=shape)),
        ("spike", lambda: _spike(shape, rng)),
        ("denormal", lambda: rng.choice([-1.0, 1.0], size=shape) * 10.0 ** rng.uniform(-44, -38, size=shape)),
        ("1e6", lambda: 1e6 * rng.normal(size=shape)),
        ("zeros", lambda: np.zeros(shape)),
    )
    kinds = [makers[i % len(makers)] for i in range(max(count, len(makers)))]
    mean = np.stack([make() for _, make in kinds]).astype(np.float32)
    var = (spread * rng.uniform(0.0, 1.0, mean.shape)) ** 2 if input_variance else None
    return Samples(mean, None if var is None else var.astype(np.float32), tuple(kind for kind, _ in kinds))


def _spike(shape: tuple[int, ...], rng: np.random.Generator) -> AnyArray:
    x = np.zeros(shape)
    x.flat[rng.integers(x.size)] = 5.0 * rng.choice([-1.0, 1.0])
    return x
