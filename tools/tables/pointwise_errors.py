"""How far tabulated functions are from quadrature, and what they cost: tables of docs/layers.md.

python tools/tables/pointwise_errors.py          # errors of a dozen functions, as `error()` of the layer says them
python tools/tables/pointwise_errors.py cost     # instructions a unit on an emulated Cortex-M4F, and bytes
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from lbnn import nn as bnn
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.exporters.c.tabulated import pack_function
from lbnn.measure.layers import layer_costs
from lbnn.measure.subject import NAME
from lbnn.model.file import read_model
from lbnn.nn.base import inverse_softplus

SHOWN: dict[str, tuple[Any, dict[str, Any]]] = {
    "mish": (F.mish, {"range": (-16.0, 8.0), "cells": 192}),
    "tanhshrink": (F.tanhshrink, {}),
    "logsigmoid": (F.logsigmoid, {}),
    "x sigmoid(1.7 x)": (lambda x: x * torch.sigmoid(1.7 * x), {}),
    "atan": (torch.atan, {}),
    "e^(-x^2)": (lambda x: torch.exp(-x * x), {}),
    "log(1 + x^2)": (lambda x: torch.log1p(x * x), {}),
    "sqrt(1 + x^2)": (lambda x: torch.sqrt(1.0 + x * x), {}),
    "x^3": (lambda x: x**3, {"range": (-3.0, 3.0)}),
    "sinc": (torch.sinc, {}),
    "sin": (torch.sin, {}),
    "celu, whose slope has a corner": (F.celu, {}),
    "softsign, whose slope has a corner": (F.softsign, {}),
    "softshrink, which has kinks": (F.softshrink, {}),
    "softshrink, 512 cells": (F.softshrink, {"cells": 512}),
}
UNITS = 32


def errors() -> None:
    """A row for each function."""
    print("| function | range | values | sigma below 1.1 cells: mean | sd | from there on: mean | sd |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (f, how) in SHOWN.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layer = bnn.Pointwise(f, **how)
        error, (low, high) = layer.error(), how.get("range", (-8.0, 8.0))
        numbers = (error.value, error.mean, error.sd, error.wide_mean, error.wide_sd)
        print(f"| {name} | {low:g} to {high:g} | " + " | ".join(f"{number:.0e}" for number in numbers) + " |")


def cost() -> None:
    """For units with means from -6 to 6."""
    print("| cells | bytes of numbers | sigma 0.05 | 0.5 | 2 | 10 |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for cells in (64, 128, 256):
        layer = bnn.Pointwise(torch.sin, cells=cells)
        counts = [instructions(layer, sigma) // UNITS for sigma in (0.05, 0.5, 2.0, 10.0)]
        print(
            f"| {cells} | {4 * pack_function(layer.function()).size:,} | " + " | ".join(f"{n:,}" for n in counts) + " |"
        )


def instructions(layer: bnn.Pointwise, sigma: float) -> int:
    """Of the layer behind UNITS Gaussians."""
    first = bnn.Linear(1, UNITS, bias=False)
    with torch.no_grad():
        first.weight_mu[:, 0] = torch.linspace(-6.0, 6.0, UNITS)
        first.weight_rho.fill_(inverse_softplus(sigma))
    model = read_model(bnn.Sequential(first, layer), (1,))
    program = lower(model, COptions(name=NAME))
    with tempfile.TemporaryDirectory() as folder:
        written = write_program(program, model, COptions(name=NAME), Path(folder) / "c")
        flags = ("-O2", "-std=gnu99", "-fno-math-errno")
        result = run_model("cortex-m4-gcc", written, np.ones((1, 1), np.float32), flags=flags, profile=True)
        return layer_costs(program, written.source, result)[1].instructions


if __name__ == "__main__":
    {"errors": errors, "cost": cost}[sys.argv[1] if len(sys.argv) > 1 else "errors"]()
