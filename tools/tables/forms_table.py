"""Prints what each form of the generated C takes and loses: bytes, instructions and error, as the pages show it.

    python tools/tables/forms_table.py small     # every form of M1 (an MLP 16-64-64-1) and M2 (a CNN on 1x16x16)
    python tools/tables/forms_table.py tiny      # and of the four networks of MLPerf Tiny: ten minutes of one core
    python tools/tables/forms_table.py bench     # instructions of M1 to M5 in float32 and int8 on four cores
    python tools/tables/forms_table.py heads     # what a head costs behind logits in integers
    python tools/tables/forms_table.py half      # half floats alone, on a Cortex-M4F

Networks are untrained, with the same weights every time; their sigmas differ from weight to weight, or from factor to
factor where they are products. Compiled by gcc 12, `-O2 -std=gnu99 -fno-math-errno`. KL, means and variances are of
ordinary inputs, beside the same network in float64. A dash: an operator without an integer kernel, or a board that is
too small.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

import cost_table
from cost_table import M0, M3, M4, M55, markdown
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.base.terminal import progress, thousands
from lbnn.device.compilers import CompileError
from lbnn.device.devices import run_model
from lbnn.device.results import DeviceResult
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.exporters.c.folder import write_program
from lbnn.exporters.c.program import Program
from lbnn.graph.reference import predict
from lbnn.measure.counting import DEVICE_FLAGS
from lbnn.measure.integer_verify import expect_integers, ordinary_samples
from lbnn.measure.loss import BitLoss, measure_loss
from lbnn.measure.stored import as_stored
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.measure.verify import too_small
from lbnn.model.file import Model, read_model
from lbnn.nn import BayesianLayer

models, tiny_models = map(importlib.import_module, ("bench_models", "tiny_models"))
MODELS = {**models.MODELS, **tiny_models.TINY}
LABELS = {M0: "Cortex-M0", M3: "Cortex-M3", M4: "Cortex-M4F", M55: "Cortex-M55"}
UNEVEN = 0.3
"""How far sigmas, or their factors, lie apart: the standard deviation of their logarithms."""


@dataclass(frozen=True)
class Form:
    """A form of the generated C: what the variances of the network are made of, and the options of the export."""

    title: str
    variance: str = "full"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def chosen(self) -> COptions:
        """The options of an export."""
        return COptions(name=NAME, **self.options)


FLOAT, FLOAT_RANK1 = Form("float32"), Form("float32, rank-1", "rank1")
INT8, INT8_RANK1 = (Form(f"int8{end}", kind, {"dtype": "int8"}) for end, kind in (("", "full"), (", rank-1", "rank1")))
FORMS = (
    FLOAT,
    FLOAT_RANK1,
    Form("half floats", "full", {"weights": "half"}),
    INT8,
    INT8_RANK1,
    Form("int16", "full", {"dtype": "int16"}),
    Form("int16, rank-1", "rank1", {"dtype": "int16"}),
)


@cache
def built(name: str, variance: str) -> Model:
    """A network with uneven sigmas of one kind."""
    known = models.MODELS if name in models.MODELS else tiny_models.TINY
    module = models.build(name, known)
    for layer in module.modules():
        if isinstance(layer, BayesianLayer):
            layer.spread_evenly(float(layer.weight_rho.detach().flatten()[0]), variance)
            _make_uneven(layer)
    return read_model(module, MODELS[name][1])


def _make_uneven(layer: BayesianLayer) -> None:
    with torch.no_grad():
        for key, parameter in layer.named_parameters():
            if key.startswith("weight") and key.endswith("rho"):
                parameter.add_(UNEVEN * torch.randn_like(parameter))


def emulated(program: Program, model: Model, options: COptions, device: str, classifies: bool = False) -> DeviceResult:
    """One prediction."""
    with tempfile.TemporaryDirectory() as folder:
        written = write_program(program, model, options, Path(folder) / "c")
        inputs = ordinary_inputs(model)[:1].reshape(1, -1)
        return run_model(device, replace(written, classifies=classifies), inputs, flags=DEVICE_FLAGS)


def lowered(model: Model, form: Form) -> Program | None:
    """The program of a form, or nothing where integers lack an operator."""
    try:
        return lower(model, form.chosen)
    except LbnnError as error:
        if "has no integer kernel" not in str(error):
            raise
        return None


def measured(name: str, form: Form, device: str) -> tuple[str, str]:
    """Instructions of a prediction and bytes of code there; dashes where there is none."""
    model = built(name, form.variance)
    program = lowered(model, form)
    try:
        found = None if program is None else emulated(program, model, form.chosen, device)
    except CompileError as error:
        if not too_small(error):
            raise
        found = None
    if program is None or found is None:
        return "-", "-"
    assert found.instructions is not None
    code = None if found.sizes is None else found.sizes.flash - footprint(program).weight_bytes
    return thousands(int(found.instructions[0])), thousands(code)


def lost(model: Model, form: Form, count: int) -> BitLoss:
    """What a form loses of ordinary predictions."""
    samples = ordinary_samples(model, count)
    exact = predict(model.graph, samples.mean, samples.var)
    if form.chosen.half:
        return measure_loss(exact, predict(as_stored(model, "half").graph, samples.mean, samples.var))
    found = expect_integers(model, samples, form.chosen.dtype)
    flat = Moments(*(part.reshape(len(samples), -1) for part in exact))
    return measure_loss(flat, Moments(found.mean, found.var))


def _errors(loss: BitLoss) -> list[str]:
    numbers = [f"{number:.1e}" for number in (loss.kl_mean, loss.kl_worst, loss.mean_error)]
    return [*numbers, f"{loss.least_ratio:.4f} to {loss.largest_ratio:.4f}"]


def row(name: str, form: Form, devices: Sequence[str], count: int) -> list[str]:
    """One network in one form."""
    model, title = built(name, form.variance), f"{name.upper()}, {form.title}"
    program = lowered(model, form)
    if program is None:
        return [title, *["-"] * (7 + len(devices))]
    need = footprint(program)
    counts = {device: measured(name, form, device) for device in devices if not _endless(name, form, device)}
    sizes = [thousands(need.weight_bytes), counts[M4][1], thousands(need.work_bytes)]
    errors = ["", "", "", ""] if form in (FLOAT, FLOAT_RANK1) else _errors(lost(model, form, count))
    return [title, *sizes, *(counts.get(device, ("",))[0] for device in devices), *errors]


def _endless(name: str, form: Form, device: str) -> bool:
    """Whether a large network would compute float in software: billions of instructions, which M1 and M2 show too."""
    return name in tiny_models.TINY and device == M0 and form.chosen.dtype == "float32"


def _table(names: Sequence[str], devices: Sequence[str], count: int) -> str:
    head = ["", "weights", "code", "work", *(LABELS[device] for device in devices)]
    wanted = [(name, form) for name in names for form in FORMS]
    with progress("counting", wanted) as steps:
        rows = [row(name, form, devices, count) for name, form in steps]
    return markdown([[*head, "KL mean", "KL worst", "mean error", "variance ratio"], *rows])


def small() -> str:
    """Every form of M1 and M2."""
    return _table(("m1", "m2"), (M0, M3, M4, M55), 512)


def tiny() -> str:
    """Every form of the networks of MLPerf Tiny, on two cores: every other one takes minutes more."""
    return _table(tuple(tiny_models.TINY), (M0, M4), 32)


def bench() -> str:
    """Instructions of the benchmark models in float32 and int8."""
    wanted = [(name, form) for name in models.MODELS for form in (FLOAT, FLOAT_RANK1, INT8, INT8_RANK1)]
    with progress("counting", wanted) as steps:
        rows = [[f"{name.upper()}, {form.title}", *_counts(name, form)] for name, form in steps]
    return markdown([["instructions", *LABELS.values()], *rows])


def _counts(name: str, form: Form) -> list[str]:
    return [measured(name, form, device)[0] for device in LABELS]


HEADS: dict[str, Callable[[], Any]] = {
    "`SoftmaxHead()`": bnn.SoftmaxHead,
    '`SoftmaxHead("fast")`': lambda: bnn.SoftmaxHead("fast"),
    "`SigmoidHead()`": bnn.SigmoidHead,
}


def heads() -> str:
    """An MLP 16-32-10 in int8 with each head: its logits, and what the head adds."""
    rows = [["ten classes", *(f"{what}, {LABELS[core]}" for core in (M0, M4) for what in ("logits", "with the head"))]]
    for title, head in HEADS.items():
        torch.manual_seed(0)
        layers = bnn.Linear(16, 32), bnn.LeakyReLU(0.1), bnn.Linear(32, 10), head()
        model, options = read_model(bnn.Sequential(*layers), (16,)), COptions(name=NAME, dtype="int8")
        program, counts = lower(model, options), []
        for device in (M0, M4):
            runs = [emulated(program, model, options, device, classifies) for classifies in (False, True)]
            counts += [thousands(int(run.instructions[0])) for run in runs if run.instructions is not None]
        rows.append([title, *counts])
    return markdown(rows)


def half() -> str:
    """Half floats beside float32 on a Cortex-M4F, with sigmas that are all the same."""
    rows = [_half_row(name, form) for name in ("m1", "m2") for form in (FLOAT, FORMS[2])]
    columns = ["", "weights, bytes", "code, bytes", "Cortex-M4F", "KL mean", "KL worst", "mean error", "variance ratio"]
    return markdown([columns, *rows])


def _half_row(name: str, form: Form) -> list[str]:
    model = cost_table.built(name)
    cost = cost_table.counted(model, M4, form.chosen).cost
    need = footprint(lower(model, form.chosen))
    cells = [f"{name.upper()}, {form.title}", *map(thousands, (need.weight_bytes, cost.code_bytes, cost.instructions))]
    return [*cells, *(["", "", "", ""] if form is FLOAT else _errors(lost(model, form, 512)))]


TABLES: dict[str, Callable[[], str]] = {table.__name__: table for table in (small, tiny, bench, heads, half)}


def main(words: Sequence[str]) -> None:
    """Prints the table that is asked for."""
    if len(words) != 1 or words[0] not in TABLES:
        sys.exit(f"which table? {', '.join(TABLES)}")
    print(TABLES[words[0]]())


if __name__ == "__main__":
    main(sys.argv[1:])
