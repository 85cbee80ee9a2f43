"""Data files: a CSV with a header, or an .npz with arrays x and y, read into numbers with names.

A column of numbers is one input; a column of text is a category, with one input (0 or 1) for each of its values. Rows
with a missing value are left out and counted, never filled in: a network that says how sure it is should not be sure of
numbers that nobody measured.
"""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError, one_line

Cells = list[str]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
FEWEST_ROWS = 10
MOST_LEVELS = 32
"""A text column with more different values is an identifier or free text, not a category."""
COARSE = 1e-4
"""A column whose spread is less than this share of its size loses digits that matter in float32."""


@dataclass(frozen=True)
class Column:
    """A column of a CSV as inputs of a model: itself, or an indicator for each of its `levels`."""

    name: str
    levels: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(f"{self.name}={level}" for level in self.levels) or (self.name,)


@dataclass(frozen=True)
class Table:
    """Rows of numbers: inputs x [n, *shape], targets y [n, outputs]; `columns` are those of a CSV."""

    x: Floats
    y: Floats
    columns: tuple[Column, ...]
    targets: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The name of each input, in order; none for arrays."""
        return tuple(name for column in self.columns for name in column.inputs)

    def rows(self, chosen: Any) -> Table:
        """Some of the rows."""
        return replace(self, x=self.x[chosen], y=self.y[chosen])

    def __len__(self) -> int:
        return len(self.x)


def read_table(path: Path, target: str | None, columns: Sequence[Column] = ()) -> Table:
    """The data of a file, by its ending. `columns` are those that a trained model takes; else all but the target."""
    try:
        if not path.is_file():
            raise LbnnError("there is no such file")
        table = _read_npz(path, target) if path.suffix.lower() == ".npz" else _read_csv(path, target, columns)
    except (OSError, UnicodeDecodeError, csv.Error, MemoryError) as error:
        raise LbnnError(f"{path} can't be read: {one_line(str(error)) or type(error).__name__}") from None
    except LbnnError as error:
        raise LbnnError(f"{path}: {one_line(str(error))}") from None
    return table


def describe(table: Table) -> str:
    """What was read, in a few lines."""
    shape = "x".join(map(str, table.x.shape[1:]))
    kinds = {1: f"{shape} inputs", 2: f"windows of {shape} (channels x length)", 3: f"images of {shape}"}
    names = f": {shortened(table.inputs)}" if table.columns else ""
    lines = [f"{len(table)} rows, {kinds[table.x.ndim - 1]}{names}"]
    lines += [
        f"category {short(column.name)}: {len(column.levels)} values, {shortened(column.levels)}"
        for column in table.columns
        if column.levels
    ]
    return "\n".join([*lines, *table.notes, f"target: {shortened(table.targets)}"])


def shortened(names: Sequence[str], most: int = 12) -> str:
    """A list for people; long ones end in how many there are."""
    shown = ", ".join(short(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} ... ({len(names)} in all)"


def short(name: str) -> str:
    """A name from a file as part of a line for people."""
    return one_line(name if len(name) <= 40 else f"{name[:37]}...")


# --- Arrays ---------------------------------------------------------------------------------------------------


def _read_npz(path: Path, target: str | None) -> Table:
    x, y = _arrays(path)
    x, y = (part[:, None] if part.ndim == 1 else part for part in (x, y))
    if x.ndim not in (2, 3, 4) or y.ndim != 2 or len(x) != len(y) or not x.size or not y.size:
        raise LbnnError(
            f"x {x.shape} must be [n, inputs], [n, channels, length] or [n, channels, height, width], "
            f"and y {y.shape} [n] or [n, outputs]"
        )
    good = np.isfinite(x).all(axis=tuple(range(1, x.ndim))) & np.isfinite(y).all(axis=1)
    if not good.any():
        raise LbnnError("every row of x and y holds a NaN or an infinity")
    notes = () if good.all() else (f"{int((~good).sum())} rows with missing values left out",)
    names = (target,) if target and y.shape[1] == 1 else tuple(f"y{i}" if i else "y" for i in range(y.shape[1]))
    return Table(x[good], y[good], (), names, notes)


def _arrays(path: Path) -> tuple[Floats, Floats]:
    try:
        with zipfile.ZipFile(path) as archive:
            x, y = (_array(archive, name) for name in ("x", "y"))
    except (LbnnError, OSError, MemoryError):
        raise
    except Exception as error:  # the readers of zip and of numpy's headers raise nearly anything on bad bytes
        reason = one_line(str(error))[:100]
        raise LbnnError(f"is no .npz file with numeric arrays x and y ({type(error).__name__}: {reason})") from None
    return x, y


def _array(archive: zipfile.ZipFile, name: str) -> Floats:
    """One array, and nothing allocated for it before its type and shape are known to fit what the archive holds."""
    with archive.open(_member(archive, f"{name}.npy")) as file:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = READ_HEADER[version](file)
        if dtype.kind not in "biuf" or not shape:
            raise LbnnError(f"{name} must be an array of real numbers, not {dtype} {shape}")
        data = file.read()
    if min(shape) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise LbnnError(f"{name} has the shape {shape} for {len(data)} bytes of {dtype}")
    with np.errstate(over="ignore"):  # what float32 can't hold becomes infinite, and its row is left out
        return np.asarray(np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C"), np.float32)


def _member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    found = [info for info in archive.infolist() if info.filename == name]
    if len(found) != 1:
        raise LbnnError("needs arrays named x and y; write it with numpy.savez(path, x=..., y=...)")
    if found[0].file_size > max(LARGEST_UNPACKED, MOST_UNPACKED * found[0].compress_size):
        raise LbnnError(f"{name} unpacks to {found[0].file_size} bytes; write it with numpy.savez, uncompressed")
    return found[0]


READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
"""Of each version of numpy's format; later ones differ only in the names of fields, which numbers do not have."""
LARGEST_UNPACKED, MOST_UNPACKED = 2**27, 20
"""A compressed array may have so many bytes, or so many times its own in the file; a megabyte can claim a gigabyte."""


# --- CSV ------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, target: str | None, wanted: Sequence[Column]) -> Table:
    cells = _csv_columns(path)
    if target is None:
        raise LbnnError(f"which column is to be predicted? add --target, one of {shortened(list(cells))}")
    names = [column.name for column in wanted] or _filled(cells, target)
    for name in (*names, target):
        if name not in cells:
            raise LbnnError(f"has no column {name!r:.60}; it has {shortened(list(cells))}")
    kept, notes = _complete_rows({name: cells[name] for name in (*names, target)})
    y = _numbers(kept.pop(target))
    if y is None:
        raise LbnnError(f"the target column {target!r:.60} must hold numbers, not {_first_text(cells[target])!r:.40}")
    columns = tuple(wanted) or _choose(kept)
    used = {target, *(column.name for column in columns)}
    notes += [f"column {short(name)}: {'does not vary' if name in kept else 'empty'}, left out" for name in cells
              if name not in used and not wanted]  # fmt: skip
    parts = [_encode(column, kept[column.name], notes) for column in columns]
    return Table(np.concatenate(parts, axis=1), y[:, None], columns, (target,), tuple(notes))


def _filled(cells: Mapping[str, Cells], target: str) -> list[str]:
    """The columns that could be inputs: those with a value anywhere."""
    return [name for name in cells if name != target and any(map(_present, cells[name]))]


def _csv_columns(path: Path) -> dict[str, Cells]:
    """Column name -> cells."""
    text = path.read_text(encoding="utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = [name.strip() for name in next(reader, [])]
    if len(header) < 2:
        raise LbnnError("needs a first line that names at least two columns, separated by commas")
    if len(set(header)) != len(header) or not all(header):
        raise LbnnError("every column needs a name of its own in the first line")
    rows = []
    for row in reader:
        if row and len(row) != len(header):
            raise LbnnError(f"line {reader.line_num} has {len(row)} cells where the first line has {len(header)}")
        if row:
            rows.append([cell.strip() for cell in row])
    if not rows:
        raise LbnnError("has no rows below its first line")
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def _present(cell: str) -> bool:
    return cell.lower() not in MISSING


def _complete_rows(columns: Mapping[str, Cells]) -> tuple[dict[str, Cells], list[str]]:
    """The rows with a value in every column, and a note for each column that lacks some."""
    present = {name: np.array([_present(cell) for cell in cells]) for name, cells in columns.items()}
    notes = [
        f"column {short(name)}: {int((~here).sum())} values missing" for name, here in present.items() if not here.all()
    ]
    whole = np.logical_and.reduce(list(present.values()))
    if not whole.any():
        raise LbnnError(f"no row has a value in every column; {shortened(notes, 4)}")
    if notes:
        notes.append(f"{int((~whole).sum())} of {len(whole)} rows left out for missing values")
    return {name: [cell for cell, here in zip(columns[name], whole, strict=True) if here] for name in columns}, notes


def _numbers(cells: Cells) -> Floats | None:
    """The cells as finite numbers, or None if one is not."""
    try:
        values = np.array([_number(cell) for cell in cells])
    except ValueError:
        return None
    return values.astype(np.float32) if (np.abs(values) <= np.finfo(np.float32).max).all() else None


def _number(cell: str) -> float:
    """Digits as files have them; Python would also read 2024_01 and the digits of other scripts."""
    if "_" in cell or not cell.isascii():
        raise ValueError(cell)
    return float(cell)


def _first_text(cells: Cells) -> str:
    """The first cell that is there and no number."""
    return next(cell for cell in cells if _present(cell) and _numbers([cell]) is None)


def _choose(kept: Mapping[str, Cells]) -> tuple[Column, ...]:
    """The columns that vary, as numbers where all cells are, else as categories."""
    columns = []
    for name, cells in kept.items():
        levels = tuple(sorted(set(cells)))
        if len(levels) < 2:
            continue
        if _numbers(cells) is not None:
            columns.append(Column(name))
        elif len(levels) <= MOST_LEVELS:
            columns.append(Column(name, levels))
        else:
            raise LbnnError(
                f"column {name!r:.60} has {len(levels)} different values that are not all numbers, such as "
                f"{_first_text(cells)!r:.40}; at most {MOST_LEVELS} make a category: mend or remove it"
            )
    if not columns:
        raise LbnnError("no column besides the target varies; there is nothing to predict from")
    return tuple(columns)


def _encode(column: Column, cells: Cells, notes: list[str]) -> Floats:
    """The inputs of one column, [n, inputs]; a category that the model does not know is 0 everywhere."""
    if column.levels:
        if unknown := sorted(set(cells) - set(column.levels)):
            notes.append(f"column {short(column.name)}: unknown to the model: {shortened(unknown, 4)}")
        return np.array([[cell == level for level in column.levels] for cell in cells], np.float32)
    numbers = _numbers(cells)
    if numbers is None:
        raise LbnnError(f"column {column.name!r:.60} must hold numbers, not {_first_text(cells)!r:.40}")
    if float(np.ptp(numbers)) < COARSE * float(np.abs(numbers).max()):
        notes.append(
            f"column {short(column.name)}: varies so little for its size that float32 blurs it; subtract an offset"
        )
    return numbers[:, None]
