"""The first pass over a table that is too large for memory: which columns there are, what they hold, what is missing.

A few cells of each column say what all of them would: its different values up to one more than a category may have,
and the first one that is no number. What is made of a column then follows from these as from a small table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lbnn.base.errors import LbnnError
from lbnn.base.terminal import counted
from lbnn.train.chunks import Chunk, Chunks, ColumnPart
from lbnn.train.csvfile import Cells, CsvFormat, numbers
from lbnn.train.csvtable import (
    MOST_LEVELS,
    candidates,
    choose_columns,
    coarse_note,
    constant_target,
    is_coarse,
    left_out,
    require_columns,
    target_values,
)
from lbnn.train.labels import MOST_CLASSES, class_advice, class_names, holds_classes
from lbnn.train.listing import missing_notes, shortened
from lbnn.train.table import Choice, Column


@dataclass
class Seen:
    """What the whole rows have shown of a column so far."""

    most: int = MOST_LEVELS  # different values that are of interest
    missing: int = 0  # in all rows
    levels: set[str] = field(default_factory=set)
    text: str | None = None
    low: float = np.inf
    high: float = -np.inf

    def see(self, part: ColumnPart, rows: Any, form: CsvFormat) -> None:
        """Looks at the cells of some rows."""
        values = part.numbers(rows, form)
        if values is None or len(self.levels) <= self.most:
            self._see_text(part.some(rows), values is not None, form)
        if values is not None and len(values):
            self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))

    def _see_text(self, cells: Cells, numeric: bool, form: CsvFormat) -> None:
        """Keeps the first cell that is no number, and some of the different ones."""
        if len(self.levels) <= self.most:
            self.levels = set(sorted({*self.levels, *cells})[: self.most + 1])
        if not numeric and self.text is None:
            self.text = next(cell for cell in cells if numbers([cell], form) is None)

    @property
    def cells(self) -> Cells:
        """A few that say what all would."""
        return sorted(self.levels | ({self.text} if self.text is not None else set()))


@dataclass(frozen=True)
class Survey:
    """What a table is: its columns, those in which a row needs a value, notes, its rows and how many are whole."""

    columns: tuple[Column, ...]
    required: tuple[str, ...]
    notes: tuple[str, ...]
    rows: int
    whole: int
    lowest: float  # of all targets
    classes: tuple[str, ...] = ()


def survey(chunks: Chunks, targets: Sequence[str], choice: Choice) -> Survey:
    """Reads the file once; again where a column that seemed to be empty is not."""
    first = next(chunks())
    if not targets:
        raise LbnnError(f"which column is to be predicted? add --target, one of {shortened(list(first.columns))}")
    empty = {name for name, part in first.columns.items() if not part.here.any()}
    while True:
        cells = {name: [""] if name in empty else ["1"] for name in first.columns}
        names = candidates(cells, targets, choice)
        require_columns(cells, (*names, *targets, *choice.aside, *choice.drop))
        seen = {name: Seen() for name in (*names, *targets, *choice.aside)}
        seen |= {name: Seen(MOST_CLASSES) for name in targets}
        rows, whole, awake = _look(chunks(), seen, empty - {*seen, *choice.drop}, choice.form)
        if not awake:
            break
        empty -= awake
    lacking = missing_notes({name: it.missing for name, it in seen.items()})
    if not whole:
        raise LbnnError(f"no row has a value in every column; {shortened(lacking, 4)}")
    if lacking:
        lacking.append(f"{rows - whole} of {counted(rows, 'row')} left out for missing values")
    classes = _classes(seen, targets, choice)
    if not classes:
        _check_targets(seen, targets, whole, choice.form)
    if not classes and len(targets) == 1:
        lacking += class_advice(targets[0], seen[targets[0]].cells, whole, choice)
    columns = choose_columns({name: seen[name].cells for name in names}, choice)
    notes = [*first.notes, *lacking, *left_out(cells, names, targets, columns, choice), *_coarse(columns, seen)]
    return Survey(columns, tuple(seen), tuple(notes), rows, whole, _lowest(seen, targets), classes)


def _lowest(seen: Mapping[str, Seen], targets: Sequence[str]) -> float:
    return min(seen[name].low for name in targets)


def _classes(seen: Mapping[str, Seen], targets: Sequence[str], choice: Choice) -> tuple[str, ...]:
    """The names of the classes, if the target holds some."""
    cells = {name: seen[name].cells for name in targets}
    return class_names(targets[0], cells[targets[0]], choice.form) if holds_classes(targets, cells, choice) else ()


def _look(
    chunks: Iterator[Chunk], seen: Mapping[str, Seen], empty: set[str], form: CsvFormat
) -> tuple[int, int, set[str]]:
    """The number of rows, that of whole rows, and columns that are not as empty as they seemed: then it ends early."""
    rows = whole = 0
    for chunk in chunks:
        if awake := {name for name in empty if chunk.columns[name].here.any()}:
            return rows, whole, awake
        kept = whole_of(chunk, seen)
        rows, whole = rows + chunk.rows, whole + int(kept.sum())
        for name, column in seen.items():
            column.missing += int((~chunk.columns[name].here).sum())
            column.see(chunk.columns[name], kept, form)
    return rows, whole, set()


def whole_of(chunk: Chunk, names: Iterable[str]) -> Any:
    """Which rows of a chunk have a value in each of these columns."""
    return np.logical_and.reduce([chunk.columns[name].here for name in names])


def _check_targets(seen: Mapping[str, Seen], targets: Sequence[str], rows: int, form: CsvFormat) -> None:
    for name in targets:
        target_values(name, seen[name].cells, form)
        if rows > 1 and seen[name].low == seen[name].high:
            raise constant_target(name, seen[name].low)


def _coarse(columns: Sequence[Column], seen: Mapping[str, Seen]) -> list[str]:
    plain = [column.name for column in columns if not column.levels]
    return [coarse_note(name) for name in plain if is_coarse(seen[name].low, seen[name].high)]
