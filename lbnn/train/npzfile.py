"""Arrays x and y of an .npz file, read without trusting what the file says of itself."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError, one_line


def read_arrays(path: Path, names: tuple[str, ...]) -> tuple[Floats, ...]:
    """The arrays of these names, in float32."""
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = tuple(_array(archive, name) for name in names)
    except (LbnnError, OSError, MemoryError):
        raise
    except Exception as error:  # the readers of zip and of numpy's headers raise nearly anything on bad bytes
        reason = one_line(str(error))[:100]
        what = " and ".join(names)
        raise LbnnError(f"is no .npz file with numeric arrays {what} ({type(error).__name__}: {reason})") from None
    return arrays


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
