"""Rows that a model is to predict, chunk by chunk: a file of any length takes little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.terminal import counted
from lbnn.train.chunks import Chunk, ColumnPart, csv_chunks
from lbnn.train.csvfile import CsvFormat, numbers
from lbnn.train.csvtable import coarse_note, is_coarse, require_columns, unknown_note
from lbnn.train.datafile import at_least_two_axes, finite_rows, form_of, is_npz, naming
from lbnn.train.labels import class_numbers
from lbnn.train.listing import missing_notes, shortened
from lbnn.train.npzfile import read_arrays
from lbnn.train.packing import inputs_of
from lbnn.train.parquetfile import is_parquet, parquet_chunks
from lbnn.train.survey import whole_of
from lbnn.train.table import Column, NewRows

MOST_UNKNOWN = 100
"""So many unknown values of a category are remembered for the notes."""


@dataclass
class _Seen:
    """What the chunks have shown of a column of inputs."""

    missing: int = 0
    unknown: set[str] = field(default_factory=set)
    low: float = np.inf
    high: float = -np.inf


@dataclass
class RowReader:
    """The rows of a file for a model with these columns; without any, the file's own but the targets.

    Of `classes` the number is what was observed.

    `notes` are complete when all rows have been read.
    """

    path: Path
    columns: Sequence[Column]
    targets: Sequence[str]
    form: CsvFormat
    classes: Sequence[str] = ()
    rows: int = 0
    whole: int = 0
    share: float = 0.0
    first_notes: tuple[str, ...] = ()
    seen: dict[str, _Seen] = field(default_factory=dict)

    def __iter__(self) -> Iterator[NewRows]:
        with naming(self.path):
            yield from self._arrays() if is_npz(self.path) else self._chunks()
            if not self.whole and not is_npz(self.path):
                raise LbnnError(f"no row has a value in every column; {shortened(self._lacking(), 4)}")

    def _arrays(self) -> Iterator[NewRows]:
        x = at_least_two_axes(read_arrays(self.path, ("x",))[0])
        good = finite_rows(x)
        self.rows, self.whole, self.share = len(good), int(good.sum()), 1.0
        self.first_notes = (
            () if good.all() else (f"{counted(self.rows - self.whole, 'row')} with missing values left out",)
        )
        yield NewRows(x[good], good, None)

    def _chunks(self) -> Iterator[NewRows]:
        form = form_of(self.path, self.form)
        for chunk in parquet_chunks(self.path) if is_parquet(self.path) else csv_chunks(self.path, form):
            if not self.rows:
                self._begin(chunk)
            whole = whole_of(chunk, self.seen)
            self.rows, self.whole, self.share = self.rows + chunk.rows, self.whole + int(whole.sum()), chunk.share
            x = [self._inputs(column, chunk.columns[column.name], whole, form) for column in self.columns]
            known = bool(self.targets) and all(name in chunk.columns for name in self.targets)
            y = [self._seen(chunk.columns[name], whole, form) for name in self.targets] if known else []
            yield NewRows(np.concatenate(x, axis=1), whole, np.stack(y, axis=1) if known else None)

    def _seen(self, part: ColumnPart, whole: Any, form: CsvFormat) -> Floats:
        if self.classes:
            return class_numbers(part.some(whole), self.classes, form)
        return _observed(part, whole, form)

    def _begin(self, chunk: Chunk) -> None:
        self.first_notes = chunk.notes
        self.columns = self.columns or [Column(name) for name in chunk.columns if name not in self.targets]
        require_columns(chunk.columns, [column.name for column in self.columns])
        self.seen = {column.name: _Seen() for column in self.columns}

    def _inputs(self, column: Column, part: ColumnPart, whole: Any, form: CsvFormat) -> Floats:
        seen = self.seen[column.name]
        seen.missing += int((~part.here).sum())
        values = inputs_of(column, part, whole, form)
        if column.levels and len(seen.unknown) < MOST_UNKNOWN:
            seen.unknown |= {*part.some(whole)} - {*column.levels}
        elif len(values):
            seen.low, seen.high = min(seen.low, float(values.min())), max(seen.high, float(values.max()))
        return values

    def _lacking(self) -> list[str]:
        return missing_notes({name: it.missing for name, it in self.seen.items()})

    @property
    def notes(self) -> list[str]:
        """What is to be told of the rows."""
        lacking = self._lacking()
        if lacking:
            lacking.append(f"{self.rows - self.whole} of {counted(self.rows, 'row')} left out for missing values")
        unknown = [unknown_note(name, sorted(it.unknown)) for name, it in self.seen.items() if it.unknown]
        plain = [column.name for column in self.columns if not column.levels and self.whole > 1]
        coarse = [coarse_note(name) for name in plain if is_coarse(self.seen[name].low, self.seen[name].high)]
        return [*self.first_notes, *lacking, *unknown, *coarse]


def _observed(part: ColumnPart, rows: Any, form: CsvFormat) -> Floats:
    """What was observed, NaN where nothing was."""
    found = part.numbers(rows, form) if part.values is not None else None
    if found is not None:
        return found
    values = [numbers([cell], form) for cell in part.some(rows)]
    return np.array([np.nan if value is None else value[0] for value in values], np.float32)
