"""Prints how exact the exported ONNX file is and how many nodes its layers take, as docs/onnx.md shows it.

    python tools/tables/onnx_table.py accuracy      # the benchmark models in onnxruntime, against float64
    python tools/tables/onnx_table.py functions     # a single activation and the variance head
    python tools/tables/onnx_table.py nodes

Errors are those of float32 arithmetic: their size is the same everywhere, their digits are the processor's.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy.special import erf
from torch.nn import Module

from lbnn import nn as bnn
from lbnn.base.arrays import AnyArray
from lbnn.base.terminal import progress
from lbnn.exporters.onnx import to_onnx
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.measure.backends import BACKENDS
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors, judge
from lbnn.measure.samples import Samples, draw_samples
from lbnn.model.file import Model, read_model

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))
models = importlib.import_module("bench_models")
SAMPLES = 64
FAR = np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 400)])
DEAD, DEADER = 8.5, 12.0


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """A table; its first row is the head."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))


def accuracy() -> str:
    """What `lbnn verify MODEL --backends onnx` prints of the benchmark models."""
    rows = [["", "mean error", "variance error", "worst sample"]]
    with progress("models", list(models.MODELS)) as names:
        for name in names:
            title, shape, _ = models.MODELS[name]
            model = read_model(models.build(name), shape)
            found = judge("onnx", BACKENDS["onnx"].run, model, draw_samples(model, SAMPLES, 0), FLOAT32_TOLERANCE)
            worst = found.worst.partition(" ")[2]
            rows.append([f"{name.upper()}: {title}", f"{found.mean_error:.1e}", f"{found.var_error:.1e}", worst])
    return markdown(rows)


def functions() -> str:
    """Single layers over all that they may meet."""
    both = np.concatenate([-FAR[::-1], FAR])
    rows = [["layer", "input", "variance error"]]
    for slope in (0.01, 0.1):
        rows.append([f"leaky-ReLU, slope {slope:g}", "E/sigma from -1e4 to 1e4", _activation(slope, both)])
    rows.append(["ReLU", f"E/sigma from -{DEAD:g} to 1e4", _activation(0.0, both[both >= -DEAD])])
    rows.append(["ReLU", f"E/sigma = -{DEADER:g}, which passes on 1e-33", _activation(0.0, np.array([-DEADER]))])
    rows.append(["variance head", "s from -90 to 90", _head()])
    rows.append(
        ["leaky-ReLU, slope 0.01, written with `Erf`", "E/sigma from -1e4 to 1e4", f"{_by_erf(0.01, both):.1e}"]
    )
    return markdown(rows)


def _activation(slope: float, ratios: AnyArray) -> str:
    mean = ratios.astype(np.float32)[:, None]
    return _error(read_model(bnn.Sequential(bnn.LeakyReLU(slope)), (1,)), mean, np.ones_like(mean))


def _head() -> str:
    s = np.linspace(-90.0, 90.0, 2001, dtype=np.float32)
    return _error(read_model(bnn.Sequential(bnn.VarianceHead()), (2,)), np.stack([np.zeros_like(s), s], 1), None)


def _error(model: Model, mean: AnyArray, var: AnyArray | None) -> str:
    samples = Samples(mean, var, ("",) * len(mean))
    got, want = BACKENDS["onnx"].run(model, samples), predict(model.graph, mean, var)
    return f"{errors(got, want)[1].max():.1e}"


def _by_erf(slope: float, ratios: AnyArray) -> float:
    """Q = (1 - erf) / 2 in float32, as one would write it with ONNX's Erf: it cancels."""
    one, k = np.float32(1.0), np.float32(1.0 - slope)
    x = np.abs(ratios).astype(np.float32)
    tail = (one - erf(x / np.float32(np.sqrt(2.0)))) / np.float32(2.0)
    density = np.exp(-x * x / np.float32(2.0)) / np.float32(np.sqrt(2.0 * np.pi))
    first, second = density - x * tail, (one + x * x) * tail - x * density
    side, sign = np.where(ratios >= 0, one, np.float32(slope)), np.where(ratios >= 0, one, -one)
    var = side * side - 2 * sign * k * side * tail + k * k * (second - first * first)
    mean = ratios.astype(np.float32)[:, None]
    model = read_model(bnn.Sequential(bnn.LeakyReLU(slope)), (1,))
    return float(errors(Outcome(mean, var[:, None]), predict(model.graph, mean, np.ones_like(mean)))[1].max())


def nodes() -> str:
    """How many nodes a layer adds."""
    flat, image = bnn.Linear(4, 4), bnn.Conv2d(2, 2, 3)
    cases: dict[str, int] = {
        "linear, known input": _count((4,), flat),
        "linear": _count((4,), flat, known=False),
        "convolution, known input": _count((2, 6, 6), image),
        "convolution": _count((2, 6, 6), image, known=False),
        "leaky-ReLU, ReLU": _more((4,), [flat], bnn.LeakyReLU(0.1)),
        "the same where the variance may be zero": _count((4,), bnn.LeakyReLU(0.1), known=False),
        "leaky-ReLU with `clamp` (the paper's form)": _more((4,), [flat], bnn.LeakyReLU(0.1, clamp=3.0)),
        "average pooling; its 1/n goes into the next weights": _more(
            (2, 6, 6), [image], bnn.AvgPool2d(2), [bnn.Conv2d(2, 2, 1)]
        ),
        "flatten": _more((2, 6, 6), [image], bnn.Flatten()),
        "variance head": _more((4,), [flat], bnn.VarianceHead()),
    }
    return markdown([["layer", "nodes"], *([name, str(count)] for name, count in cases.items())])


def _count(shape: tuple[int, ...], *layers: Module, known: bool = True) -> int:
    graph = prepare(read_model(bnn.Sequential(*layers), shape).graph, input_variance=not known)
    return len(to_onnx(graph, "0" * 64).graph.node)


def _more(shape: tuple[int, ...], before: list[Module], layer: Module, after: Sequence[Module] = ()) -> int:
    return _count(shape, *before, layer, *after) - _count(shape, *before, *after)


TABLES: dict[str, Callable[[], str]] = {table.__name__: table for table in (accuracy, functions, nodes)}

if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in TABLES:
        sys.exit(f"which table? {', '.join(TABLES)}")
    print(TABLES[sys.argv[1]]())
