"""The second pass over a table that is too large for memory: rows of numbers in files, and what they are in sum."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.train.chunks import Chunk, ColumnPart
from lbnn.train.csvfile import CsvFormat, first_text
from lbnn.train.csvtable import target_again
from lbnn.train.labels import class_numbers
from lbnn.train.rowfile import RowFile
from lbnn.train.survey import Survey, whole_of
from lbnn.train.table import Choice, Column

ROLES = ("fit", "watched", "test")


@dataclass(frozen=True)
class Shares:
    """Which rows are for what: `test` are not fitted, `scored` are those of them that count, `watched` of the rest."""

    test: float
    scored: float
    watched: float = 0.0


@dataclass
class Sums:
    """Number, mean, summed squares of deviations, lowest and highest values of columns, gathered chunk by chunk."""

    count: int = 0
    mean: Any = 0.0
    squares: Any = 0.0
    low: Any = np.inf
    high: Any = -np.inf

    def add(self, values: Floats) -> None:
        """More rows, by the formula of Chan, Golub and LeVeque."""
        if not len(values):
            return
        mean = values.mean(axis=0, dtype=np.float64)
        squares = ((values - mean) ** 2).sum(axis=0)
        total, step = self.count + len(values), mean - self.mean
        self.squares = self.squares + squares + step**2 * (self.count * len(values) / total)
        self.mean = self.mean + step * (len(values) / total)
        self.low, self.high = np.minimum(self.low, values.min(axis=0)), np.maximum(self.high, values.max(axis=0))
        self.count = total

    @property
    def deviation(self) -> Any:
        """The standard deviation."""
        return np.sqrt(self.squares / self.count)


@dataclass
class Packed:
    """The files of rows by their role, and the sums of fitted rows and of all."""

    files: dict[str, RowFile]
    fitted: Sums = field(default_factory=Sums)
    every: Sums = field(default_factory=Sums)
    of_class: Any = 0  # rows of each class

    def count_classes(self, labels: Floats, classes: int) -> None:
        """More rows with these numbers of classes."""
        if classes:
            self.of_class = self.of_class + np.bincount(labels.astype(np.int64), minlength=classes)

    def move(self, folder: Path) -> None:
        """The files are in another folder, where another process has written them."""
        self.files = {role: replace(file, path=folder / role) for role, file in self.files.items()}


def pack_rows(
    chunks: Iterator[Chunk],
    found: Survey,
    targets: Sequence[str],
    choice: Choice,
    shares: Shares,
    seed: int,
    folder: Path | None,
) -> Packed:
    """Writes the whole rows into files of the folder; without one it only adds up."""
    inputs = sum(len(column.inputs) for column in found.columns)
    packed, counts = Packed({}), dict.fromkeys(ROLES, 0)
    same, copies = np.ones((inputs, len(targets)), bool), _categories(found)
    _require_room(folder, 4 * found.whole * (inputs + len(targets)))
    places = {role: Path(os.devnull) if folder is None else folder / role for role in ROLES}
    with ExitStack() as stack, _room(folder):
        files = {role: stack.enter_context(place.open("wb")) for role, place in places.items()}
        for first, chunk in _numbered(chunks):
            whole = whole_of(chunk, found.required)
            values = _values(chunk, found, targets, whole, choice)
            same &= (values[:, :inputs, None] == values[:, None, inputs:]).all(axis=0)
            copies = [name for name in copies if _same_text(chunk, whole, name, targets[0])]
            packed.every.add(values)
            packed.count_classes(values[:, inputs], len(found.classes))
            for role, rows in _parts(chunk, whole, first, choice.group, shares, seed).items():
                files[role].write(values[rows].tobytes())
                counts[role] += int(rows.sum())
                packed.fitted.add(values[rows] if role == "fit" else values[:0])
    if copies:
        raise target_again(copies[0])
    if same.any() and found.whole > 1:
        raise target_again([name for c in found.columns for name in c.inputs][int(np.argwhere(same)[0][0])])
    kinds = inputs, len(targets), bool(found.classes)
    packed.files = {role: RowFile(place, counts[role], *kinds) for role, place in places.items()}
    return packed


def _categories(found: Survey) -> list[str]:
    """The inputs that might be the classes again."""
    return [column.name for column in found.columns if column.levels] if found.classes else []


def _same_text(chunk: Chunk, whole: Any, one: str, other: str) -> bool:
    return chunk.columns[one].some(whole) == chunk.columns[other].some(whole)


def _numbered(chunks: Iterator[Chunk]) -> Iterator[tuple[int, Chunk]]:
    """Each chunk with the number of its first row."""
    first = 0
    for chunk in chunks:
        yield first, chunk
        first += chunk.rows


def _values(chunk: Chunk, found: Survey, targets: Sequence[str], whole: Any, choice: Choice) -> Floats:
    """Inputs and targets of the whole rows, [n, inputs + outputs]."""
    x = [inputs_of(column, chunk.columns[column.name], whole, choice.form) for column in found.columns]
    if found.classes:
        cells = chunk.columns[targets[0]].some(whole)
        return np.concatenate([*x, class_numbers(cells, found.classes, choice.form)[:, None]], axis=1)
    y = [inputs_of(Column(name), chunk.columns[name], whole, choice.form) for name in targets]
    return np.concatenate([*x, *(map(np.log, y) if choice.log_target else y)], axis=1)


def inputs_of(column: Column, part: ColumnPart, rows: Any, form: CsvFormat) -> Floats:
    """The inputs that some rows of a column become; a category that is not known is 0 everywhere."""
    if column.levels:
        places = {level: place for place, level in enumerate(column.levels)}
        indicators: Floats = np.eye(len(places) + 1, len(places), dtype=np.float32)
        return np.asarray(indicators[[places.get(cell, -1) for cell in part.some(rows)]], np.float32)
    values = part.numbers(rows, form)
    if values is None:
        raise LbnnError(f"column {column.name!r:.60} must hold numbers, not {first_text(part.some(rows), form)}")
    return values[:, None]


def _parts(chunk: Chunk, whole: Any, first: int, group: str | None, shares: Shares, seed: int) -> dict[str, Any]:
    """Which of the whole rows belong to each role: by chance, but always the same for a row or a group."""
    if group is None:
        chance = chances(np.flatnonzero(whole).astype(np.uint64) + np.uint64(first), seed)
    else:
        chance = _group_chances(chunk.columns[group].some(whole), seed)
    watched = (chance >= shares.test) & (chance < shares.test + shares.watched * (1.0 - shares.test))
    return {
        "fit": (chance >= shares.test) & ~watched,
        "watched": watched,
        "test": chance < shares.scored,
    }


def chances(numbers: Any, seed: int) -> Any:
    """A number in [0, 1) for each row number, as good as drawn (the mixer of splitmix64)."""
    with np.errstate(over="ignore"):
        z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed) * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _group_chances(cells: Sequence[str], seed: int) -> Any:
    names, where = np.unique(cells, return_inverse=True)
    drawn = [blake2b(f"{seed} {name}".encode(errors="replace"), digest_size=8).digest() for name in names]
    return np.array([int.from_bytes(d, "big") * 2.0**-64 for d in drawn])[where]


def _require_room(folder: Path | None, size: int) -> None:
    if folder is not None and size > (free := shutil.disk_usage(folder).free):
        raise LbnnError(
            f"{megabytes(size)} are needed in {folder.parent} while it trains and {megabytes(free)} are free; "
            "make room, or write the model to another disk with -o"
        )


@contextmanager
def _room(folder: Path | None) -> Iterator[None]:
    """A disk that is full is one line with the place."""
    try:
        yield
    except OSError as error:
        place = os.devnull if folder is None else folder.parent
        raise LbnnError(
            f"can't write the rows to {place}: {error.strerror or error}; write the model to another disk with -o"
        ) from None


def megabytes(size: int) -> str:
    """For people."""
    return f"{size / 1e6:,.0f} MB"
