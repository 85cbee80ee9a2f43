"""A CSV file as a table: which columns are inputs, what each becomes, and which rows are whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.train.csvfile import (
    Cells,
    CsvFormat,
    first_text,
    holds_dates,
    holds_decimals,
    numbers,
    present,
    read_cells,
    whole_rows,
)
from lbnn.train.labels import class_advice, class_names, class_numbers, holds_classes
from lbnn.train.listing import short, shortened
from lbnn.train.parquetfile import is_parquet, parquet_cells
from lbnn.train.table import Choice, Column, Table

MOST_LEVELS = 32
"""A text column with more different values is an identifier or free text, not a category."""
COARSE = 1e-4
"""A column whose spread is less than this share of its size loses digits that matter in float32."""


def csv_table(
    path: Path, targets: Sequence[str], wanted: Sequence[Column], choice: Choice, classes: Sequence[str] = ()
) -> Table:
    """The inputs and targets of the rows without a missing value; a trained model has its own columns and classes."""
    cells, notes = parquet_cells(path) if is_parquet(path) else read_cells(path, choice.form)
    if not targets:
        raise LbnnError(f"which column is to be predicted? add --target, one of {shortened(list(cells))}")
    names = [column.name for column in wanted] or candidates(cells, targets, choice)
    require_columns(cells, (*names, *targets, *choice.aside, *choice.drop))
    whole, lacking = whole_rows({name: cells[name] for name in (*names, *targets, *choice.aside)})
    notes += lacking
    kept = {name: _some(cells[name], whole) for name in (*names, *targets, *choice.aside)}
    y, classes = observed_targets({name: kept[name] for name in targets}, choice, classes)
    if not wanted and not classes and len(targets) == 1:
        notes += class_advice(targets[0], kept[targets[0]], len(y), choice)
    columns = tuple(wanted) or choose_columns({name: kept[name] for name in names}, choice)
    if not wanted:
        notes += left_out(cells, names, targets, columns, choice)
    parts = [encode(column, kept[column.name], choice.form, notes) for column in columns]
    table = Table(np.concatenate(parts, axis=1), y, columns, tuple(targets), tuple(notes), classes=tuple(classes))
    if not wanted:
        _check_targets(table)
        _check_copies(kept[targets[0]], {name: kept[name] for name in names})
    return _arranged(table, kept, choice)


def _some(cells: Cells, chosen: Any) -> Cells:
    return [cell for cell, here in zip(cells, chosen, strict=True) if here]


def require_columns(cells: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuses names that the file does not have."""
    for name in names:
        if name not in cells:
            raise LbnnError(f"has no column {name!r:.60}; it has {shortened(list(cells))}")


def candidates(cells: Mapping[str, Cells], targets: Sequence[str], choice: Choice) -> list[str]:
    """The columns that could be inputs: those asked for, or all with a value anywhere."""
    apart = {*targets, *choice.aside, *choice.drop}
    if double := [name for name in choice.inputs if name in apart]:
        raise LbnnError(f"column {double[0]!r:.60} is an input and something else too; choose one")
    return list(choice.inputs) or [name for name in cells if name not in apart and any(map(present, cells[name]))]


def observed_targets(
    cells: Mapping[str, Cells], choice: Choice, known: Sequence[str] = ()
) -> tuple[Floats, tuple[str, ...]]:
    """The targets [n, outputs] and no classes, or numbers of classes [n, 1] and their names.

    Those that are `known` are the only ones.
    """
    targets = list(cells)
    if not known and not holds_classes(targets, cells, choice):
        return np.stack([target_values(name, cells[name], choice.form) for name in targets], axis=1), ()
    names = tuple(known) or class_names(targets[0], cells[targets[0]], choice.form)
    y = class_numbers(cells[targets[0]], names, choice.form)
    if np.isnan(y).any():
        strange = cells[targets[0]][int(np.isnan(y).argmax())]
        raise LbnnError(f"the target {targets[0]!r:.60} holds {strange!r:.40}, which is none of {shortened(names)}")
    return y[:, None], names


def target_values(name: str, cells: Cells, form: CsvFormat) -> Floats:
    """The cells of a target, which must be numbers."""
    values = numbers(cells, form)
    if values is None:
        raise LbnnError(
            f"the target column {name!r:.60} must hold numbers, not {first_text(cells, form)}{_advice(cells)}"
        )
    return values


def _advice(cells: Cells) -> str:
    """What to do if the values are not meant to be numbers."""
    texts = any(not holds_decimals([cell]) and not holds_dates([cell]) for cell in cells)
    return "; if its values are classes, add --task classify" if texts else ""


def left_out(
    cells: Mapping[str, Cells], names: Sequence[str], targets: Sequence[str], columns: Sequence[Column], choice: Choice
) -> list[str]:
    """A note for each column that nobody asked to leave out."""
    used = {*targets, *choice.aside, *choice.drop, *(column.name for column in columns)}
    candidates = names if choice.inputs else cells
    return [
        f"column {short(name)}: {'does not vary' if name in names else 'empty'}, left out"
        for name in candidates
        if name not in used
    ]


def _check_targets(table: Table) -> None:
    """Refuses a target that is always the same, and one that stands among the inputs again."""
    for name, values in zip(table.targets, table.y.T, strict=True):
        if len(values) > 1 and (values == values[0]).all():
            raise constant_target(name, float(values[0]))
        for source, column in zip(table.inputs, table.x.T, strict=True):
            if len(values) > 1 and (values == column).all():
                raise target_again(source)


def _check_copies(target: Cells, inputs: Mapping[str, Cells]) -> None:
    """Refuses a target that stands among the inputs again as text, of which these become indicators."""
    for name, cells in inputs.items():
        if len(cells) > 1 and cells == target:
            raise target_again(name)


def constant_target(name: str, value: float) -> LbnnError:
    """A target that is always the same."""
    return LbnnError(f"the target {name!r:.60} is {value:g} in every row; there is nothing to learn")


def target_again(source: str) -> LbnnError:
    """A target among the inputs."""
    return LbnnError(f"the input {source!r:.60} equals the target; leave it out with --drop")


def _arranged(table: Table, kept: Mapping[str, Cells], choice: Choice) -> Table:
    """The table with its groups, and in the order of time."""
    if choice.group is not None:
        table = replace(table, groups=np.unique(kept[choice.group], return_inverse=True)[1])
    if choice.time is None:
        return table
    times = _times(choice.time, kept[choice.time], choice.form)
    return replace(table.rows(np.argsort(times, kind="stable")), ordered=True)


def _times(name: str, cells: Cells, form: CsvFormat) -> Any:
    """The cells as something that sorts by time: numbers, or dates as ISO 8601 writes them."""
    values = numbers(cells, form)
    if values is not None:
        return np.array([float(cell.replace(",", ".")) for cell in cells])  # float32 would blur seconds since 1970
    try:
        return np.array([datetime.fromisoformat(cell).timestamp() for cell in cells])
    except ValueError:
        wrong = next(cell for cell in cells if not _is_iso(cell))
        raise LbnnError(
            f"column {name!r:.60} must hold numbers or dates such as 2026-03-01 12:00, not {wrong!r:.40}"
        ) from None


def _is_iso(cell: str) -> bool:
    try:
        datetime.fromisoformat(cell)
    except ValueError:
        return False
    return True


def choose_columns(kept: Mapping[str, Cells], choice: Choice) -> tuple[Column, ...]:
    """The columns that vary, as numbers where all cells are, else as categories."""
    chosen = [_column(name, cells, choice.form) for name, cells in kept.items() if len(set(cells)) > 1]
    if not chosen:
        raise LbnnError("no column besides the target varies; there is nothing to predict from")
    return tuple(chosen)


def _column(name: str, cells: Cells, form: CsvFormat) -> Column:
    if numbers(cells, form) is not None:
        return Column(name)
    if holds_dates(cells):
        raise LbnnError(
            f"column {name!r:.60} holds dates, such as {cells[0]!r:.40}; put what matters of them into columns of "
            "numbers, such as hours since the start or the hour of the day, or name it in --drop or --time"
        )
    if holds_decimals(cells):
        raise LbnnError(f"column {name!r:.60} holds numbers, but also {first_text(cells, form)}")
    levels = tuple(sorted(set(cells)))
    if len(levels) > MOST_LEVELS:
        raise LbnnError(
            f"column {name!r:.60} has more than {MOST_LEVELS} different values that are not all numbers, such as "
            f"{first_text(cells, form)}, and is no category: mend it or name it in --drop"
        )
    return Column(name, levels)


def encode(column: Column, cells: Cells, form: CsvFormat, notes: list[str]) -> Floats:
    """The inputs of one column, [n, inputs]; a category that the model does not know is 0 everywhere."""
    if column.levels:
        if unknown := sorted(set(cells) - set(column.levels)):
            notes.append(unknown_note(column.name, unknown))
        return np.array([[cell == level for level in column.levels] for cell in cells], np.float32)
    values = numbers(cells, form)
    if values is None:
        raise LbnnError(f"column {column.name!r:.60} must hold numbers, not {first_text(cells, form)}")
    if len(values) > 1 and is_coarse(float(values.min()), float(values.max())):
        notes.append(coarse_note(column.name))
    return values[:, None]


def unknown_note(name: str, unknown: Sequence[str]) -> str:
    """What a model does not know."""
    return f"column {short(name)}: unknown to the model: {shortened(unknown, 4)}"


def is_coarse(low: float, high: float) -> bool:
    """Whether float32 blurs a column with these ends."""
    return high - low < COARSE * max(abs(low), abs(high))


def coarse_note(name: str) -> str:
    """What to do about it."""
    return f"column {short(name)}: varies so little for its size that float32 blurs it; subtract an offset"
