"""Networks for the tests of integers: every operator that they have, all forms of variances, and hostile numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.graph import rebuild
from lbnn.graph.ints.reference import IntegerResult, predict_integers
from lbnn.model.file import Model, read_model

CORES = ("cortex-m0-gcc", "cortex-m3", "cortex-m4-gcc", "cortex-m7", "cortex-m33-gcc", "mps3-an547", "rv32imac")
"""Every instruction set that integer kernels are written for, by gcc or zig."""


class Branches(nn.Module):
    """Every operator that integers have, in shapes of odd lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = bnn.Affine(torch.tensor([0.01, -2.0, 300.0, 1.0, 0.5]), torch.tensor([3.0, 0.0, -40.0, 1e-3, 0.0]))
        self.first, self.second = bnn.Linear(5, 7), bnn.Linear(7, 7)
        self.third, self.out = bnn.Linear(14, 9), bnn.Linear(9, 6)
        self.act, self.relu = bnn.LeakyReLU(0.1), bnn.ReLU()
        self.head = bnn.VarianceHead()
        self.last = bnn.Affine(torch.tensor([2.0, -5.0, 1e-3]), torch.tensor([20.0, 0.0, -1.0]))

    def forward(self, x: Any) -> Any:
        x = self.act(self.first(self.scale(x)))
        y = self.relu(x + self.second(x))
        x = self.act(self.third(bnn.cat([x, y])))
        return self.last(self.head(self.out(x)))


def network(widths: tuple[int, ...], form: str, seed: int = 0, slope: float = 0.01) -> Model:
    """A leaky-ReLU network with weights as they are drawn and variances of a form: full, rank1, row or none."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [bnn.Linear(inputs, outputs), bnn.LeakyReLU(slope)]
    return with_variances(read_model(bnn.Sequential(*layers[:-1]), (widths[0],)), form, seed)


def branches(seed: int = 0, form: str = "full") -> Model:
    torch.manual_seed(seed)
    return with_variances(read_model(Branches(), (5,)), form, seed)


def with_variances(model: Model, form: str, seed: int) -> Model:
    """The model with other variances of its weights."""
    rng, nodes = np.random.default_rng(seed), []
    for node in model.graph.nodes:
        if "weight" in node.params:
            weight: Any = node.params["weight"]
            spread = _variances(rng, form, len(weight.mean), weight.mean[0].size).reshape(weight.mean.shape)
            if form == "rank1" and node.attrs.get("groups", 1) > 1:
                spread = _by_group(rng, weight.mean.shape, node.attrs["groups"])
            node = replace(node, params={**node.params, "weight": Moments(weight.mean, spread)})
        nodes.append(node)
    return replace(model, graph=rebuild(model.graph, nodes))


def _variances(rng: np.random.Generator, form: str, outputs: int, inputs: int) -> Any:
    rows, columns = rng.uniform(0.02, 0.2, (outputs, 1)) ** 2, rng.uniform(0.2, 1.0, inputs) ** 2
    if form == "rank1":
        return rows * columns
    if form == "row":
        return rows * np.ones(inputs)
    return np.zeros((outputs, inputs)) if form == "none" else rng.uniform(0.001, 0.2, (outputs, inputs)) ** 2


def _by_group(rng: np.random.Generator, shape: Any, groups: int) -> Any:
    """Factors of the outputs and inputs of each group."""
    parts = [_variances(rng, "rank1", shape[0] // groups, int(np.prod(shape[1:]))) for _ in range(groups)]
    return np.concatenate(parts).reshape(shape)


SIZES = (1.0, 1.0, 10.0, 1e3, 1e-3, 0.0, 1e6, 1e9, 1e-30, 1e-42, 1e20, 3e38)


def hostile_inputs(length: int, count: int, seed: int = 0) -> Any:
    """Inputs of every size that float has, single spikes between them."""
    rng = np.random.default_rng(seed)
    x = np.resize(SIZES, (count, 1)) * rng.uniform(-1.0, 1.0, (count, length))
    x[5 :: len(SIZES)] = 0.0
    spikes = np.arange(7, count, 9)
    x[spikes] = 0.0
    x[spikes, rng.integers(length, size=len(spikes))] = 5.0
    return x.astype(np.float32)


def same_bits(found: Any, wanted: IntegerResult) -> Any:
    """Samples whose every bit, and status, is that of the reference."""
    pairs = ((found.mean, wanted.mean), (found.variance, wanted.var))
    equal = [(np.asarray(a, np.float32).view(np.uint32) == b.view(np.uint32)).all(axis=1) for a, b in pairs]
    return equal[0] & equal[1] & ((found.status == 2) == wanted.saturated) & (found.status >= 0)


def reference(program: Any, x: Any, var: Any = None) -> IntegerResult:
    """What a lowered program has to give."""
    return predict_integers(program.graph, program.dtype.mean_bits, x, var)
