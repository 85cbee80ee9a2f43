"""A data file in chunks of rows, so that a table of any length takes little memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.train.csvfile import (
    INDEX,
    NO_ROWS,
    Cells,
    CsvFormat,
    decoding,
    delimiter_of,
    numbers,
    present,
    read_header,
    read_lines,
)

CELLS_AT_ONCE = 2**16
"""So many cells make a chunk: some 5 MB of text."""
LARGEST_VALUE = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ColumnPart:
    """A column in a chunk: which cells hold something, and their numbers (NaN where they don't) if all are numbers."""

    here: Any
    values: Floats | None
    text: Callable[[], Cells]

    def some(self, rows: Any) -> Cells:
        """The cells of some rows as text."""
        return [cell for cell, chosen in zip(self.text(), rows, strict=True) if chosen]

    def numbers(self, rows: Any, form: CsvFormat) -> Floats | None:
        """The cells of some rows as numbers, or None if one is not."""
        if self.values is None:
            return numbers(self.some(rows), form)
        chosen: Floats = self.values[rows]
        return chosen


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file, in its order; `share` of the file has been read with them."""

    columns: dict[str, ColumnPart]
    rows: int
    share: float
    notes: tuple[str, ...] = ()


Chunks = Callable[[], Iterator[Chunk]]
"""The whole file, as often as it is read."""


def rows_at_once(columns: int) -> int:
    """Rows of a chunk of so many columns."""
    return max(1, CELLS_AT_ONCE // columns)


def csv_chunks(path: Path, form: CsvFormat) -> Iterator[Chunk]:
    """The rows of a CSV; at least one chunk."""
    size = max(1, path.stat().st_size)
    with decoding(path, form.encoding), path.open("rb") as raw, io.TextIOWrapper(raw, form.encoding) as file:
        first = file.readline()
        reader = csv.reader(chain([first], file), delimiter=delimiter_of(first))
        header = read_header(reader, form)
        lines, count = read_lines(reader, len(header)), rows_at_once(len(header))
        notes = () if all(header) else (INDEX,)
        found = False
        while rows := list(islice(lines, count)):
            found = True
            columns = dict(zip(header, zip(*rows, strict=True), strict=True))
            columns.pop("", None)
            parts = {name: text_part(cells, form) for name, cells in columns.items()}
            yield Chunk(parts, len(rows), min(1.0, raw.tell() / size), notes)
    if not found:
        raise LbnnError(NO_ROWS)


def text_part(cells: Any, form: CsvFormat) -> ColumnPart:
    """Cells of text as a part of a column."""
    values = _all_numbers(cells, form)
    if values is not None:
        return ColumnPart(np.ones(len(cells), bool), values, lambda: list(cells))
    here = np.array([present(cell) for cell in cells], bool)
    kept = numbers([cell for cell, holds in zip(cells, here, strict=True) if holds], form)
    if kept is not None:
        values = np.full(len(cells), np.nan, np.float32)
        values[here] = kept
    return ColumnPart(here, values, lambda: list(cells))


def _all_numbers(cells: Any, form: CsvFormat) -> Floats | None:
    """What `numbers` gives, in a tenth of its time, for plain columns in which nothing is missing; else None."""
    together = "".join(cells)
    if form.decimal != "point" or "_" in together or not together.isascii():
        return None
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    return values.astype(np.float32) if (np.abs(values) <= LARGEST_VALUE).all() else None
