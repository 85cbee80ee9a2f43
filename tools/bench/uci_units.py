"""The unit of training time: a plain network of the same width and steps, by the same library, at the same moment.

Measured beside every training for some of its steps, so that a machine that is busy at times changes the ratio little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from lbnn.train.recipe import SLOPE, recipe_for
from uci_nets import RATE, Adam, Array, Setting, Stack

WARM, TIMED = 20, 100
LEAST = 0.05
"""Seconds that are measured at least: some clocks of processor time advance by a hundredth at a time."""


def torch_unit(x: Array, y: Array) -> float:
    """Processor time of a training by autograd and torch's AdamW, as one writes it."""
    recipe = recipe_for(len(x), x.shape[1:])
    sizes = [x.shape[1], *recipe.hidden]
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.LeakyReLU(SLOPE))]
    model = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs, target = (torch.from_numpy(part[: recipe.batch].astype(np.float32)) for part in (x, y[:, None]))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), target).backward()
        optimizer.step()

    return timed(step, recipe.epochs * math.ceil(len(x) / recipe.batch))


def numpy_unit(x: Array, y: Array) -> float:
    """Processor time of a training of one network of uci_nets."""
    recipe = recipe_for(len(x), x.shape[1:])
    stack = Stack([x.shape[1], *recipe.hidden, 1], [Setting(0.1)], np.random.default_rng(0))
    adam = Adam(stack)
    inputs, target = x[None, : recipe.batch].astype(np.float32), y[None, : recipe.batch].astype(np.float32)

    def step() -> None:
        stack.descend(inputs, target, len(x))
        adam.step(RATE)

    return timed(step, recipe.epochs * math.ceil(len(x) / recipe.batch))


def timed(step: Callable[[], None], steps: int) -> float:
    """Of so many steps, by some of them."""
    for _ in range(WARM):
        step()
    begun, taken, done = time.process_time(), 0.0, 0
    while taken < LEAST:
        for _ in range(TIMED):
            step()
        done += TIMED
        taken = time.process_time() - begun
    return taken * steps / done
