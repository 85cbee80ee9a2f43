"""Data files: a CSV with a header, a Parquet file, or an .npz with arrays x and y, read into numbers with names.

A column of numbers is one input; a column of text is a category, with one input (0 or 1) for each of its values. Rows
with a missing value are left out and counted, never filled in: a network that says how sure it is should not be sure of
numbers that nobody measured.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError, one_line
from lbnn.base.terminal import counted
from lbnn.train.csvfile import CsvFormat, present
from lbnn.train.csvtable import csv_table, observed_targets
from lbnn.train.labels import check_class_choice
from lbnn.train.npzfile import holds_text, read_arrays, read_texts
from lbnn.train.parquetfile import is_parquet
from lbnn.train.table import Choice, Column, Table

FEWEST_ROWS = 10


def read_table(
    path: Path,
    target: str | Sequence[str] | None,
    columns: Sequence[Column] = (),
    choice: Choice | None = None,
    classes: Sequence[str] = (),
) -> Table:
    """The data of a file, by its ending.

    `columns` and `classes` are those that a trained model takes and tells apart; else they follow from the `choice`.
    """
    choice = choice or Choice()
    choice = replace(choice, form=form_of(path, choice.form))
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    with naming(path):
        if is_npz(path):
            table = _npz_table(path, targets, choice, classes)
        else:
            table = csv_table(path, targets, columns, choice, classes)
        return _with_logarithms(table) if choice.log_target else table


def form_of(path: Path, form: CsvFormat) -> CsvFormat:
    """How numbers are written in a file: in Parquet always with a point."""
    return CsvFormat() if is_parquet(path) else form


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever is wrong with the file is one line with its name."""
    try:
        if not path.is_file():
            raise LbnnError("there is no such file")
        yield
    except (OSError, csv.Error, MemoryError) as error:
        raise LbnnError(f"{path} can't be read: {one_line(str(error)) or type(error).__name__}") from None
    except LbnnError as error:
        raise LbnnError(f"{path}: {one_line(str(error))}") from None


def is_npz(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() == ".npz"


def _with_logarithms(table: Table) -> Table:
    if (lowest := float(table.y.min())) <= 0.0:
        raise LbnnError(f"a logarithm needs targets above zero; the lowest is {lowest:g}")
    return replace(table, y=np.log(table.y), targets=tuple(f"log({name})" for name in table.targets))


def _npz_table(path: Path, targets: Sequence[str], choice: Choice, classes: Sequence[str]) -> Table:
    if choice.inputs or choice.drop or choice.aside:
        raise LbnnError("an .npz has no columns to choose from; leave out --inputs, --drop, --group and --time")
    if classes or choice.task == "classify" or (choice.task is None and holds_text(path, "y")):
        return _npz_classes(path, targets, choice, classes)
    x, y = (at_least_two_axes(part) for part in read_arrays(path, ("x", "y")))
    if x.ndim not in (2, 3, 4) or y.ndim != 2 or len(x) != len(y) or not x.size or not y.size:
        raise LbnnError(
            f"x {x.shape} must be [n, inputs], [n, channels, length] or [n, channels, height, width], "
            f"and y {y.shape} [n] or [n, outputs]"
        )
    good, notes = _good_rows(finite_rows(x) & finite_rows(y))
    names = tuple(targets) if len(targets) == y.shape[1] else tuple(f"y{i}" if i else "y" for i in range(y.shape[1]))
    return Table(x[good], y[good], (), names, notes)


def _npz_classes(path: Path, targets: Sequence[str], choice: Choice, classes: Sequence[str]) -> Table:
    """The same where y holds classes, as text or as numbers."""
    x, cells = at_least_two_axes(read_arrays(path, ("x",))[0]), read_texts(path, "y")
    if x.ndim not in (2, 3, 4) or len(x) != len(cells) or not x.size:
        raise LbnnError(
            f"x {x.shape} must be [n, inputs], [n, channels, length] or [n, channels, height, width], and y the class "
            f"of each row, got {len(cells)}"
        )
    good, notes = _good_rows(finite_rows(x) & np.array([present(cell) for cell in cells], bool))
    check_class_choice(targets, choice)
    name = targets[0] if targets else "y"
    kept = {name: [cell for cell, here in zip(cells, good, strict=True) if here]}
    y, found = observed_targets(kept, replace(choice, task="classify", form=CsvFormat()), classes)
    return Table(x[good], y, (), (name,), notes, classes=found)


def _good_rows(good: Any) -> tuple[Any, tuple[str, ...]]:
    """The same, and a note where some rows are not; there must be one that is."""
    if not good.any():
        raise LbnnError("every row of x and y holds a NaN or an infinity")
    return good, () if good.all() else (f"{counted(int((~good).sum()), 'row')} with missing values left out",)


def at_least_two_axes(part: Floats) -> Floats:
    """A column for what is a row of numbers."""
    return part[:, None] if part.ndim == 1 else part


def finite_rows(part: Floats) -> Any:
    """Which rows hold no NaN and no infinity."""
    return np.isfinite(part).all(axis=tuple(range(1, part.ndim)))
