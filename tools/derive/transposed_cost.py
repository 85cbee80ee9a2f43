"""What transposed convolutions take on an emulated Cortex-M4F, for each pair of a weight and an input that meet.

python tools/derive/transposed_cost.py    # mean and variance; arm-none-eabi-gcc -O2 -std=gnu99 -fno-math-errno
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import torch

from lbnn import nn as bnn
from lbnn import ops
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.layers import layer_costs
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.model.file import read_model
from lbnn.nn.base import BayesianLayer

FLAGS = ("-O2", "-std=gnu99", "-fno-math-errno")
ROWS: dict[str, tuple[type[BayesianLayer], tuple[int, ...], tuple[int, ...]]] = {
    "`ConvTranspose2d(8, 8, 4, stride=2, padding=1)`": (bnn.ConvTranspose2d, (8, 8, 4, 2, 1), (8, 8, 8)),
    "`ConvTranspose2d(8, 8, 3, 2, 1, output_padding=1)`": (bnn.ConvTranspose2d, (8, 8, 3, 2, 1, 1), (8, 8, 8)),
    "`ConvTranspose2d(8, 8, 2, stride=2)`": (bnn.ConvTranspose2d, (8, 8, 2, 2), (8, 8, 8)),
    "`ConvTranspose2d(8, 1, 4, stride=2, padding=1)`": (bnn.ConvTranspose2d, (8, 1, 4, 2, 1), (8, 8, 8)),
    "`ConvTranspose1d(16, 16, 4, stride=2, padding=1)`": (bnn.ConvTranspose1d, (16, 16, 4, 2, 1), (16, 32)),
    "`ConvTranspose2d(8, 8, 3, padding=1)`": (bnn.ConvTranspose2d, (8, 8, 3, 1, 1), (8, 8, 8)),
    "`Conv2d(8, 8, 2, padding=1)`, as a phase of the first": (bnn.Conv2d, (8, 8, 2, 1, 1), (8, 8, 8)),
}


@dataclass(frozen=True)
class LayerCount:
    """Of one layer: the kernel, pairs of a weight and an input that meet, instructions, and bytes without weights."""

    kernel: str
    pairs: int
    instructions: int
    code: int


def measure_layer(layer: BayesianLayer, shape: tuple[int, ...]) -> LayerCount:
    """A network of this layer alone, its input with a variance."""
    model = read_model(layer, shape)
    options = COptions(name=NAME, input_variance=True)
    program = lower(model, options)
    (node,) = program.graph.nodes
    x = ordinary_inputs(model)[:1].reshape(1, -1)
    with tempfile.TemporaryDirectory() as folder:
        written = write_program(program, model, options, Path(folder) / "c")
        result = run_model("cortex-m4-gcc", written, x, np.ones_like(x), flags=FLAGS, profile=True)
        count = layer_costs(program, written.source, result)[0].instructions
    weights = layer.weight_mu.numel()
    pairs = (ops.find(node.op).arithmetic(program.graph.use(node)) - weights - prod(shape)) // 3
    return LayerCount(program.layers[0].calls[0].kernel, pairs, count, result.sizes.flash - 4 * program.weight_len)


def main() -> None:
    """Prints the table."""
    print("| layer | kernel | instructions a pair | code, bytes |\n|---|---|---:|---:|")
    for text, (kind, arguments, shape) in ROWS.items():
        torch.manual_seed(0)
        found = measure_layer(kind(*arguments), shape)
        print(f"| {text} | `{found.kernel}` | {found.instructions / found.pairs:.1f} | {found.code:,} |")


if __name__ == "__main__":
    main()
