"""Counts the instructions that Unicorn executes, block by block: natively where there is a host compiler."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbnn.base.errors import LbnnError
from lbnn.base.resources import targets_folder
from lbnn.base.temporary import temporary_folder
from lbnn.device.compilers import HOST_TOOLCHAINS, cache_folder
from lbnn.device.cores import UnicornFamily
from lbnn.device.elf import Segment


def unicorn_constant(name: str) -> int:
    """A constant of Unicorn by its name."""
    return int(getattr(importlib.import_module("unicorn.unicorn_const"), name))


LINE_BYTES, CACHED_LINES = 16, 8
"""Of the flash, as far as reads of constants are counted: what the accelerator of an STM32F4 holds of data."""


class _BlockCounter(ctypes.Structure):
    """struct counter of c_runtime/targets/count_blocks.c."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("halfwords", ctypes.c_uint64),
        ("code", ctypes.c_void_p),
        ("executed", ctypes.c_void_p),
        ("called", ctypes.c_void_p),
        ("owner_begin", ctypes.c_uint64),
        ("owner_end", ctypes.c_uint64),
        ("owner_last", ctypes.c_uint64),
        ("total", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("stop", ctypes.c_void_p),
        ("wide_mask", ctypes.c_uint16),
        ("wide_from", ctypes.c_uint16),
        ("taken", ctypes.c_void_p),
        ("last", ctypes.c_uint64),
        ("next", ctypes.c_uint64),
        ("lines", ctypes.c_uint64),
        ("cached", ctypes.c_uint64 * CACHED_LINES),
    )


class BlockCounts:
    """Executed instructions, by halfword of the code; the arithmetic is that of count_blocks.c."""

    def __init__(self, segments: Sequence[Segment], family: UnicornFamily) -> None:
        executable = [segment for segment in segments if segment.executable]
        self._base = min(segment.address for segment in executable)
        size = (max(segment.address + segment.size for segment in executable) - self._base + 3) // 2
        code = bytearray(2 * size)
        for segment in executable:
            start = segment.address - self._base
            code[start : start + len(segment.data)] = segment.data
        self._code = np.frombuffer(bytes(code), dtype="<u2")
        self._family = family
        self._handles: list[ctypes.c_size_t] = []
        self.executed = np.zeros(size, np.uint64)
        self.called = np.zeros(size, np.uint64)
        self.taken = np.zeros(size, np.uint64)
        self._struct = _BlockCounter(
            base=self._base,
            halfwords=size,
            code=self._code.ctypes.data,
            executed=self.executed.ctypes.data,
            called=self.called.ctypes.data,
            wide_mask=family.wide_mask,
            wide_from=family.wide_from,
            taken=self.taken.ctypes.data,
        )

    @property
    def total(self) -> int:
        """Instructions since the last reset."""
        return int(self._struct.total)

    @property
    def lines(self) -> int:
        """Lines of constants read since the last reset, where `attach_reads` was called."""
        return int(self._struct.lines)

    def reset(self) -> None:
        """Starts all counts at zero."""
        self._struct.total = 0
        self._struct.next = self._struct.lines = 0
        for counts in (self.executed, self.called, self.taken):
            counts[:] = 0

    def stop_after(self, instructions: int) -> None:
        """Stops the emulator when it has executed so many more."""
        self._struct.limit = self._struct.total + instructions

    def own(self, begin: int, end: int) -> None:
        """From now on, what the callees of the code from `begin` to `end` execute is charged to the call in it."""
        self._struct.owner_begin = (begin - self._base) // 2
        self._struct.owner_end = (end - self._base) // 2
        self._struct.owner_last = self._struct.owner_begin

    def by_address(self, counts: NDArray[np.uint64]) -> dict[int, int]:
        """`executed`, `called` or `taken` of this object, where it is not zero."""
        return {self._base + 2 * int(i): int(counts[i]) for i in np.flatnonzero(counts)}

    def attach(self, engine: Any, hook: int | None) -> None:
        """Counts what `engine` executes, with the native hook at the address `hook` or else in Python."""
        if hook is None:
            engine.hook_add(unicorn_constant("UC_HOOK_BLOCK"), self._python_hook())
        else:
            self._attach_native(engine, "UC_HOOK_BLOCK", hook, 1, 0)

    def attach_reads(self, engine: Any, hook: int | None, begin: int, end: int) -> None:
        """Counts lines of constants that are read between two addresses."""
        if hook is None:
            engine.hook_add(unicorn_constant("UC_HOOK_MEM_READ"), self._read_line, begin=begin, end=end - 1)
        else:
            self._attach_native(engine, "UC_HOOK_MEM_READ", hook, begin, end - 1)

    def _read_line(self, _engine: Any, _access: int, address: int, *_: object) -> None:
        line = address // LINE_BYTES
        self._struct.lines += self._struct.cached[line % CACHED_LINES] != line
        self._struct.cached[line % CACHED_LINES] = line

    def _attach_native(self, engine: Any, kind: str, hook: int, begin: int, end: int) -> None:
        library = importlib.import_module("unicorn.unicorn_py3.unicorn").uclib
        self._struct.stop = ctypes.cast(library.uc_emu_stop, ctypes.c_void_p).value
        self._handles.append(ctypes.c_size_t())
        error = library.uc_hook_add(
            engine._uch,
            ctypes.byref(self._handles[-1]),
            unicorn_constant(kind),
            ctypes.c_void_p(hook),
            ctypes.cast(ctypes.byref(self._struct), ctypes.c_void_p),
            ctypes.c_uint64(begin),
            ctypes.c_uint64(end),
        )
        if error:
            raise LbnnError(f"Unicorn refused a hook with error {error}; reinstall it: pip install unicorn")

    def _python_hook(self) -> Any:
        starts: dict[tuple[int, int], NDArray[np.intp]] = {}

        def count(engine: Any, address: int, size: int, _: object) -> None:
            if (address, size) not in starts:
                starts[address, size] = self._instruction_starts(address, size)
            indices = starts[address, size]
            if not indices.size:
                return
            self.executed[indices] += np.uint64(1)
            if self._struct.owner_begin <= indices[0] < self._struct.owner_end:
                self._struct.owner_last = int(indices[-1])
            else:
                self.called[self._struct.owner_last] += np.uint64(indices.size)
            if self._struct.next not in (0, indices[0]):
                self.taken[self._struct.last] += np.uint64(1)
            self._struct.last, self._struct.next = int(indices[-1]), (address - self._base + size) // 2
            self._struct.total += indices.size
            if self._struct.total > self._struct.limit:
                engine.emu_stop()

        return count

    def _instruction_starts(self, address: int, size: int) -> NDArray[np.intp]:
        starts = []
        index = (address - self._base) // 2
        end = index + size // 2
        while 0 <= index < end <= self._code.size:
            starts.append(index)
            wide = int(self._code[index]) & self._family.wide_mask >= self._family.wide_from
            index += 2 if wide else 1
        return np.array(starts, dtype=np.intp)


def native_counter(function: str = "lbnn_count_block") -> int | None:
    """The address of a hook of count_blocks.c compiled for this host, or None where there is no compiler.

    It is compiled once and kept in the user's cache, under the hash of its source.
    """
    source = targets_folder() / "count_blocks.c"
    key = hashlib.sha256(source.read_bytes() + platform.platform().encode()).hexdigest()[:16]
    library = cache_folder() / f"count_blocks-{key}.so"
    host = HOST_TOOLCHAINS["host"]
    if not library.exists():
        if not host.available():
            return None
        with temporary_folder(cache_folder()) as folder:
            host.compile_shared([source], folder / library.name).replace(library)
    return ctypes.cast(getattr(ctypes.CDLL(str(library)), function), ctypes.c_void_p).value
