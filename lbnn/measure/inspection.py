"""`lbnn inspect`: layers, parameters, multiplications, flash and RAM, before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.base.terminal import kilobytes, print_table, thousands
from lbnn.exporters.c import COptions, Footprint, footprint, lower
from lbnn.exporters.c.footprint import macs
from lbnn.exporters.c.program import Program
from lbnn.graph import Graph, Node
from lbnn.graph.plan import Plan
from lbnn.measure import parts
from lbnn.measure.labels import class_names_of, tells_one_class
from lbnn.model.file import Model
from lbnn.ops.heads import find_head
from lbnn.train.listing import shortened

C_FORMS: Mapping[str, Mapping[str, Any]] = {
    "half": {"weights": "half"},
    "int8": {"dtype": "int8"},
    "int16": {"dtype": "int16"},
}
"""Forms of the generated C besides float32, and their options."""

PART_COLUMNS = ("part", "core", "FPU", "status", "flash left", "RAM left", "note")


@dataclass(frozen=True)
class ExportedLayer:
    """One node of the exported graph; `parameters` are Gaussians, `macs` those of the plain network's mean.

    `variance` says what the variances of its weights are made of; without weights it is empty.
    """

    name: str
    op: str
    output: str
    parameters: int
    macs: int
    variance: str = ""


@dataclass(frozen=True)
class Inspection:
    """A model as it will be exported."""

    model: Model
    program: Program
    layers: tuple[ExportedLayer, ...]
    footprint: Footprint
    stream: Footprint | str | None = None  # of a network over time, or why it can't stream
    forms: Mapping[str, Footprint | str] = field(default_factory=dict)  # by name of C_FORMS, or why there is none

    @property
    def graph(self) -> Graph:
        """The graph as it is exported."""
        return self.program.graph

    @property
    def plan(self) -> Plan:
        """Where its values lie in the work buffer."""
        return self.program.plan

    @property
    def peak(self) -> tuple[str, dict[str, int]]:
        """The layer that needs most of the work buffer, and the bytes of each value that is in use then."""
        step, alive = self.plan.peak
        size = self.program.dtype.element.itemsize
        layer = self.graph.nodes[step].name if self.graph.nodes else ""
        return layer, {name: size * count for name, count in alive.items()}

    @property
    def least_work_bytes(self) -> int:
        """Below which no plan can be."""
        return self.program.dtype.element.itemsize * self.plan.bound

    @property
    def parameters(self) -> int:
        """All Gaussians; each is a mean and a variance."""
        return sum(layer.parameters for layer in self.layers)

    def as_plain(self) -> dict[str, Any]:
        """Everything as plain data."""
        need = self.footprint
        return {
            "name": self.model.name,
            "sha256": self.model.sha256,
            "input": str(self.graph.input),
            "output": str(self.graph.values[self.graph.output]),
            "parameters": self.parameters,
            "macs": need.macs,
            "weight_bytes": need.weight_bytes,
            "code_bytes": need.code_bytes,
            "stack_bytes": need.stack_bytes,
            "work_bytes": need.work_bytes,
            "work_bytes_lower_bound": self.least_work_bytes,
            "io_bytes": need.io_bytes,
            "peak": dict(zip(("layer", "bytes"), self.peak, strict=True)),
            "head": self.graph.head,
            "stream": self.stream.of_stream if isinstance(self.stream, Footprint) else self.stream,
            "classes": None if self.graph.head is None else list(class_names_of(self.model)),
            "forms": {name: _plain_form(form) for name, form in self.forms.items()},
            "layers": [asdict(layer) for layer in self.layers],
            "parts": [found.as_plain() for found in parts.fits(need)],
        }


def inspect_model(model: Model, input_variance: bool = False) -> Inspection:
    """What an export of `model` to C will hold; the footprint is that of its NAME_footprint.json."""
    program = lower(model, COptions(input_variance=input_variance))
    graph = program.graph
    layers = tuple(
        ExportedLayer(
            node.name, node.op, str(graph.values[node.name]), _gaussians(node), macs(node, graph), _variance(node)
        )
        for node in graph.nodes
    )
    need = footprint(program)
    others = {name: _form(model, COptions(input_variance=input_variance, **form)) for name, form in C_FORMS.items()}
    return Inspection(model, program, layers, need, _stream(model, input_variance), {"float32": need, **others})


def _form(model: Model, options: COptions) -> Footprint | str:
    try:
        return footprint(lower(model, options))
    except LbnnError as reason:
        return str(reason)


def _plain_form(form: Footprint | str) -> dict[str, Any] | str:
    if isinstance(form, str):
        return form
    return {**form.numbers, "fits": [fit.part.name for fit in parts.fits(form) if fit.fits]}


def _stream(model: Model, input_variance: bool) -> Footprint | str | None:
    if len(model.graph.input.shape) != 2:
        return None
    return _form(model, COptions(input_variance=input_variance, stream=True))


def _variance(node: Node) -> str:
    """One of VARIANCES, after scales were folded into the factors."""
    weight = node.params.get("weight")
    if isinstance(weight, Factored):
        return "rank1" if np.any(weight.column != 1.0) else "row"
    return "full" if isinstance(weight, Moments) else ""


def _gaussians(node: Node) -> int:
    return sum(int(param.mean.size) for param in node.params.values() if isinstance(param, (Moments, Factored)))


def show_inspection(found: Inspection) -> None:
    """A table of layers and the totals."""
    rows = [
        [row.name, _titled(row), row.output, thousands(row.parameters), thousands(row.macs)] for row in found.layers
    ]
    totals = ["total", "", "", thousands(found.parameters), thousands(found.footprint.macs)]
    title = f"{found.model.name}: input {found.graph.input}, sha256 {found.model.sha256[:12]}"
    print_table(("layer", "operator", "output", "Gaussians", "MACs"), [*rows, totals], title)
    if found.graph.head is not None:
        names = class_names_of(found.model)
        what = f"{len(names)} classes" if tells_one_class(found.model) else f"{len(names)} labels"
        print(f"head:  {find_head(found.graph.head).title} ({found.graph.head}), {what}: {shortened(names)}")
    need, bound = found.footprint, kilobytes(found.least_work_bytes)
    print(f"flash: {kilobytes(need.weight_bytes)} of weights and at most {kilobytes(need.code_bytes)} of code")
    work, around = map(kilobytes, (need.work_bytes, need.io_bytes))
    print(f"RAM:   {work} of work buffer (at least {bound}), {around} of the caller's input and output")
    print(f"peak:  {_peak_text(found)}")
    if isinstance(found.stream, Footprint):
        state, work = map(kilobytes, (found.stream.state_bytes, found.stream.push_work_bytes))
        cost = f"at most {thousands(found.stream.push_macs)} MACs a sample"
        print(f"stream: {state} of state, {work} of work buffer, {cost} (--stream)")
    elif found.stream:
        print(f"stream: {found.stream}")
    print(f"stack: at most {thousands(need.stack_bytes)} bytes (code and stack: gcc on Cortex-M)")
    show_forms(found.forms)
    show_parts(parts.fits(need))


def _peak_text(found: Inspection) -> str:
    """Where the work buffer is fullest, and what lies there: values, and memory that a layer has beside its values."""
    layer, alive = found.peak
    if not alive:
        return "nothing lies in the work buffer"
    titles = {name: f"beside {name[1:-1]}" if name.startswith("[") else f"of {name}" for name in alive}
    return f"layer {layer}, with " + ", ".join(f"{kilobytes(alive[name])} {title}" for name, title in titles.items())


def _titled(layer: ExportedLayer) -> str:
    return f"{layer.op} ({layer.variance})" if layer.variance in ("rank1", "row") else layer.op


FORM_COLUMNS = ("form", "weights", "code", "RAM", "parts", "not on")


def show_forms(forms: Mapping[str, Footprint | str]) -> None:
    """What each form of the generated C takes, and the parts that it fits."""
    title = "\nforms (--weights half, --dtype int8 | int16), bytes; docs/forms.md says which to take"
    print_table(FORM_COLUMNS, [_form_cells(name, form) for name, form in forms.items()], title)


def _form_cells(name: str, form: Footprint | str) -> list[str]:
    if isinstance(form, str):
        return [name, "", "", "", "", form]
    fits = parts.fits(form)
    short = ", ".join(f"{fit.part.name}{' (perhaps)' if fit.perhaps else ''}" for fit in fits if not fit.fits)
    sizes = (form.weight_bytes, form.code_bytes, form.ram_bytes)
    return [name, *map(thousands, sizes), f"{sum(fit.fits for fit in fits)} of {len(fits)}", short]


def show_parts(fits: Sequence[parts.Fit]) -> None:
    """Which parts the model fits, and what is left for the rest of the firmware."""
    rows = [
        [x.part.name, x.part.core, "yes" if x.part.fpu else "no", parts.verdict(x),
         _left(x.flash_left, x.part.flash), _left(x.ram_left, x.part.ram), x.part.note]
        for x in fits
    ]  # fmt: skip
    reserve = f"{kilobytes(parts.RESERVE_FLASH)} and {kilobytes(parts.RESERVE_RAM)} for the rest of the firmware"
    title = f"\nleft on well-known parts, after the caller's input and output and {reserve}"
    print_table(PART_COLUMNS, rows, title)
    if devices := dict.fromkeys(fit.part.device for fit in fits if fit.perhaps):
        print(f"perhaps: {parts.PERHAPS}, as lbnn verify --backends {','.join(devices)} does")


def _left(count: int, capacity: int) -> str:
    return (
        f"{count / parts.KIB:.1f} KB ({count / capacity:.0%})" if count >= 0 else f"{-count / parts.KIB:.1f} KB short"
    )
