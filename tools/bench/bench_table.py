"""Prints what the benchmark models M1 to M5 cost beside others, as Markdown: other compilers, this host, Monte Carlo.

Rows of a peer that is not on the PATH are dashes. What they cost on a Cortex-M4F by our own kernels is the table of
`tools/tables/cost_table.py core`; `make bench` prints both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench_models import MODELS, write
from lbnn.base.terminal import progress, thousands
from lbnn.exporters.onnx.plain import plain_onnx
from lbnn.graph.passes import prepare
from lbnn.measure import peers
from lbnn.measure.bench import Bench, Measurement, choose_measured, measure_backends, sampled_cost
from lbnn.measure.counting import DEVICE_FLAGS
from lbnn.measure.peers import PEERS
from lbnn.measure.sampling import STANDARD_ERROR
from lbnn.measure.subject import TIMED_BATCH, ordinary_inputs
from lbnn.measure.timing import Time
from lbnn.model.file import read_model

CORE = "cortex-m4-gcc"


@dataclass(frozen=True)
class Column:
    """One model: its benchmark and the instructions of its plain network by emx-onnx-cgen."""

    bench: Bench
    emx_plain: int | None

    def row(self, backend: str) -> Measurement | None:
        """The row of a backend, if it was measured."""
        return next((row for row in self.bench.rows if row.backend == backend), None)


def measure(path: Path) -> Column:
    """All columns need, in one run."""
    wanted = ("torch", "onnx", "c", CORE, *PEERS)
    names = [name for name in choose_measured(None)[0] if name in wanted]
    found = measure_backends(path, names)
    if "emx-onnx-cgen" not in names:
        return Column(found, None)
    model = read_model(path)
    proto = plain_onnx(prepare(model.graph, input_variance=False))
    plain = peers.count_emx(proto, ordinary_inputs(model), DEVICE_FLAGS)
    return Column(found, plain.instructions)


def _emx(column: Column) -> str:
    row = column.row("emx-onnx-cgen")
    return thousands(row.cost.instructions) if row else "-"


def _against_onnx(backend: str, which: Callable[[Measurement], Time | None]) -> Callable[[Column], str]:
    """How many times faster than onnxruntime."""

    def cell(column: Column) -> str:
        row = column.row(backend)
        time = which(row) if row else None
        return f"{1.0 / time.ratio:.3g}" if time and time.ratio else "-"

    return cell


def _microseconds(column: Column) -> str:
    row = column.row("c")
    return f"{row.batch.microseconds:.3g}" if row and row.batch else "-"


def _passes(column: Column) -> str:
    return thousands(column.bench.sampling.passes) if column.bench.sampling else "-"


def _replaced(column: Column) -> str:
    sampling = column.bench.sampling
    return ("" if sampling.resolved else "over ") + thousands(sampling.same_accuracy) if sampling else "-"


def _price(column: Column) -> str:
    cost = sampled_cost(column.bench)
    return f"{cost:.0f}" if cost else "-"


LINES: dict[str, Callable[[Column], str]] = {
    "emx-onnx-cgen, mean and variance": _emx,
    "emx-onnx-cgen, plain network": lambda column: thousands(column.emx_plain),
    "**host, batch 1: times faster than onnxruntime**": _against_onnx("c", lambda row: row.one),
    "IREE": _against_onnx("iree", lambda row: row.one),
    "torch, eager": _against_onnx("torch", lambda row: row.one),
    f"**host, batch {TIMED_BATCH}: times faster than onnxruntime**": _against_onnx("c", lambda row: row.batch),
    "microseconds a prediction there": _microseconds,
    f"Monte Carlo passes for a variance to {STANDARD_ERROR:.0%}": _passes,
    "their instructions, times ours": _price,
    "Monte Carlo passes as accurate as one of ours": _replaced,
}


def table(columns: dict[str, Column]) -> str:
    """The models side by side."""
    heads = [f"{name.upper()}: {MODELS[name][0]}" for name in columns]
    lines = [["", *heads], ["---", *("---:" for _ in heads)]]
    lines += [[label, *map(cell, columns.values())] for label, cell in LINES.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measures every model, the small ones first in the table as in the list."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {path.stem: path for path in write(Path(folder))}
        with progress("models", list(paths)) as names:
            text = table({name: measure(paths[name]) for name in names})
    print(text)


if __name__ == "__main__":
    main()
