"""Writes outputs in one step: all of it appears under its name, or nothing does."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lbnn.errors import LbnnError

Content = bytes | str


def write_file(path: str | Path, data: Content, force: bool = False) -> Path:
    """Writes `data` beside `path` and moves it there; an existing file is kept unless `force`."""
    path = Path(path)
    refuse_existing(path, force)
    if path.is_dir():
        raise LbnnError(f"{path} is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_bytes(data))
            Path(temporary).chmod(0o666 & ~_umask())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise LbnnError(f"can't write {path}: {error.strerror or error}") from None
    return path


def write_folder(path: str | Path, files: Mapping[str, Content], force: bool = False) -> Path:
    """Writes a folder of files (names may contain folders) beside `path` and moves it there.

    With `force` an existing folder is replaced as a whole; until the new one is complete the old one stays.
    """
    path = Path(path)
    refuse_existing(path, force)
    if path.exists() and not path.is_dir():
        raise LbnnError(f"{path} is a file; name a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            _fill(temporary / "new", files)
            _swap(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise LbnnError(f"can't write {path}: {error.strerror or error}") from None
    return path


def refuse_existing(path: Path, force: bool) -> None:
    """An error if something is at `path` already, unless `force`: call it early, before long work."""
    occupied = path.is_file() or (path.is_dir() and any(path.iterdir()))
    if occupied and not force:
        raise LbnnError(f"{path} exists; choose another place or add --force to replace it")


def _fill(folder: Path, files: Mapping[str, Content]) -> None:
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_bytes(data))


def _swap(temporary: Path, path: Path) -> None:
    """The new folder into the old one's place: in one step where the system can, else with a way back."""
    new, old = temporary / "new", temporary / "old"
    if not path.exists():
        new.replace(path)
    elif not _exchange(new, path):
        path.replace(old)
        try:
            new.replace(path)
        except OSError:
            old.replace(path)
            raise


def _exchange(a: Path, b: Path) -> bool:
    """Swaps two folders atomically with Linux's renameat2; False where that is not to be had."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0)


def _bytes(data: Content) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
