"""Temporary files and folders: gone when their process is, and after a kill when the next one comes.

Each is locked by the process that made it, and the lock ends with the process, however that ends. So what has our kind
of name and is not locked was left behind. Where a file system has no locks nothing is ever taken for left behind.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

KEPT = "kept"
"""In a temporary folder: what was taken from beside it, and goes back if its place is empty when the folder goes."""

_NAME = re.compile(r"(\..*)?\.lbnn-[0-9a-f]{16}", re.DOTALL)
_LONGEST_LABEL = 40  # the whole name is then short enough for every file system
_held: dict[Path, int] = {}  # what exists now, and the process that made it: a forked one must leave it alone


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder for this process alone, in the system's place for such things unless in `parent`."""
    with held_folder(parent or _system_folder(), "") as folder:
        yield folder


def lasting_folder() -> Path:
    """A temporary folder that lasts until the process ends."""
    return _make(_system_folder(), "", _make_folder)[0]


@contextmanager
def held_folder(parent: Path, label: str) -> Iterator[Path]:
    """A hidden folder in `parent`; `label` begins its name."""
    path, handle = _make(parent, label, _make_folder)
    try:
        yield path
    finally:
        _let_go(path, handle)


@contextmanager
def held_file(parent: Path, label: str) -> Iterator[tuple[Path, int]]:
    """A hidden new file in `parent` and its open handle; `label` begins its name."""
    path, handle = _make(parent, label, _make_file)
    try:
        yield path, handle
    finally:
        _let_go(path, handle)


def sweep(parent: Path) -> None:
    """Removes what killed processes of this user left in a folder; what cannot be removed stays."""
    if os.name != "posix":
        return
    with suppress(OSError), os.scandir(parent) as entries:
        left = [Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name) and _is_ours(entry)]
        for path in left:
            with suppress(OSError):
                _sweep(path)


@atexit.register
def remove_all() -> None:
    """Removes everything temporary of this process: the last thing it does."""
    for path, process in list(_held.items()):
        if process == os.getpid():
            _remove(path)


@cache
def _system_folder() -> Path:
    folder = Path(tempfile.gettempdir())
    sweep(folder)
    return folder


def _make(parent: Path, label: str, make: Callable[[Path], int | None]) -> tuple[Path, int]:
    """A new place, locked; its name is noted before it exists, so that it goes whenever the process ends."""
    while True:
        path = parent / f"{label and '.'}{label[:_LONGEST_LABEL]}.lbnn-{secrets.token_hex(8)}"
        _held[path] = os.getpid()
        try:
            handle = make(path)
        except (OSError, ValueError):  # ValueError: a name that no file can have
            _held.pop(path, None)
            raise
        if handle is not None and _lock(handle) and _is_still(path, handle):
            return path, handle
        _held.pop(path, None)  # another process or thread swept it before it was locked
        if handle is not None:
            os.close(handle)


def _make_folder(path: Path) -> int | None:
    """Its handle; None if somebody swept it at once."""
    path.mkdir(mode=0o700)
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except FileNotFoundError:
        return None


def _make_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _let_go(path: Path, handle: int) -> None:
    _remove(path)
    os.close(handle)  # and with it the lock


def _remove(path: Path) -> None:
    """Removes a place and puts back what it keeps."""
    if path.is_dir() and not path.is_symlink():
        _put_back(path)
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
    _held.pop(path, None)


def _put_back(folder: Path) -> None:
    with suppress(OSError):
        for kept in (folder / KEPT).iterdir():
            if not os.path.lexists(folder.parent / kept.name):
                kept.rename(folder.parent / kept.name)


def _lock(handle: int) -> bool:
    """Locks a place; False if somebody else has it. Where there are no locks, nobody has."""
    try:
        _flock(handle)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _flock(handle: int) -> None:
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from error
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """A file or folder, not a link to one, of this user."""
    status = entry.stat(follow_symlinks=False)
    kind = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    return kind and status.st_uid == os.geteuid()


def _sweep(path: Path) -> None:
    """Removes a place that no process holds, which holding it oneself shows."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        _flock(handle)  # refused where it is held, and where there are no locks
        if _is_still(path, handle):
            _remove(path)
    finally:
        os.close(handle)
