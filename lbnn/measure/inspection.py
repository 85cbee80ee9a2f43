"""`lbnn inspect`: layers, parameters, multiplications, flash and RAM, before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from lbnn.base.moments import Moments
from lbnn.base.terminal import kilobytes, print_table, thousands
from lbnn.exporters.c import COptions, Footprint, footprint, lower
from lbnn.graph import Graph, Node
from lbnn.graph.passes import prepare
from lbnn.graph.plan import Plan, plan
from lbnn.measure import parts
from lbnn.model.file import Model

PART_COLUMNS = ("part", "core", "FPU", "status", "flash left", "RAM left", "note")


@dataclass(frozen=True)
class Layer:
    """One node of the exported graph; `parameters` are Gaussians, `macs` those of the plain network's mean."""

    name: str
    op: str
    output: str
    parameters: int
    macs: int


@dataclass(frozen=True)
class Inspection:
    """A model as it will be exported."""

    model: Model
    graph: Graph
    plan: Plan
    layers: tuple[Layer, ...]
    footprint: Footprint

    @property
    def parameters(self) -> int:
        """All Gaussians; each is a mean and a variance."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the plain network; the moments need about three times as many."""
        return sum(layer.macs for layer in self.layers)

    @property
    def weight_bytes(self) -> int:
        """Constants in flash: 8 bytes a Gaussian, 4 a known number."""
        known = sum(_known_numbers(node) for node in self.graph.nodes)
        return 8 * self.parameters + 4 * known

    @property
    def work_bytes(self) -> int:
        """The caller's work buffer."""
        return 4 * self.plan.size


def inspect(model: Model, input_variance: bool = False) -> Inspection:
    """What an export of `model` will hold."""
    graph = prepare(model.graph, input_variance)
    layers = tuple(
        Layer(node.name, node.op, str(graph.values[node.name]), _gaussians(node), _macs(graph, node))
        for node in graph.nodes
    )
    program = lower(model, COptions(input_variance=input_variance))
    return Inspection(model, graph, plan(graph), layers, footprint(program))


def _gaussians(node: Node) -> int:
    return sum(int(param.mean.size) for param in node.params.values() if isinstance(param, Moments))


def _known_numbers(node: Node) -> int:
    return sum(int(param.size) for param in node.params.values() if not isinstance(param, Moments))


def _macs(graph: Graph, node: Node) -> int:
    weight: Any = node.params.get("weight")
    if not isinstance(weight, Moments):
        return 0
    return int(prod(graph.values[node.name].shape) * prod(weight.mean.shape[1:]))


def as_plain(report: Inspection) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "name": report.model.name,
        "sha256": report.model.sha256,
        "input": str(report.graph.input),
        "output": str(report.graph.values[report.graph.output]),
        "parameters": report.parameters,
        "macs": report.macs,
        "weight_bytes": report.weight_bytes,
        "code_bytes": report.footprint.code_bytes,
        "stack_bytes": report.footprint.stack_bytes,
        "work_bytes": report.work_bytes,
        "work_bytes_lower_bound": 4 * report.plan.bound,
        "layers": [asdict(layer) for layer in report.layers],
        "parts": [found.as_plain() for found in parts.fits(report.footprint)],
    }


def show(report: Inspection) -> None:
    """A table of layers and the totals."""
    rows = [[row.name, row.op, row.output, thousands(row.parameters), thousands(row.macs)] for row in report.layers]
    totals = ["total", "", "", thousands(report.parameters), thousands(report.macs)]
    title = f"{report.model.name}: input {report.graph.input}, sha256 {report.model.sha256[:12]}"
    print_table(("layer", "operator", "output", "Gaussians", "MACs"), [*rows, totals], title)
    code, stack = kilobytes(report.footprint.code_bytes), thousands(report.footprint.stack_bytes)
    print(f"flash: {kilobytes(report.weight_bytes)} of weights (8 bytes a Gaussian) and at most {code} of code")
    print(f"RAM:   {kilobytes(report.work_bytes)} of work buffer (at least {kilobytes(4 * report.plan.bound)})")
    print(f"stack: at most {stack} bytes (code and stack: gcc on Cortex-M)")
    show_parts(parts.fits(report.footprint))


def show_parts(found: Sequence[parts.Fit]) -> None:
    """Which parts the model fits, and what is left for the rest of the firmware."""
    rows = [
        [x.part.name, x.part.core, "yes" if x.part.fpu else "no", "ok" if x.fits else "too small",
         _left(x.flash_left, x.part.flash), _left(x.ram_left, x.part.ram), x.part.note]
        for x in found
    ]  # fmt: skip
    reserve = f"after {kilobytes(parts.RESERVE_FLASH)} and {kilobytes(parts.RESERVE_RAM)} for the rest of the firmware"
    print_table(PART_COLUMNS, rows, f"\nleft on well-known parts, {reserve}")


def _left(count: int, capacity: int) -> str:
    return (
        f"{count / parts.KIB:.1f} KB ({count / capacity:.0%})" if count >= 0 else f"{-count / parts.KIB:.1f} KB short"
    )
