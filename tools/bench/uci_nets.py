"""Ordinary networks of the width, steps and batches of `lbnn train`, several trained side by side.

Networks of one shape are stacked, [networks, rows, in] @ [networks, in, out], with gradients written down and in numpy:
at this size most of a step is the cost of calls, so that a step of twenty costs little more than a step of one. Each
has its own start and its own order of rows, and nothing of one reaches another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from lbnn.train.recipe import SLOPE, recipe_for

Array = np.ndarray[Any, Any]
RATE = 0.01
"""At the start, by a cosine to 0."""
LEAST_VARIANCE = 1e-6
"""In units of the targets' variance, as deep ensembles have it."""


@dataclass(frozen=True)
class Setting:
    """What is chosen on held-out rows: the weight of squared weights, the shares of units dropped and of steps done."""

    penalty: float
    dropout: float = 0.0
    steps: float = 1.0


class Stack:
    """Networks with leaky-ReLU between their layers, and dropout in front of every layer."""

    def __init__(self, sizes: Sequence[int], settings: Sequence[Setting], draw: np.random.Generator) -> None:
        pairs, count = list(pairwise(sizes)), len(settings)
        ends = np.cumsum([0, *(size for a, b in pairs for size in (a * b, b))])
        self.draw = draw
        self.flat, self.slopes = (np.zeros((count, ends[-1]), np.float32) for _ in range(2))
        self.penalties = np.zeros_like(self.flat)
        self.kept = np.float32(1.0) - column(setting.dropout for setting in settings)[..., None]
        self.drops = bool(np.any(self.kept < 1.0))
        self.layers = [_views(self.flat, ends, i, pair) for i, pair in enumerate(pairs)]
        self.layer_slopes = [_views(self.slopes, ends, i, pair) for i, pair in enumerate(pairs)]
        for i, (inputs, _) in enumerate(pairs):
            start, end = ends[2 * i], ends[2 * i + 2]
            self.flat[:, start:end] = draw.uniform(-1.0, 1.0, (count, end - start)) / math.sqrt(inputs)
            self.penalties[:, start : ends[2 * i + 1]] = column(setting.penalty for setting in settings)

    def forward(self, x: Array) -> tuple[Array, list[tuple[Array, Array | None]]]:
        """Inputs [networks, rows, in] to outputs [networks, rows, out], and what each layer got and what it is times.

        Units are dropped in every call.
        """
        seen: list[tuple[Array, Array | None]] = []
        factor = None
        for i, (weight, bias) in enumerate(self.layers):
            if i:
                factor = np.where(x > 0.0, np.float32(1.0), np.float32(SLOPE))
                x = x * factor
            if self.drops:
                mask = (self.draw.random(x.shape, np.float32) < self.kept) / self.kept
                x = x * mask
                factor = mask if factor is None else factor * mask
            seen.append((x, factor))
            x = x @ weight + bias
        return x, seen

    def backward(self, slope: Array, seen: list[tuple[Array, Array | None]]) -> None:
        """Fills `slopes` from those of the outputs."""
        layers = zip(self.layers, self.layer_slopes, seen, strict=True)
        for i, ((weight, _), (to_weight, to_bias), (x, factor)) in reversed(list(enumerate(layers))):
            np.matmul(x.swapaxes(1, 2), slope, out=to_weight)
            np.sum(slope, axis=1, keepdims=True, out=to_bias)
            if i:
                slope = (slope @ weight.swapaxes(1, 2)) * factor

    def descend(self, x: Array, target: Array, rows: int) -> None:
        """`slopes` of the mean loss on a batch of the `rows` rows, and of the penalty."""
        out, seen = self.forward(x)
        self.backward(loss_slope(out, target) / np.float32(x.shape[1]), seen)
        self.slopes += self.penalties * self.flat * np.float32(1.0 / rows)


def column(values: Any) -> Array:
    """One value a network."""
    return np.array(list(values), np.float32)[:, None]


def _views(flat: Array, ends: Array, layer: int, shape: tuple[int, int]) -> tuple[Array, Array]:
    start, middle, end = ends[2 * layer : 2 * layer + 3]
    return flat[:, start:middle].reshape(len(flat), *shape), flat[:, start + shape[0] * shape[1] : end][:, None]


@dataclass(frozen=True)
class Trained:
    """A stack and the units of its data: centre and spread of inputs and target."""

    stack: Stack
    x_units: tuple[Array, Array]
    y_units: tuple[Array, Array]

    def predict(self, x: Array, passes: int = 1) -> tuple[Tensor, Tensor]:
        """Mean and variance [passes, networks, n]; variance 0 where it is not learned."""
        centre, spread = map(float, self.y_units)
        inputs = ((x - self.x_units[0]) / self.x_units[1]).astype(np.float32)
        inputs = np.broadcast_to(inputs, (len(self.stack.flat), *inputs.shape))
        out = np.stack([self.stack.forward(inputs)[0] for _ in range(passes)])
        var = variance(out)[..., 0] if out.shape[3] == 2 else np.zeros(out.shape[:3])
        mean, var = (torch.from_numpy(values.astype(np.float64)) for values in (out[..., 0], var))
        return centre + spread * mean, spread**2 * var


def train(x: Array, y: Array, settings: Sequence[Setting], outputs: int, of_rows: int, seed: int = 0) -> Trained:
    """A network for each setting, to inputs [n, d] and targets [n]: the rule's for `of_rows` rows.

    One output is the mean and learns by squared errors; two are mean and variance and learn by the likelihood. All do
    the share of steps of the first.
    """
    recipe = recipe_for(of_rows, x.shape[1:])
    steps = math.ceil(settings[0].steps * recipe.epochs * math.ceil(of_rows / recipe.batch))
    x_units, y_units = _units(x), _units(y)
    inputs, target = (((v - u[0]) / u[1]).astype(np.float32) for v, u in ((x, x_units), (y, y_units)))
    draw = np.random.default_rng(seed)
    stack = Stack([x.shape[1], *recipe.hidden, outputs], settings, draw)
    adam = Adam(stack)
    batches = _batches(len(x), len(settings), recipe.batch, draw)
    for step, rows in zip(range(steps), batches, strict=False):
        stack.descend(inputs[rows], target[rows], len(x))
        adam.step(RATE * 0.5 * (1.0 + math.cos(math.pi * step / steps)))
    return Trained(stack, x_units, y_units)


class Adam:
    """Kingma and Ba's."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.steps = stack, 0
        self.first, self.second = np.zeros_like(stack.flat), np.zeros_like(stack.flat)

    def step(self, rate: float) -> None:
        """By the slopes of the stack."""
        self.steps += 1
        slopes = self.stack.slopes
        self.first += np.float32(0.1) * (slopes - self.first)
        self.second += np.float32(0.001) * (slopes * slopes - self.second)
        scale = np.float32(1.0 / math.sqrt(1.0 - 0.999**self.steps))
        moved = self.first / (np.sqrt(self.second) * scale + np.float32(1e-8))
        self.stack.flat -= np.float32(rate / (1.0 - 0.9**self.steps)) * moved


def _units(values: Array) -> tuple[Any, Any]:
    spread = values.std(axis=0)
    return values.mean(axis=0), np.where(spread > 0.0, spread, 1.0)


def _batches(rows: int, networks: int, size: int, draw: np.random.Generator) -> Iterator[Array]:
    """Rows [networks, size] without end, each network going through all in an order of its own."""
    while True:
        order = draw.permuted(np.tile(np.arange(rows), (networks, 1)), axis=1)
        yield from (order[:, start : start + size] for start in range(0, rows, size))


def loss_slope(out: Array, target: Array) -> Array:
    """d loss / d out of half the squared error, or of the Gaussian negative log-likelihood if there is a variance."""
    error = out[..., :1] - target[..., None]
    if out.shape[2] == 1:
        return error
    var = variance(out)
    scaled = error / var
    return np.concatenate([scaled, np.float32(0.5) * (1.0 / var - scaled * scaled) * expit(out[..., 1:])], axis=2)


def variance(out: Array) -> Array:
    """Of the second output: its softplus."""
    return np.logaddexp(np.float32(0.0), out[..., 1:]) + np.float32(LEAST_VARIANCE)
