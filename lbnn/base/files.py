"""Writes outputs in one step: all of it appears under its name, or nothing does.

It is on the disk before it gets its name, and the name before the old output goes, so that a power cut leaves the old
or the new.
"""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lbnn.base.errors import LbnnError
from lbnn.base.temporary import KEPT, held_file, held_folder, sweep

Content = bytes | str
PROBE = bytes(1 << 16)
"""What must find room in a place for outputs before long work."""


def write_file(path: str | Path, data: Content, force: bool = False) -> Path:
    """Writes `data` beside `path` and moves it there; an existing file is kept unless `force`."""
    path = Path(path)
    refuse_existing(path, force)
    with _explained(path):
        _refuse_other_kinds(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent)
        with held_file(path.parent, path.name) as (temporary, handle):
            _write(handle, data)
            _name(temporary, path, force)
            _flush(path.parent)
    return path


@contextmanager
def growing_file(path: str | Path, force: bool = False) -> Iterator[Callable[[Content], None]]:
    """As `write_file`, for what comes in parts: a function that adds one. The file gets its name after the block."""
    path = Path(path)
    refuse_existing(path, force)
    with ExitStack() as stack:
        with _explained(path):
            _refuse_other_kinds(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            sweep(path.parent)
            temporary, handle = stack.enter_context(held_file(path.parent, path.name))

        def add(data: Content) -> None:
            with _explained(path), os.fdopen(handle, "wb", closefd=False) as file:
                file.write(_bytes(data))

        yield add
        with _explained(path):
            _sync(handle)
            _name(temporary, path, force)
            _flush(path.parent)


def write_folder(path: str | Path, files: Mapping[str, Content], force: bool = False) -> Path:
    """Writes a folder of files (names may contain folders) beside `path` and moves it there.

    With `force` an existing folder is replaced as a whole; until the new one is complete the old one stays.
    """
    path = Path(path)
    refuse_existing(path, force)
    with _explained(path):
        if path.exists() and not path.is_dir():
            raise LbnnError(f"{path} is a file; name a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent)
        with held_folder(path.parent, path.name) as temporary:
            _fill(temporary / "new", files)
            _swap(temporary, path, force)
            _flush(path.parent)
    return path


def fill_folder(folder: Path, files: Mapping[str, Content]) -> Path:
    """Writes files into a temporary folder, which nobody looks for after a power cut."""
    with _explained(folder):
        for name, data in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_bytes(data))
    return folder


def refuse_existing(path: Path, force: bool) -> None:
    """An error if something is at `path` already, unless `force`: call it early, before long work.

    An empty folder is free. A symbolic link is not, wherever it leads: it is replaced, never followed.
    """
    with _explained(path):
        occupied = path.is_symlink() or path.is_file() or (path.is_dir() and any(path.iterdir()))
    if occupied and not force:
        raise LbnnError(f"{path} exists; choose another place or add --force to replace it")


def refuse_unwritable(path: Path, force: bool) -> None:
    """An error if `write_file` could not write `path` now: call it early, before long work. Nothing is left behind."""
    with _explained(path):
        _refuse_other_kinds(path)
    refuse_existing(path, force)
    with _explained(path):
        with suppress(FileNotFoundError):
            path.lstat()  # refuses a name that is too long
        folder = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(PROBE)


def _refuse_other_kinds(path: Path) -> None:
    if path.is_dir():
        raise LbnnError(f"{path} is a folder; name a file")
    if path.exists() and not path.is_file():  # a rename would put a file in its place
        raise LbnnError(f"{path} is a device or a pipe; name a file")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What the system refuses is one line with the place."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise LbnnError(f"can't write {path}: {getattr(error, 'strerror', None) or error}") from None


def _name(temporary: Path, path: Path, force: bool) -> None:
    """Gives a finished file its name; without `force` a file that came there meanwhile is kept."""
    if force or not _linked(temporary, path):
        temporary.replace(path)


def _linked(temporary: Path, path: Path) -> bool:
    """A second name for the file, which must be free; False where the file system has no such links."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _fill(folder: Path, files: Mapping[str, Content]) -> None:
    """Writes all files, and flushes them and every folder on their way."""
    folders = {folder}
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            _write(file.fileno(), data)
        folders |= {parent for parent in target.parents if parent.is_relative_to(folder)}
    folder.mkdir(exist_ok=True)
    for each in folders:
        _flush(each)


def _write(handle: int, data: Content) -> None:
    """Writes a file to the disk, not only to the system's memory."""
    with os.fdopen(handle, "wb", closefd=False) as file:
        file.write(_bytes(data))
    _sync(handle)


def _flush(folder: Path) -> None:
    """The names in a folder to the disk, where it may be opened."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            _sync(handle)
        finally:
            os.close(handle)


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that knows no such thing
            raise


def _swap(temporary: Path, path: Path, force: bool) -> None:
    """The new folder into its place if that is free or empty, else, with `force`, into the old one's.

    In one step where the system can, else with a way back.
    """
    new = temporary / "new"
    try:
        new.replace(path)
    except OSError:
        if not force or not os.path.lexists(path):
            raise
        if not _exchange(new, path):
            _replace_in_two_steps(new, path)


def _replace_in_two_steps(new: Path, path: Path) -> None:
    """In between the old one is kept; whoever removes the temporary folder puts it back."""
    kept = new.parent / KEPT
    kept.mkdir()
    path.replace(kept / path.name)
    new.replace(path)


def _exchange(a: Path, b: Path) -> bool:
    """Swaps two folders atomically with Linux's renameat2; False where that is not to be had."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0)


def _bytes(data: Content) -> bytes:
    """Bytes of UTF-8; half a surrogate pair, as in a file name that is no UTF-8, is spelled out."""
    return data.encode(errors="backslashreplace") if isinstance(data, str) else data
