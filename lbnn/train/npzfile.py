"""Arrays x and y of an .npz file, read without trusting what the file says of itself."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError, one_line

NUMBERS, TEXT = "biuf", "US"
"""Kinds of numpy's types."""


def read_arrays(path: Path, names: tuple[str, ...]) -> tuple[Floats, ...]:
    """The arrays of these names, in float32."""
    with _archive(path, names) as archive, np.errstate(over="ignore"):
        # what float32 can't hold becomes infinite, and its row is left out
        return tuple(np.asarray(_array(archive, name, NUMBERS), np.float32) for name in names)


def read_texts(path: Path, name: str) -> list[str]:
    """The cells of an array of text or numbers with one for each row; empty where it is not a number."""
    with _archive(path, (name,)) as archive:
        array = _array(archive, name, NUMBERS + TEXT)
        if array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1):
            raise LbnnError(f"{name} {array.shape} must be [n]: classes are one number or text for each row")
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8")
    cells = array.reshape(-1).tolist()
    return [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    """As a CSV would have it."""
    if isinstance(cell, str):
        return cell.strip()
    return repr(cell + 0) if math.isfinite(cell) else ""  # + 0, for True is 1


def holds_text(path: Path, name: str) -> bool:
    """Whether an array is one of text."""
    with _archive(path, ("x", "y")) as archive, archive.open(_member(archive, f"{name}.npy")) as file:
        return _header(file)[2].kind in TEXT


@contextmanager
def _archive(path: Path, names: tuple[str, ...]) -> Iterator[zipfile.ZipFile]:
    """The opened file; whatever is wrong with it is one line."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (LbnnError, OSError, MemoryError):
        raise
    except Exception as error:  # the readers of zip and of numpy's headers raise nearly anything on bad bytes
        reason = one_line(str(error))[:100]
        what = " and ".join(names)
        raise LbnnError(f"is no .npz file with numeric arrays {what} ({type(error).__name__}: {reason})") from None


def _array(archive: zipfile.ZipFile, name: str, kinds: str) -> Any:
    """One array, and nothing allocated for it before its type and shape are known to fit what the archive holds."""
    with archive.open(_member(archive, f"{name}.npy")) as file:
        shape, fortran, dtype = _header(file)
        if dtype.kind not in kinds or not shape or not dtype.itemsize:
            what = "real numbers" if kinds == NUMBERS else "text or real numbers"
            raise LbnnError(f"{name} must be an array of {what}, not {dtype} {shape}")
        data = file.read()
    if min(shape) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise LbnnError(f"{name} has the shape {shape} for {len(data)} bytes of {dtype}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _header(file: Any) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, order and type."""
    return READ_HEADER[np.lib.format.read_magic(file)](file)


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
