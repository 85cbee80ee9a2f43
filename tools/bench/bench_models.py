"""Writes the benchmark models M1 to M5, always with the same weights: python tools/bench/bench_models.py out/bench.

They are untrained. TRAINED has one that is not: trained networks have many units far from the kink of an activation,
where these cost less, and random weights hardly any.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

import lbnn
from lbnn import nn as bnn
from lbnn.base.arrays import Floats

SLOPE = 0.1
DIGITS = Path(__file__).resolve().parents[2] / "examples/digits_cnn"


def mlp(*widths: int) -> nn.Module:
    """Linear layers with a leaky-ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [bnn.Linear(inputs, outputs), bnn.LeakyReLU(SLOPE)]
    return bnn.Sequential(*layers[:-1])


def cnn() -> nn.Module:
    """Two convolutions, each followed by a leaky-ReLU and pooling: 94,720 multiplications."""
    return bnn.Sequential(
        bnn.Conv2d(1, 8, 3, padding=1), bnn.LeakyReLU(SLOPE), bnn.AvgPool2d(2),
        bnn.Conv2d(8, 16, 3, padding=1), bnn.LeakyReLU(SLOPE), bnn.AvgPool2d(2),
        bnn.Flatten(), bnn.Linear(256, 10),
    )  # fmt: skip


def separable_cnn() -> nn.Module:
    """A convolution of stride 2, then one that is depthwise and one that is pointwise: 61,152 multiplications."""
    return bnn.Sequential(
        bnn.Conv2d(1, 8, 3, stride=2, padding=1), bnn.LeakyReLU(SLOPE),
        bnn.Conv2d(8, 8, 3, padding=1, groups=8), bnn.LeakyReLU(SLOPE),
        bnn.Conv2d(8, 16, 1), bnn.LeakyReLU(SLOPE), bnn.AvgPool2d(2),
        bnn.Flatten(), bnn.Linear(784, 10),
    )  # fmt: skip


Models = dict[str, tuple[str, tuple[int, ...], Callable[[], nn.Module]]]
"""By name: what it is, the shape of its input, and how it is built."""

MODELS: Models = {
    "m1": ("MLP 16-64-64-1", (16,), lambda: mlp(16, 64, 64, 1)),
    "m2": ("CNN on 1x16x16", (1, 16, 16), cnn),
    "m3": ("MLP 1-128-1", (1,), lambda: mlp(1, 128, 1)),
    "m4": ("depthwise-separable CNN on 1x28x28", (1, 28, 28), separable_cnn),
    "m5": ("MLP 784-256-10", (784,), lambda: mlp(784, 256, 10)),
}


def digits_cnn() -> nn.Module:
    """The trained network of examples/digits_cnn up to its logits."""
    network = lbnn.load(DIGITS / "digits.pt")
    network.head = None
    return network


TRAINED: Models = {"digits": ("trained CNN on 1x8x8", (1, 8, 8), digits_cnn)}


def digits_inputs() -> Floats:
    """Handwritten digits that it was not trained on, [n, 1, 8, 8]: those beside its firmware."""
    rows = re.findall(r'\{"clean", \d+, \{([\d, ]+)\}\}', (DIGITS / "samples.h").read_text())
    return np.array([row.split(",") for row in rows], np.float32).reshape(-1, 1, 8, 8)


def build(name: str, models: Models = MODELS) -> nn.Module:
    """The model `name`, untrained."""
    _, _, make = models[name]
    torch.manual_seed(list(models).index(name))
    return make().eval()


def write(folder: Path, models: Models = MODELS) -> list[Path]:
    """Every model as a file in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        lbnn.save(build(name, models), folder / f"{name}.pt", shape, name=name, metadata={"title": title})
        for name, (title, shape, _) in models.items()
    ]


if __name__ == "__main__":
    print(*write(Path(sys.argv[1] if len(sys.argv) > 1 else "out/bench")), sep="\n")
