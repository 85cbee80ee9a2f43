"""Prints what the four networks of MLPerf Tiny take on microcontrollers, mean and variance: python tiny_table.py

    python tools/tables/tiny_table.py                 # untrained, always with the same weights
    python tools/tables/tiny_table.py out/tiny        # those of a folder: what `make tiny` has trained

Instructions, cycles and bytes on a Cortex-M4F by gcc, `-O2 -std=gnu99 -fno-math-errno`. Rows of emx-onnx-cgen are
dashes where it is not on the PATH. Parts are those of `lbnn inspect`, with its reserve for the rest of a firmware.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cost_table import M4, counted, markdown
from lbnn.base.terminal import kilobytes, progress, thousands
from lbnn.exporters.onnx import to_onnx
from lbnn.exporters.onnx.plain import plain_onnx
from lbnn.graph.passes import prepare
from lbnn.measure import peers
from lbnn.measure.cost import Cost
from lbnn.measure.counting import DEVICE_FLAGS, Counted
from lbnn.measure.inspection import inspect_model
from lbnn.measure.subject import ordinary_inputs
from lbnn.model.file import Model, read_model

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools/bench"))
bench_models, tiny_models = (importlib.import_module(name) for name in ("bench_models", "tiny_models"))
FORMS = {"float32": "float32", "half": "half floats", "int8": "int8"}


@dataclass(frozen=True)
class Column:
    """One network: what was counted, what others take, and its plain facts."""

    counted: Counted
    emx: Cost
    emx_plain: Cost
    facts: dict[str, Any]


def measure(model: Model) -> Column:
    """Everything of one network."""
    graph, emx = prepare(model.graph, input_variance=False), [Cost(), Cost()]
    if not peers.emx_missing():
        protos = (to_onnx(graph, model.sha256), plain_onnx(graph))
        emx = [peers.count_emx(proto, ordinary_inputs(model), DEVICE_FLAGS) for proto in protos]
    return Column(counted(model, M4), *emx, inspect_model(model).as_plain())


def _fits(form: str) -> Callable[[Column], str]:
    def cell(column: Column) -> str:
        found = column.facts["forms"][form]
        return "-" if isinstance(found, str) else ", ".join(found["fits"]) or "none"

    return cell


def _cycles(column: Column) -> str:
    cycles = column.counted.cost.cycles
    return "-" if cycles is None else f"{cycles.low / 1e6:.2f} to {cycles.high / 1e6:.2f}"


def _ram(cost: Cost) -> str:
    return kilobytes(None if cost.stack_bytes is None else (cost.work_bytes or 0) + cost.stack_bytes)


LINES: dict[str, Callable[[Column], str]] = {
    "weights": lambda one: thousands(one.facts["parameters"]),
    "products of the plain network": lambda one: thousands(one.facts["macs"]),
    "**instructions, mean and variance**": lambda one: f"**{thousands(one.counted.cost.instructions)}**",
    "the plain network by the same kernels": lambda one: thousands(
        one.counted.plain.instructions if one.counted.plain else None
    ),
    "cycles, estimated, millions": _cycles,
    "flash": lambda one: kilobytes((one.counted.cost.code_bytes or 0) + (one.counted.cost.weight_bytes or 0)),
    "of it code and tables": lambda one: kilobytes(one.counted.cost.code_bytes),
    "RAM with stack": lambda one: _ram(one.counted.cost),
    "emx-onnx-cgen, mean and variance": lambda one: thousands(one.emx.instructions),
    "emx-onnx-cgen, plain network": lambda one: thousands(one.emx_plain.instructions),
    "its RAM, mean and variance": lambda one: _ram(one.emx),
    **{f"parts, {title}": _fits(form) for form, title in FORMS.items()},
}


def models(folder: Path | None) -> dict[str, Model]:
    """The trained ones of a folder, or untrained ones."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return {path.stem: read_model(path) for path in bench_models.write(Path(made), tiny_models.TINY)}
    return {name: read_model(folder / f"{name}.pt") for name in tiny_models.TINY if (folder / f"{name}.pt").exists()}


def main(words: list[str]) -> None:
    """The four side by side."""
    found = models(Path(words[0]) if words else None)
    with progress("networks", list(found)) as names:
        columns = [measure(found[name]) for name in names]
    rows = [[label, *map(cell, columns)] for label, cell in LINES.items()]
    print(markdown([["", *map(str.upper, found)], *rows]))


if __name__ == "__main__":
    main(sys.argv[1:])
