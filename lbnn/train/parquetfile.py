"""Columns of a Parquet file, as a CSV would have them: numbers, text, or nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.errors import LbnnError, one_line
from lbnn.train.chunks import LARGEST_VALUE, Chunk, ColumnPart, rows_at_once, text_part
from lbnn.train.csvfile import Columns, CsvFormat

INDEX_NAME = "__index_level_0__"
"""What pandas calls an index without a name."""
NO_PYARROW = "Parquet needs pyarrow; pip install 'lbnn[parquet]', or write the table as CSV"
BYTES_OF_A_CELL = 10
"""As a CSV would have them."""


def is_parquet(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() in (".parquet", ".pq")


def parquet_cells(path: Path) -> tuple[Columns, list[str]]:
    """Column name -> cells, and notes."""
    chunks = list(parquet_chunks(path))
    columns = {name: [cell for chunk in chunks for cell in chunk.columns[name].text()] for name in chunks[0].columns}
    return columns, list(chunks[0].notes)


def parquet_size(path: Path) -> int:
    """About as many bytes as the same table has as CSV."""
    with _opened(path) as file:
        return int(file.metadata.num_rows) * len(file.schema_arrow.names) * BYTES_OF_A_CELL


def parquet_chunks(path: Path) -> Iterator[Chunk]:
    """The rows of the file; at least one chunk."""
    with _opened(path) as file:
        names, total = file.schema_arrow.names, file.metadata.num_rows
        _check_names(names)
        if not total:
            raise LbnnError("has no rows")
        wanted = [name for name in names if name != INDEX_NAME]
        notes = () if len(wanted) == len(names) else ("the first column is an index without a name: left out",)
        done = 0
        for batch in _batches(file, rows_at_once(len(names)), wanted):
            done += batch.num_rows
            parts = {name: _part(name, batch.column(name)) for name in wanted}
            yield Chunk(parts, batch.num_rows, done / total, notes)


def _batches(file: Any, rows: int, columns: list[str]) -> Iterator[Any]:
    """As many rows at a time as of a CSV, whatever the row groups: those computed together share their last bits."""
    from pyarrow import Table, concat_tables

    parts, held = [], 0
    for part in _stored(file, rows, columns):
        parts.append(Table.from_batches([part]))
        held += part.num_rows
        if held >= rows:
            table = concat_tables(parts)
            yield table.slice(0, rows)
            parts, held = [table.slice(rows)], held - rows
    if held:
        yield concat_tables(parts)


def _stored(file: Any, rows: int, columns: list[str]) -> Iterator[Any]:
    """Row group by row group: a single walk over all of them would keep what it has read."""
    for group in range(file.num_row_groups):
        yield from file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise LbnnError(NO_PYARROW) from None
    try:
        with ParquetFile(path) as file:
            yield file
    except (ArrowException, UnicodeDecodeError) as error:
        raise LbnnError(f"is no Parquet file that can be read: {one_line(str(error))[:100]}") from None


def _check_names(names: list[str]) -> None:
    if len(names) < 2:
        raise LbnnError("needs at least two columns")
    if len(set(names)) != len(names) or not all(name.strip() for name in names):
        raise LbnnError("every column needs a name of its own")


def _part(name: str, column: Any) -> ColumnPart:
    """Numbers as they are; everything else as text."""
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise LbnnError(f"column {name!r:.60} holds {one_line(str(kind))[:40]}; write numbers or text into columns")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return _numbers_part(column, pa.float64())
    return text_part([_text(value) for value in column.to_pylist()], CsvFormat())


def _numbers_part(column: Any, float64: Any) -> ColumnPart:
    values = np.asarray(column.cast(float64, safe=False).to_numpy(zero_copy_only=False), np.float64)
    here = ~np.isnan(values)
    known = bool((np.abs(values[here]) <= LARGEST_VALUE).all())
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    return ColumnPart(here, small if known else None, lambda: [_text(value) for value in values.tolist()])


def _text(value: Any) -> str:
    """As a CSV would have it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return repr(value) if isinstance(value, float) else str(value).strip()
