"""What becomes of a random network on each backend: it agrees with float64, is refused in one line, or is a finding."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lbnn import LbnnError
from lbnn.base.classes import Classes
from lbnn.base.moments import Moments
from lbnn.exporters.options import OPSETS
from lbnn.graph import Graph
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.graph.rounding import bounds
from lbnn.measure.device_backend import run_device
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, Runner, errors, expect
from lbnn.measure.samples import Samples, draw_samples
from lbnn.measure.torch_backend import run_torch
from lbnn.model.file import Model, read_model
from lbnn.model.trace import record
from recipe_text import program, shrink
from recipes import Recipe

SAMPLES = 14  # two of each kind

AGREES, BOUNDED, REFUSED, FINDING = "agrees", "within bound", "refused", "finding"
"""Within 1e-5; beyond it and within what float32 may lose there, because its sums cancel; an LbnnError; all else."""


@dataclass(frozen=True)
class Result:
    """One backend on one network; `what` is the reason of a refusal, or what was found."""

    backend: str
    status: str
    what: str = ""


@dataclass(frozen=True)
class Finding:
    """What no network may do, where, and a program that shows it."""

    number: int
    backends: tuple[str, ...]
    what: str
    program: str


def run_module(network: nn.Module, model: Model, samples: Samples) -> Outcome:
    """The module itself, as users call it; layers of float64 are made float32, because torch does not mix them."""
    x, var = (None if part is None else torch.as_tensor(part) for part in (samples.mean, samples.var))
    with torch.no_grad():
        out = network.float()(x if var is None else Moments(x, var))
    out = out.logits if isinstance(out, Classes) else out
    mean, spread = out if isinstance(out, Moments) else (out, torch.zeros_like(out))
    return Outcome(mean.numpy(), spread.numpy())


def assert_within_bound(graph: Graph, got: Moments[Any], mean: Any, var: Any = None) -> None:
    """The contract of parity, for networks of which some cancel more than 1e-5 allows."""
    expected = expect(graph, Samples(mean, var, ("random",) * len(mean)))
    found = errors(Outcome(got.mean, got.var), expected.result)
    for error, limit in zip(found, expected.allowed(FLOAT32_TOLERANCE), strict=True):
        np.testing.assert_array_less(error, np.nextafter(limit, np.inf))


def run_onnx_reference(opset: int, model: Model, samples: Samples) -> Outcome:
    """The exported ONNX file in the evaluator of the onnx package."""
    from onnx.reference import ReferenceEvaluator

    from lbnn.exporters.onnx import to_onnx
    from onnx_groups import ConvTranspose

    proto = to_onnx(prepare(model.graph, samples.var is not None), model.sha256, opset)
    feeds = {"input": samples.mean} | ({} if samples.var is None else {"input_variance": samples.var})
    with np.errstate(all="ignore"):
        mean, var = ReferenceEvaluator(proto, new_ops=[ConvTranspose]).run(["mean", "variance"], feeds)
    return Outcome(mean, var)


def runners(network: nn.Module, number: int) -> dict[str, Runner]:
    """How each backend is run; the number of the network decides on operator sets and on what C is optimised for."""
    from lbnn.measure.onnx_backend import run_onnx

    optimize = "size" if number % 3 == 0 else "speed"
    devices = ("c", "c-sanitized", "cortex-m0", "cortex-m4")
    return {
        "module": partial(run_module, network),
        "torch": run_torch,
        "onnx": run_onnx,
        "onnx-reference": partial(run_onnx_reference, OPSETS[number % len(OPSETS)]),
        **{name: partial(run_device, name, optimize=optimize) for name in devices},
    }


def backends_for(number: int, share: int) -> list[str]:
    """Those that run every network, and an emulated core or the sanitizers on one in `share`, by turns."""
    often = ["module", "torch", "onnx", "onnx-reference", "c"]
    rare = ["cortex-m0", "cortex-m4", "c-sanitized"]
    return often + ([rare[number // share % len(rare)]] if share and number % share == 0 else [])


def check(recipe: Recipe, number: int, names: Sequence[str]) -> list[Result]:
    """A network on these backends; one that is refused before any of them runs has the single result `build`."""
    built: list[Any] = []

    def build() -> Result:
        network = recipe.build()
        model = read_model(network, recipe.shape)
        built.extend((network, model, draw_samples(model, SAMPLES, number, recipe.input_variance)))
        return Result("build", AGREES)

    if (result := _guarded("build", build)).status != AGREES:
        return [result]
    network, model, samples = built
    ways = runners(network, number)
    unlike = {"module"} if record(network, recipe.shape).folded else set()
    return [_guarded(name, partial(compare, name, ways[name], model, samples)) for name in names if name not in unlike]


def compare(name: str, runner: Runner, model: Model, samples: Samples) -> Result:
    """One backend beside float64: within 1e-5, or within what rounding to float32 may cost at that element."""
    outcome, want = runner(model, samples), predict(model.graph, samples.mean, samples.var)
    relative = errors(outcome, want)
    if max(part.max() for part in relative) <= FLOAT32_TOLERANCE:
        return Result(name, AGREES)
    bound = bounds(model.graph, samples.mean, samples.var)[model.graph.output]
    parts = zip(("mean", "variance"), relative, (outcome.mean, outcome.var), want, bound, strict=True)
    wrong = [f"wrong {part} {told}" for part, *moment in parts if (told := stray(*moment))]
    return Result(name, FINDING, "; ".join(wrong)) if wrong else Result(name, BOUNDED)


def stray(error: Any, *moment: Any) -> str:
    """The worst element that is beyond 1e-5 and beyond the bound, in words; nothing if there is none."""
    got, true, bound = (np.asarray(part, np.float64).reshape(error.shape) for part in moment)
    beyond = (error > FLOAT32_TOLERANCE) & ~(np.abs(got - true) <= bound)
    if not beyond.any():
        return ""
    at = tuple(np.argwhere(beyond)[error[beyond].argmax()])
    return f"{got[at]:.9g}, not {true[at]:.9g} within {bound[at]:.1e}, of sample {at[0]}"


def _guarded(name: str, act: Callable[[], Result]) -> Result:
    """A refusal is an LbnnError of one line; every other exception is a finding."""
    try:
        return act()
    except LbnnError as error:
        message = str(error)
        return Result(name, FINDING if "\n" in message.strip() else REFUSED, message)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Result(name, FINDING, f"{type(error).__name__}: {error} ({where})")


def findings(recipe: Recipe, number: int, results: Sequence[Result]) -> list[Finding]:
    """What was found, backends that found the same together, with the smallest network that shows it on the first."""
    alike: dict[str, list[Result]] = {}
    for result in results:
        if result.status == FINDING:
            alike.setdefault(_kind(result), []).append(result)
    return [_finding(recipe, number, group) for group in alike.values()]


def _finding(recipe: Recipe, number: int, alike: Sequence[Result]) -> Finding:
    first = alike[0]

    def fails(smaller: Recipe) -> bool:
        results = check(smaller, number, [first.backend])
        return any(result.status == FINDING and _kind(result) == _kind(first) for result in results)

    names = tuple(result.backend for result in alike)
    return Finding(number, names, first.what, program(shrink(recipe, fails), number, SAMPLES))


def _kind(result: Result) -> str:
    """What findings are told apart by: wrong numbers, or the type of an exception and where it was raised."""
    return result.what.split()[0] + "".join(re.findall(r"\(\w+\.py:\d+\)$", result.what))
