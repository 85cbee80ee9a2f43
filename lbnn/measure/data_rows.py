"""Rows of a data file through any backend, and back into a CSV of as many rows."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.measure.backends import find_runner
from lbnn.measure.parity import Outcome
from lbnn.measure.samples import Samples
from lbnn.model.file import Model
from lbnn.model.inputs import trained_range
from lbnn.train.table import NewRows

ROWS_IN_A_STEP = 4096


def check_row_shape(data: Path, model: Model, rows: NewRows) -> None:
    """Refuses rows that the model does not take."""
    shape = model.graph.input.shape
    if rows.x.shape[1:] != shape:
        raise LbnnError(f"{data} has inputs of shape {rows.x.shape[1:]} a row; {model.name} takes {shape}")


def run_parts(model: Model, x: Floats, backend: str, dtype: str, show: Callable[[float], None]) -> list[Outcome]:
    """What a backend gives for rows, in parts; tells which share of them is done."""
    count = len(x) if backend not in ("torch", "onnx") else ROWS_IN_A_STEP  # a device is compiled for at every call
    run, outcomes = find_runner(backend, dtype=dtype), []
    for start in range(0, len(x), max(1, count)):
        part = x[start : start + count]
        outcomes.append(run(model, Samples(part, None, ("row",) * len(part))))
        show(min(1.0, (start + count) / len(x)))
    return outcomes


def outside_range(model: Model, x: Floats) -> Any | None:
    """How many inputs of each row lie outside of what the model was trained on."""
    given = trained_range(model.metadata, model.graph.input.shape[0])
    if given is None:
        return None
    low, high = given
    flat = x.reshape(len(x), len(low), math.prod(x.shape[2:]))  # there may be no row to tell the last axis
    return ((flat < low[:, None]) | (flat > high[:, None])).sum(axis=(1, 2))


def csv_rows(columns: Mapping[str, Sequence[str]], whole: Any, header: bool) -> str:
    """Lines of a CSV, one for each row of the data; empty cells where a row is not whole."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if header:
        writer.writerow(columns)
    cells = iter(zip(*columns.values(), strict=True))
    empty = [""] * len(columns)
    writer.writerows(next(cells) if here else empty for here in whole)
    return buffer.getvalue()


def number_cell(value: float) -> str:
    """Enough digits for every float32; nothing where the backend gave no number."""
    return f"{value:.9g}" if math.isfinite(value) else ""
