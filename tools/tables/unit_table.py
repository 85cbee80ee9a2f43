"""Prints how many units are far from the kink of their activation, and what a unit takes: python unit_table.py

Weights that nobody has trained put hardly any unit there, and so hide what such a unit saves. One input, an ordinary
one; of the trained network a digit. Cortex-M4F, gcc, `-O2 -std=gnu99 -fno-math-errno`.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cost_table import DEVICE_FLAGS, M4, ROOT, markdown
from lbnn import nn as bnn
from lbnn.base.arrays import Floats
from lbnn.base.terminal import thousands
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.layers import layer_costs
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.model.file import Model, read_model

bench_models = importlib.import_module("bench_models")
SHOWN = {**dict.fromkeys(("m1", "m2", "m4"), bench_models.MODELS), "digits": bench_models.TRAINED}
SMALL_SLOPE = 0.01
"""With a smaller one all of the variance below zero may be tail."""


def reaches() -> tuple[float, float, float]:
    """Sigmas from which a unit is far: above zero, below it, and there with a small slope."""
    text = "".join((ROOT / "c_runtime" / name).read_text() for name in ("lbnn_activation.h", "lbnn_math.h"))
    found = dict(re.findall(r"#define LBNN_TAIL_(ABOVE|BELOW|MAX) ([\d.]+)f", text))
    if len(found) != 3:
        sys.exit("lbnn_activation.h no longer says where the tail of a unit is left out")
    return float(found["ABOVE"]), float(found["BELOW"]), float(found["MAX"])


def far_units(network: nn.Module, inputs: Floats) -> tuple[int, int]:
    """Units of all activations, and those of them that are far."""
    above, below, most = reaches()
    counts: list[tuple[int, int]] = []

    def count(layer: Any, given: Any) -> None:
        mean, sigma = given[0].mean, given[0].sd
        reach = torch.where(mean < 0.0, most if layer.negative_slope < SMALL_SLOPE else below, above)
        counts.append((mean.numel(), int((mean.abs() >= reach * sigma).sum())))

    for layer in network.modules():
        if isinstance(layer, bnn.LeakyReLU):
            layer.register_forward_pre_hook(count)
    with torch.no_grad():
        network(torch.from_numpy(inputs))
    units, far = np.sum(counts, axis=0)
    return int(units), int(far)


def spent(model: Model, inputs: Floats) -> Counter[str]:
    """Instructions by operator, in all and for this input."""
    options = COptions(name=NAME)
    program = lower(model, options)
    with tempfile.TemporaryDirectory() as folder:
        generated = write_program(program, model, options, Path(folder) / "c")
        result = run_model(M4, generated, inputs.reshape(1, -1), flags=DEVICE_FLAGS, profile=True)
        costs = layer_costs(program, generated.source, result)
    found: Counter[str] = Counter()
    for cost in costs:
        found[cost.op] += cost.instructions
    return found


def row(name: str) -> list[str]:
    """One network."""
    group = SHOWN[name]
    title, shape, _ = group[name]
    model = read_model(bench_models.build(name, group), shape)
    inputs = (bench_models.digits_inputs() if name in bench_models.TRAINED else ordinary_inputs(model))[:1]
    units, far = far_units(bench_models.build(name, group), inputs)
    cost = spent(model, inputs)
    label = title if name in bench_models.TRAINED else f"{name.upper()}, untrained"
    return [label, thousands(cost.total()), thousands(units), f"{far / units:.0%}", f"{cost['leaky_relu'] / units:.1f}"]


def main() -> None:
    """The trained network beside untrained ones."""
    head = ["", "instructions", "units", "far from the kink", "instructions a unit"]
    print(markdown([head, *map(row, SHOWN)]))


if __name__ == "__main__":
    main()
