"""The cells of a CSV file, and what they hold: numbers, dates, text or nothing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.terminal import counted
from lbnn.train.listing import missing_notes, shortened

Cells = list[str]
Columns = dict[str, Cells]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
DECIMALS = ("point", "comma")
DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?[./]\d\d?[./]\d{2,4}( .*)?|\d{4}/\d\d?/\d\d?( .*)?|\d\d?:\d\d(:\d\d.*)?"
)
"""2026-03-01, 2026-03-01T12:00, 1.3.2026, 3/1/26, 12:30, as people and programs write them."""


NO_ROWS = "has no rows below its first line"
INDEX = "the first column has no name: left out as an index"
BINARY_FILES = {
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF87a": "a picture",
    b"GIF89a": "a picture",
    b"\x08": "an ONNX file",  # the number of the field that comes first there
    b"%PDF-": "a PDF document",
    b"\x7fELF": "a program",
    b"\0asm": "a program",
    b"\x1f\x8b": "a compressed file",
    b"BZh91AY": "a compressed file",
    b"\xfd7zXZ": "a compressed file",
    b"\x28\xb5\x2f\xfd": "a compressed file",
    b"\x93NUMPY": "one array of numpy",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "a database",
    b"\xd0\xcf\x11\xe0": "a spreadsheet of old",
}
"""What files begin with that hold no rows of text."""
DECIMAL_NUMBER = re.compile(r"[-+]?[0-9]+([.,][0-9]+)?([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class CsvFormat:
    """How the file is written: its decimal sign, and the encoding of its text."""

    decimal: str = "point"
    encoding: str = "utf-8-sig"

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS:
            raise LbnnError(f"decimal is {' or '.join(DECIMALS)}, not {self.decimal!r:.40}")


def read_cells(path: Path, form: CsvFormat) -> tuple[Columns, list[str]]:
    """Column name -> cells, and notes; a first column without a name is the index of a table and is left out."""
    with decoding(path, form.encoding):
        text = path.read_text(encoding=form.encoding)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(text.partition("\n")[0]))
    header = read_header(reader, form)
    rows = list(read_lines(reader, len(header)))
    if not rows:
        raise LbnnError(NO_ROWS)
    columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    return columns, [INDEX] if columns.pop("", None) else []


def delimiter_of(line: str) -> str:
    """What stands between the cells of a file with this first line."""
    return max(",;\t", key=line.count)


@contextmanager
def decoding(path: Path, encoding: str) -> Iterator[None]:
    """Bytes that are no text in this encoding are one line of advice."""
    refuse_archives(path)
    try:
        yield
    except UnicodeDecodeError as error:
        name = "UTF-8" if encoding.startswith("utf-8") else encoding
        raise LbnnError(
            f"is not text in {name} ({error.reason}); name its encoding, as in --encoding latin-1"
        ) from None
    except LookupError:
        raise LbnnError(f"there is no encoding {encoding!r:.40}; try latin-1 or cp1252") from None


def refuse_archives(path: Path) -> None:
    """A file that is no text in any encoding, and says at its beginning what it is."""
    with path.open("rb") as file:
        start = file.read(300)
    kinds = [kind for mark, kind in BINARY_FILES.items() if start.startswith(mark)]
    if kinds:
        raise LbnnError(f"is {kinds[0]}, not a table; give a CSV, a Parquet file or an .npz")
    if start.startswith(b"PK\x03\x04"):
        kind = "a model file" if b"data.pkl" in start else "a zip archive, as spreadsheets are"
        raise LbnnError(f"is {kind}, not a table; give a CSV, a Parquet file or an .npz")


def read_header(reader: Iterator[list[str]], form: CsvFormat) -> list[str]:
    """The names of the columns; the first may be empty."""
    header = [name.strip() for name in next(reader, [])]
    if len(header) < 2:
        raise LbnnError("needs a first line that names at least two columns, separated by commas")
    if len(set(header)) != len(header) or not all(header[1:]):
        raise LbnnError("every column needs a name of its own in the first line")
    if numbers([name for name in header if name], form) is not None:
        raise LbnnError("its first line holds numbers; put a line with the names of the columns above it")
    return header


def read_lines(reader: Any, width: int) -> Iterator[Cells]:
    """The rows below the header; empty lines are none."""
    for row in reader:
        if row and len(row) != width:
            raise LbnnError(f"line {reader.line_num} has {counted(len(row), 'cell')} where the first line has {width}")
        if row:
            yield [cell.strip() for cell in row]


def present(cell: str) -> bool:
    """Whether the cell holds something."""
    return cell.lower() not in MISSING


def whole_rows(columns: Mapping[str, Cells]) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], list[str]]:
    """Which rows have a value in every column, and a note for each column that lacks some."""
    here = {name: np.array([present(cell) for cell in cells], bool) for name, cells in columns.items()}
    notes = missing_notes({name: int((~has).sum()) for name, has in here.items()})
    whole = np.logical_and.reduce(list(here.values()))
    if not whole.any():
        raise LbnnError(f"no row has a value in every column; {shortened(notes, 4)}")
    if notes:
        notes.append(f"{int((~whole).sum())} of {counted(len(whole), 'row')} left out for missing values")
    return whole, notes


def numbers(cells: Cells, form: CsvFormat) -> Floats | None:
    """The cells as finite numbers, or None if one is not."""
    try:
        values = np.array([as_number(cell, form) for cell in cells])
    except ValueError:
        return None
    return values.astype(np.float32) if (np.abs(values) <= np.finfo(np.float32).max).all() else None


def as_number(cell: str, form: CsvFormat) -> float:
    """The number in a cell, a ValueError if there is none.

    Digits as files have them; Python would also read 2024_01 and the digits of other scripts.
    """
    if "_" in cell or not cell.isascii():
        raise ValueError(cell)
    if form.decimal == "comma":
        if "." in cell:
            raise ValueError(cell)
        cell = cell.replace(",", ".")
    return float(cell)


def first_text(cells: Cells, form: CsvFormat) -> str:
    """The first cell that is there and no number, as part of a message; with advice where its decimal sign is why."""
    cell = next(cell for cell in cells if present(cell) and numbers([cell], form) is None)
    other = "point" if form.decimal == "comma" else "comma"
    advice = f"; is that a decimal {other}? add --decimal {other}" if holds_decimals([cell]) else ""
    return f"{cell!r:.40}{advice}"


def holds_decimals(cells: Cells) -> bool:
    """Whether every cell is a number with one or the other decimal sign."""
    return all(DECIMAL_NUMBER.fullmatch(cell) for cell in cells)


def holds_dates(cells: Cells) -> bool:
    """Whether every cell is a date or a time of day."""
    return all(DATE.fullmatch(cell) for cell in cells)
