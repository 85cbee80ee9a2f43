"""Prints stack and work memory of models in bytes: stated at export, by the compiler's call graph, and as measured.

    python tools/tables/stack_table.py [cortex-m4-gcc]

The models are those of tests/device/test_stack.py and of tools/bench/bench_models.py, on a Cortex-M4F or
another core, compiled by gcc with `-O2`, or with `-Os` where they are exported for size. "painted" is the
stack that a run has written to, "work used" the work memory up to the last byte that it has written to.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from lbnn.base.terminal import print_table, progress
from lbnn.exporters.c import COptions, export_c
from lbnn.model.file import read_model

COLUMNS = ("model", "options", "stack stated", "call graph", "painted", "work stated", "work used")
BENCH = ("m1", "m2", "m4")
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"input_variance": True}, {"optimize": "size"})

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/support", "tests/device", "tools/bench")]
bench = importlib.import_module("bench_models")
stack = importlib.import_module("test_stack")


def main() -> None:
    """A row for each model and choice of options."""
    models = dict(stack.MODELS)
    models |= {name: lambda name=name: (bench.build(name), bench.MODELS[name][1]) for name in BENCH}
    cases = {f"{name} {options}": (name, options) for name in models for options in OPTIONS}
    cases["mlp binary"] = ("mlp", {"weights": "binary"})
    device = sys.argv[1] if len(sys.argv) > 1 else "cortex-m4-gcc"
    with progress("stack", list(cases)) as names:
        rows = [row(device, *cases[name], models) for name in names]
    print_table(COLUMNS, rows)


def row(device: str, name: str, options: dict[str, Any], models: dict[str, Any]) -> list[str]:
    """Exports a model, compiles it and runs it on painted memory."""
    with tempfile.TemporaryDirectory() as folder:
        out = export_c(read_model(*models[name]()), Path(folder) / "c", COptions(name="net", **options))
        exported = (out, options)
        found = stack.painted(device, exported, "-Os" if options.get("optimize") == "size" else "-O2")
        stated = [stack.stated(exported, key) for key in ("stack_bytes", "work_bytes")]
    text = ", ".join(key if value is True else f"{key} {value}" for key, value in options.items()).replace("_", " ")
    numbers = (stated[0], found.stack_bound.bytes, found.stack_bytes, stated[1], found.work_used)
    return [name, text or "-", *map(str, numbers)]


if __name__ == "__main__":
    main()
