"""What max pooling of moments errs by, against quadrature of the largest of independent Gaussians.

python tools/derive/max_pooling.py window    # the tournament, by size of window
python tools/derive/max_pooling.py order     # a ReLU before the pool or behind it
python tools/derive/max_pooling.py saturated # other activations, which saturate
python tools/derive/max_pooling.py cost      # what both orders take on an emulated Cortex-M4F

2,000 windows are drawn for each row: means from a normal distribution, standard deviations log-uniform in [1/3, 1].
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.graph.reference import NUMPY
from lbnn.measure.layers import layer_costs
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.model.file import read_model
from lbnn.ops import OPS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/support"))

from largest import largest_moments, moments_of_largest, rectified_largest_moments

COUNT = 2000
WINDOWS = {"2": (1, 2), "2x2": (2, 2), "3x3": (3, 3), "4x4": (4, 4), "1x100": (1, 100)}


def drawn(window: tuple[int, int], seed: int = 0) -> Moments[Any]:
    """(COUNT, 1, *window)."""
    rng = np.random.default_rng(seed)
    shape = (COUNT, 1, *window)
    return Moments(rng.normal(size=shape), 3.0 ** (2.0 * rng.uniform(-1.0, 0.0, size=shape)))


def pooled(x: Moments[Any]) -> Moments[Any]:
    """One window."""
    window = x.mean.shape[2:]
    geometry = dict(kernel_size=window, stride=window, padding=(0, 0), dilation=(1, 1), ceil_mode=False)
    out = OPS["max_pool"].formula(NUMPY, x, **geometry)
    return Moments(out.mean.reshape(-1), out.var.reshape(-1))


def rectified(x: Moments[Any]) -> Moments[Any]:
    """ReLU."""
    out: Moments[Any] = OPS["leaky_relu"].formula(NUMPY, x, negative_slope=0.0)
    return out


def flat(x: Moments[Any]) -> tuple[Any, Any]:
    """The elements of a window along the last axis."""
    return x.mean.reshape(COUNT, -1), x.var.reshape(COUNT, -1)


def largest_mean(x: Moments[Any]) -> Moments[Any]:
    """The element with the largest mean alone."""
    mean, var = flat(x)
    at = mean.argmax(-1)[:, None]
    return Moments(np.take_along_axis(mean, at, -1)[:, 0], np.take_along_axis(var, at, -1)[:, 0])


def row(name: str, what: str, got: Moments[Any], true: tuple[Any, Any]) -> str:
    """Errors of the mean in true standard deviations, and of the standard deviation relative to it."""
    sd = np.sqrt(true[1])
    kept = sd > 1e-3 * sd.max()  # a rectified window far below zero has nothing left to compare with
    errors = [np.abs(got.mean - true[0]) / sd, np.abs(np.sqrt(got.var) / sd - 1.0)]
    numbers = " | ".join(f"{100 * number(e[kept]):.1f} %" for e in errors for number in (np.mean, np.max))
    return f"| {name} | {what} | {numbers} |"


HEAD = (
    "| window | {} | error of the mean, in sd: average | worst | error of the sd: average | worst |\n"
    + "|---" * 6
    + "|"
)


def by_window() -> None:
    """The tournament, and the simplest rule."""
    print(HEAD.format("rule"))
    for name, window in WINDOWS.items():
        x = drawn(window)
        true = largest_moments(*flat(x))
        print(row(name, "tournament", pooled(x), true))
        if name == "2x2":
            print(row(name, "moments of the largest mean", largest_mean(x), true))


def by_order() -> None:
    """ReLU before or behind."""
    print(HEAD.format("order"))
    for name in ("2", "2x2", "3x3"):
        x = drawn(WINDOWS[name])
        true = rectified_largest_moments(*flat(x))
        print(row(name, "ReLU, then pool", pooled(rectified(x)), true))
        print(row(name, "pool, then ReLU", rectified(pooled(x)), true))


def by_saturated() -> None:
    """Pairs of values that reach 3 times as far, before or behind functions that end in constants; medians."""
    print("| activation | order | error of the mean, in sd: median | of the sd: median |\n|---|---|---|---|")
    drawn_x = drawn(WINDOWS["2"])
    x = Moments(drawn_x.mean[:500] * 3.0, drawn_x.var[:500] * 9.0)
    for name in ("ReLU6", "Hardtanh", "Sigmoid", "Tanh"):
        layer = getattr(bnn, name)()
        op, attrs = OPS[layer.op], layer.attrs()
        plain = partial(op.at_points(attrs)[0].formula, NUMPY, **attrs)
        true = moments_of_largest(plain, x.mean[:, 0, 0], x.var[:, 0, 0])
        after, before = op.formula(NUMPY, pooled(x), **attrs), pooled(op.formula(NUMPY, x, **attrs))
        print(median_row(name, f"{name}, then pool", before, true))
        print(median_row(name, f"pool, then {name}", after, true))


def median_row(name: str, what: str, got: Moments[Any], true: tuple[Any, Any]) -> str:
    """Medians: a saturated unit has a true standard deviation near 0, by which an average would be ruled."""
    sd = np.sqrt(true[1])
    errors = np.abs(got.mean - true[0]) / sd, np.abs(np.sqrt(got.var) / sd - 1.0)
    return f"| {name} | {what} | " + " | ".join(f"{100 * np.median(error):.1f} %" for error in errors) + " |"


def by_cost() -> None:
    """Instructions for 8 x 16 x 16 values, windows of 2x2."""
    print("| order | instructions | a window |\n|---|---:|---:|")
    relu, pool = bnn.ReLU(), bnn.MaxPool2d(2)
    for order, layers in (
        ("pool alone", (pool,)),
        ("ReLU, then pool", (relu, pool)),
        ("pool, then ReLU", (pool, relu)),
    ):
        torch.manual_seed(0)  # how many units are far from zero depends on the weights
        count = instructions(bnn.Sequential(bnn.Conv2d(1, 8, 3, padding=1), *layers))
        print(f"| {order} | {count:,} | {count / 512:.0f} |")


def instructions(net: bnn.Sequential) -> int:
    """Of all layers behind the first one."""
    model = read_model(net, (1, 16, 16))
    program = lower(model, COptions(name=NAME))
    with tempfile.TemporaryDirectory() as folder:
        written = write_program(program, model, COptions(name=NAME), Path(folder) / "c")
        flags = ("-O2", "-std=gnu99", "-fno-math-errno")
        result = run_model(
            "cortex-m4-gcc", written, ordinary_inputs(model)[:1].reshape(1, -1), flags=flags, profile=True
        )
        return sum(layer.instructions for layer in layer_costs(program, written.source, result)[1:-1])


if __name__ == "__main__":
    kinds = {"window": by_window, "order": by_order, "saturated": by_saturated, "cost": by_cost}
    kinds[sys.argv[1] if len(sys.argv) > 1 else "window"]()
