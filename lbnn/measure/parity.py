"""Does every backend compute what the trained model computes? Samples, errors, and the first node that departs.

The reference is numpy float64 of the graph as it was traced, before any pass. For each output element

    mean error = |m - m_ref| / (|m_ref| + sqrt(v_ref)),      variance error = |v - v_ref| / v_ref

and a backend passes if both maxima over all samples are at most the tolerance. A v_ref that is not zero counts as at
least the smallest normal float32, 1.2e-38: below it a float32 variance loses its digits and then all of itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.arrays import AnyArray
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.graph import INPUT, Graph, rebuild
from lbnn.graph.reference import predict
from lbnn.model.file import Model

FLOAT32_TOLERANCE = 1e-5
LEAST_VARIANCE = float(np.finfo(np.float32).tiny)


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


@dataclass(frozen=True)
class Cost:
    """What one prediction takes on a device; None where it can't be told."""

    instructions: int | None = None
    code_bytes: int | None = None
    weight_bytes: int | None = None
    work_bytes: int | None = None
    stack_bytes: int | None = None


@dataclass(frozen=True)
class Outcome:
    """A backend's answers for a batch, float32, and their cost."""

    mean: AnyArray
    var: AnyArray
    cost: Cost = Cost()


@dataclass(frozen=True)
class Row:
    """One backend against the reference."""

    backend: str
    mean_error: float
    var_error: float
    worst: str
    tolerance: float
    cost: Cost
    departs_at: str | None = None
    finite: bool = True  # no answer was infinite, NaN or refused by `_predict`

    @property
    def passed(self) -> bool:
        """Both errors are within the tolerance; NaN never is."""
        return self.mean_error <= self.tolerance and self.var_error <= self.tolerance


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


def input_scale(graph: Graph) -> tuple[AnyArray, AnyArray]:
    """Centre and spread of ordinary inputs: what the first layer standardises, or 0 and 1."""
    first = graph.users[INPUT][0] if graph.users[INPUT] else None
    if first is None or not first.op.startswith("affine"):
        return np.zeros(()), np.ones(())
    scale, shift = (np.asarray(first.params[key]) for key in ("scale", "shift"))
    usable = np.where(scale == 0.0, 1.0, scale)
    return -shift / usable, np.abs(1.0 / usable)


def errors(got: Outcome, want: Moments[Any]) -> tuple[AnyArray, AnyArray]:
    """Mean and variance error of every output element, [n, outputs]; infinite where the answer is not a number."""
    mean, var = (np.asarray(part, dtype=np.float64).reshape(len(got.mean), -1) for part in (got.mean, got.var))
    true_mean, true_var = (np.asarray(part).reshape(len(got.mean), -1) for part in want)
    scale = np.where(true_var > 0.0, np.maximum(true_var, LEAST_VARIANCE), true_var)
    mean_error = _ratio(np.abs(mean - true_mean), np.abs(true_mean) + np.sqrt(scale))
    return mean_error, _ratio(np.abs(var - true_var), scale)


def _ratio(error: AnyArray, scale: AnyArray) -> AnyArray:
    """error / scale; no error on nothing is none, any error on nothing and any NaN is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(error == 0.0, 0.0, error / scale)
    return np.where(np.isnan(quotient), np.inf, quotient)


Backend = Callable[[Model, Samples], Outcome]


def compare(name: str, backend: Backend, model: Model, samples: Samples, tolerance: float) -> Row:
    """Runs one backend on all samples; if it fails, says at which node it departs."""
    outcome = backend(model, samples)
    mean_error, var_error = errors(outcome, predict(model.graph, samples.mean, samples.var))
    both = np.maximum(mean_error, var_error).max(axis=1)
    worst = int(both.argmax())
    row = Row(
        name,
        float(mean_error.max()),
        float(var_error.max()),
        f"#{worst} {samples.kinds[worst]}",
        tolerance,
        outcome.cost,
        finite=bool(np.isfinite(outcome.mean).all() and np.isfinite(outcome.var).all()),
    )
    return row if row.passed else replace(row, departs_at=departure(backend, model, samples[worst], tolerance))


def departure(backend: Backend, model: Model, sample: Samples, tolerance: float) -> str:
    """The first node whose own result is off: the graph is cut behind each node in turn and run again.

    A node counts if its error is beyond the tolerance and not small beside that of the whole model.
    """
    final = _worst_error(backend, model, sample)
    threshold = max(tolerance, 0.01 * min(final, 1e30))
    for node in model.graph.nodes:
        if _worst_error(backend, cut_behind(model, node.name), sample) > threshold:
            return f"{node.name} ({node.op})"
    return f"{model.graph.output} (only as a whole)"


def _worst_error(backend: Backend, model: Model, sample: Samples) -> float:
    try:
        outcome = backend(model, sample)
    except LbnnError:
        return float("inf")
    return float(max(part.max() for part in errors(outcome, predict(model.graph, sample.mean, sample.var))))


def cut_behind(model: Model, name: str) -> Model:
    """The model up to and including node `name`."""
    graph = model.graph
    last = [node.name for node in graph.nodes].index(name)
    return replace(model, graph=Graph(graph.name, graph.input, graph.nodes[: last + 1], name))


def run_torch(model: Model, samples: Samples) -> Outcome:
    """The formulas in torch float32, as the layers run them."""
    import torch

    from lbnn.ops.torch import TORCH

    def tensor(value: Any) -> Any:
        if isinstance(value, Moments):
            return Moments(tensor(value.mean), tensor(value.var))
        return torch.as_tensor(np.asarray(value), dtype=torch.float32)

    graph = rebuild(model.graph, model.graph.nodes, random=samples.var is not None)
    values: dict[str, Any] = {
        INPUT: tensor(samples.mean if samples.var is None else Moments(samples.mean, samples.var))
    }
    with torch.no_grad():
        for node in graph.nodes:
            inputs = [values[name] for name in node.inputs]
            params = {key: tensor(param) for key, param in node.params.items()}
            values[node.name] = ops.find(node.op).formula(TORCH, *inputs, **params, **node.attrs)
    out = values[graph.output]
    mean, var = out if isinstance(out, Moments) else (out, torch.zeros_like(out))
    return Outcome(mean.numpy(), var.numpy())


def run_onnx(model: Model, samples: Samples) -> Outcome:
    """The exported ONNX file in onnxruntime."""
    import onnxruntime as ort

    from lbnn.exporters.onnx import to_onnx
    from lbnn.graph.passes import prepare

    graph = prepare(model.graph, samples.var is not None)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    proto = to_onnx(graph, model.sha256).SerializeToString()
    session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    feeds = {"input": samples.mean} | ({} if samples.var is None else {"input_variance": samples.var})
    return Outcome(*session.run(["mean", "variance"], feeds))


def run_device(
    device: str, model: Model, samples: Samples, runtime: Path | None = None, weights: str = "source"
) -> Outcome:
    """The exported C, compiled for a device and run there; `runtime` replaces the C runtime's headers."""
    from lbnn.base.files import write_folder
    from lbnn.device.devices import run_model
    from lbnn.device.generated import read_generated
    from lbnn.exporters.c import COptions, generate
    from lbnn.measure.inspection import inspect

    options = COptions(name="model", input_variance=samples.var is not None, weights=weights)
    files: dict[str, Any] = dict(generate(model, options))
    if runtime is not None:
        files |= {path.name: path.read_bytes() for path in runtime.glob("*.h") if path.name in files}
    inputs = samples.mean.reshape(len(samples), -1)
    spread = None if samples.var is None else samples.var.reshape(len(samples), -1)
    with tempfile.TemporaryDirectory() as folder:
        written = read_generated(write_folder(Path(folder) / "c", files), "model", options.input_variance)
        result = run_model(device, written, inputs, spread)
    mean, var = (np.where(result.status[:, None] == 0, part, np.nan) for part in (result.mean, result.variance))
    return Outcome(mean, var, device_cost(result, inspect(model, samples.var is not None).weight_bytes))


def device_cost(result: Any, weight_bytes: int) -> Cost:
    """Whatever flash holds besides the weights counts as code, also constants that the compiler moved there."""
    return Cost(
        None if result.instructions is None else int(np.mean(result.instructions)),
        None if result.sizes is None else result.sizes.flash - weight_bytes,
        None if result.sizes is None else weight_bytes,
        result.work_bytes,
        result.stack_bytes if result.stack_bytes is not None else getattr(result.stack_bound, "bytes", None),
    )


def backends() -> dict[str, Backend]:
    """Every backend by name, whether its tools are here or not."""
    from lbnn.device.devices import DEVICES

    return {"torch": run_torch, "onnx": run_onnx, **{name: partial(run_device, name) for name in DEVICES}}


def missing(name: str) -> str:
    """What a backend lacks here and how to get it, or an empty text."""
    from importlib.util import find_spec

    from lbnn.device.devices import DEVICES

    if name == "onnx" and not all(find_spec(package) for package in ("onnx", "onnxruntime")):
        return "pip install 'lbnn[onnx]'"
    return DEVICES[name].missing() if name in DEVICES else ""


DEFAULT_BACKENDS = (
    *("torch", "onnx", "c", "c-sanitized"),
    *("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33"),
    *("microbit", "mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547"),
)


def choose(names: Iterable[str] | None) -> tuple[list[str], dict[str, str]]:
    """The backends to run and those left out with what they need; one that was asked for must be there."""
    known = backends()
    asked = list(names or ())
    for name in asked:
        if name not in known:
            raise LbnnError(f"unknown backend {name!r}; known are {', '.join(known)}")
        if lacking := missing(name):
            raise LbnnError(f"backend {name!r} is not available here: {lacking}")
    if asked:
        return asked, {}
    lacking_by_name = {name: missing(name) for name in DEFAULT_BACKENDS}
    return [name for name, lack in lacking_by_name.items() if not lack], {n: m for n, m in lacking_by_name.items() if m}
