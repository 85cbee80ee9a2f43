"""Emulated machines: a single core whose C functions Python calls (Unicorn), and whole boards that boot (QEMU)."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import platform
import shutil
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbnn.base.errors import LbnnError
from lbnn.device.elf import Segment, read_segments, read_symbols
from lbnn.device.toolchains import (
    CORES,
    KB,
    MB,
    TOOLCHAINS,
    Board,
    Core,
    Memory,
    cache_folder,
    compile_gcc,
    emulator_command,
    linker_script,
    startup_source,
    targets_folder,
)

RUN_SECONDS = 600


class EmulationFault(LbnnError):
    """The emulated program did what the machine forbids; says what, and in which function."""


# Nothing is mapped at address 0 nor around the stack, so that a null pointer and a stack overflow fault.
IMAGE_MEMORY = Memory(0x08000000, 4 * MB, 0x20000000, 4 * MB)
_STACK_BASE, _STACK_SIZE = 0x30000000, 256 * KB
_BUFFER_BASE, _BUFFER_SIZE = 0x60000000, 64 * MB
_RETURN_PAGE = 0x0F000000
_PAGE = 4 * KB
_PAINT = 0xA5A5A5A5
_INSTRUCTION_LIMIT = 20_000_000_000

_READ, _WRITE, _EXECUTE = 1, 2, 4  # permissions in Unicorn

# UC_MEM_READ_UNMAPPED, ..._PROT
_ACCESSES = {19: "read of", 20: "write to", 21: "jump to", 22: "write to", 23: "read of", 24: "jump to"}


@dataclass(frozen=True)
class _Abi:
    """How a call passes its arguments: registers by their name in Unicorn."""

    integers: tuple[str, ...]
    floats: tuple[str, ...]
    stack: str
    link: str
    counter: str


_ARM_ABI = _Abi(("R0", "R1", "R2", "R3"), tuple(f"S{i}" for i in range(16)), "SP", "LR", "PC")
_RISCV_ABI = _Abi(tuple(f"A{i}" for i in range(8)), tuple(f"FA{i}" for i in range(8)), "SP", "RA", "PC")


class UnicornMachine:
    """One core with the segments of an ELF file in its memory; calls its C functions from Python.

    An int argument is an integer or a pointer, a float one a C float. Instructions are counted exactly; a call that
    needs more than `limit` of them ends with a fault. `native=False` counts without a host compiler, but slowly.
    Unicorn is less strict than a chip: unaligned loads pass on a Cortex-M0 and floating point on a Cortex-M3. The
    QEMU boards refuse both.
    """

    def __init__(self, elf: Path, core: Core, *, limit: int = _INSTRUCTION_LIMIT, native: bool = True) -> None:
        self.core = core
        self.symbols = read_symbols(elf)
        self._abi = _RISCV_ABI if core.riscv else _ARM_ABI
        self._engine, self._registers = _open_engine(core)
        self._invalid: tuple[int, int] | None = None
        self._next_buffer = _BUFFER_BASE
        self._top = _STACK_BASE + _STACK_SIZE
        self._limit = limit
        segments = read_segments(elf)
        self._map(segments)
        self._counts = _Counts(segments, core)
        self._counts.attach(self._engine, native_block_counter() if native else None)
        self._engine.hook_add(_constant("UC_HOOK_MEM_INVALID"), self._note_invalid_access)

    def alloc(self, count: int, dtype: Any = np.float32) -> int:
        """The address of a new buffer, aligned to 8 bytes; `free_buffers` takes all of them back."""
        address = self._next_buffer
        self._next_buffer += -(-count * np.dtype(dtype).itemsize // 8) * 8
        if self._next_buffer > _BUFFER_BASE + _BUFFER_SIZE:
            raise LbnnError(f"more than {_BUFFER_SIZE // MB} MB of buffers; run fewer samples at once")
        return address

    def free_buffers(self) -> None:
        """Takes back what `alloc` gave."""
        self._next_buffer = _BUFFER_BASE

    def write(self, address: int, values: NDArray[Any]) -> None:
        """Copies an array into the machine's memory."""
        self._engine.mem_write(address, values.tobytes())

    def read(self, address: int, count: int, dtype: Any = np.float32) -> NDArray[Any]:
        """Copies an array out of the machine's memory."""
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(self._engine.mem_read(address, size), dtype=dtype).copy()

    def call(self, function: str, *arguments: int | float) -> int:
        """Calls a C function that returns an int or nothing."""
        self._run(function, arguments)
        return int(np.int32(np.uint32(self._get(self._abi.integers[0]))))

    def call_float(self, function: str, *arguments: int | float) -> float:
        """Calls a C function that returns a float."""
        self._run(function, arguments)
        register = self._abi.floats[0] if self.core.hard_float else self._abi.integers[0]
        return float(np.uint32(self._get(register)).view(np.float32))

    @property
    def instructions(self) -> int:
        """Executed since the last `reset_counts`."""
        return self._counts.total

    def reset_counts(self) -> None:
        """Starts all counts at zero."""
        self._counts.reset()

    def executed(self) -> dict[int, int]:
        """How often each instruction ran since the last `reset_counts`, by its address."""
        return self._counts.by_address(self._counts.executed)

    def profile(self) -> dict[str, int]:
        """Instructions by function since the last `reset_counts`, the dearest first."""
        costs: Counter[str] = Counter()
        for address, count in self.executed().items():
            costs[self.symbols.function_at(address)[0]] += count
        return dict(costs.most_common())

    def charge_calls_to(self, function: str) -> None:
        """From now on, what the callees of `function` execute is charged to the calling instruction in it."""
        self._counts.own(*self.symbols.range_of(function))

    def charged(self) -> dict[int, int]:
        """Instructions run in callees since the last `reset_counts`, by the address of the call."""
        return self._counts.by_address(self._counts.called)

    def paint_stack(self) -> None:
        """Fills the stack with a pattern, for `stack_used`."""
        self.write(_STACK_BASE, np.full(_STACK_SIZE // 4, _PAINT, np.uint32))

    def stack_used(self) -> int:
        """Bytes of stack that calls have written since `paint_stack`, to the word; without stacked arguments."""
        stack = self.read(_STACK_BASE, (self._top - _STACK_BASE) // 4, np.uint32)
        touched = np.flatnonzero(stack != _PAINT)
        return 4 * (stack.size - int(touched[0])) if touched.size else 0

    def _map(self, segments: Sequence[Segment]) -> None:
        for begin, end, permissions in _page_runs(segments):
            self._engine.mem_map(begin, end - begin, permissions)
        for segment in segments:
            self._engine.mem_write(segment.address, segment.data)
        self._engine.mem_map(_STACK_BASE, _STACK_SIZE, _READ | _WRITE)
        self._engine.mem_map(_BUFFER_BASE, _BUFFER_SIZE, _READ | _WRITE)
        self._engine.mem_map(_RETURN_PAGE, _PAGE, _READ | _EXECUTE)

    def _note_invalid_access(self, _engine: Any, access: int, address: int, *_: object) -> bool:
        self._invalid = (access, address)
        return False

    def _run(self, function: str, arguments: Sequence[int | float]) -> None:
        start = self.symbols.addresses.get(function)
        if start is None:
            raise LbnnError(f"no function {function} in the image; was it removed as unused?")
        self._place_arguments(arguments)
        self._set(self._abi.link, _RETURN_PAGE if self.core.riscv else _RETURN_PAGE | 1)
        self._invalid = None
        self._counts.stop_after(self._limit)
        try:
            self._engine.emu_start(start, _RETURN_PAGE)
        except importlib.import_module("unicorn").UcError as error:
            raise EmulationFault(self._describe(error)) from None
        if self._get(self._abi.counter) & ~1 != _RETURN_PAGE:
            raise EmulationFault(
                f"{self.core.name}: {function} did not return within {self._limit} instructions, {self._place()}"
            )

    def _place_arguments(self, arguments: Sequence[int | float]) -> None:
        """The Arm (AAPCS) and RISC-V (ilp32, ilp32f) conventions; the two agree for words and floats."""
        integers, floats = list(self._abi.integers), list(self._abi.floats if self.core.hard_float else ())
        stacked: list[int] = []
        for argument in arguments:
            is_float = isinstance(argument, float)
            registers = floats if is_float and self.core.hard_float else integers
            word = int(np.float32(argument).view(np.uint32)) if is_float else int(argument) & 0xFFFFFFFF
            if registers:
                self._set(registers.pop(0), word)
            else:
                stacked.append(word)
        self._top = _STACK_BASE + _STACK_SIZE - (4 * len(stacked) + 15) // 16 * 16
        self._engine.mem_write(self._top, struct.pack(f"<{len(stacked)}I", *stacked))
        self._set(self._abi.stack, self._top)

    def _set(self, register: str, value: int) -> None:
        self._engine.reg_write(self._registers[register], value)

    def _get(self, register: str) -> int:
        return int(self._engine.reg_read(self._registers[register])) & 0xFFFFFFFF

    def _place(self) -> str:
        pc = self._get(self._abi.counter) & ~1
        name, offset = self.symbols.function_at(pc)
        return f"at pc {pc:#010x} ({name}+{offset:#x})"

    def _describe(self, error: Exception) -> str:
        if self._invalid is None:
            return f"{self.core.name}: {error}, {self._place()}"
        access, address = self._invalid
        return f"{self.core.name}: forbidden {_ACCESSES[access]} address {address:#010x}, {self._place()}"


def _constant(name: str) -> int:
    return int(getattr(importlib.import_module("unicorn.unicorn_const"), name))


def _open_engine(core: Core) -> tuple[Any, dict[str, int]]:
    """A Unicorn engine for `core` and its register numbers by name."""
    if core.unicorn is None:
        raise LbnnError(f"Unicorn has no {core.name}; run it on a QEMU board")
    family = "RISCV" if core.riscv else "ARM"
    mode = _constant("UC_MODE_RISCV32") if core.riscv else _constant("UC_MODE_THUMB") | _constant("UC_MODE_MCLASS")
    names = vars(importlib.import_module(f"unicorn.{family.lower()}_const"))
    prefix = f"UC_{family}_REG_"
    registers = {name.removeprefix(prefix): value for name, value in names.items() if name.startswith(prefix)}
    engine: Any = importlib.import_module("unicorn").Uc(_constant(f"UC_ARCH_{family}"), mode)
    engine.ctl_set_cpu_model(names[f"UC_CPU_{family}{'32' if core.riscv else ''}_{core.unicorn}"])
    if core.riscv and core.hard_float:
        mstatus = registers["MSTATUS"]
        engine.reg_write(mstatus, engine.reg_read(mstatus) | 0x6000)  # FS: the FPU is on
    return engine, registers


def _page_runs(segments: Iterable[Segment]) -> list[tuple[int, int, int]]:
    """(begin, end, permissions) of runs of pages that hold the segments; a shared page allows what any of them may."""
    pages: dict[int, int] = {}
    for segment in segments:
        permissions = _READ | _WRITE * segment.writable | _EXECUTE * segment.executable
        for page in range(segment.address // _PAGE, (segment.address + segment.size - 1) // _PAGE + 1):
            pages[page] = pages.get(page, 0) | permissions
    ordered = sorted(pages.items())
    breaks = [i for i, (a, b) in enumerate(pairwise(ordered), 1) if b != (a[0] + 1, a[1])]
    return [
        (ordered[i][0] * _PAGE, (ordered[j - 1][0] + 1) * _PAGE, ordered[i][1])
        for i, j in pairwise([0, *breaks, len(ordered)])
    ]


class _CounterStruct(ctypes.Structure):
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
        ("encoding", ctypes.c_int),
    )


class _Counts:
    """Executed instructions, by halfword of the code; the arithmetic is that of count_blocks.c."""

    def __init__(self, segments: Sequence[Segment], core: Core) -> None:
        executable = [segment for segment in segments if segment.executable]
        self._base = min(segment.address for segment in executable)
        size = (max(segment.address + segment.size for segment in executable) - self._base + 3) // 2
        code = bytearray(2 * size)
        for segment in executable:
            start = segment.address - self._base
            code[start : start + len(segment.data)] = segment.data
        self._code = np.frombuffer(bytes(code), dtype="<u2")
        self._riscv = core.riscv
        self.executed = np.zeros(size, np.uint64)
        self.called = np.zeros(size, np.uint64)
        self._struct = _CounterStruct(
            base=self._base,
            halfwords=size,
            code=self._code.ctypes.data,
            executed=self.executed.ctypes.data,
            called=self.called.ctypes.data,
            encoding=int(core.riscv),
        )

    @property
    def total(self) -> int:
        return int(self._struct.total)

    def reset(self) -> None:
        self._struct.total = 0
        self.executed[:] = 0
        self.called[:] = 0

    def stop_after(self, instructions: int) -> None:
        self._struct.limit = self._struct.total + instructions

    def own(self, begin: int, end: int) -> None:
        self._struct.owner_begin = (begin - self._base) // 2
        self._struct.owner_end = (end - self._base) // 2
        self._struct.owner_last = self._struct.owner_begin

    def by_address(self, counts: NDArray[np.uint64]) -> dict[int, int]:
        return {self._base + 2 * int(i): int(counts[i]) for i in np.flatnonzero(counts)}

    def attach(self, engine: Any, hook: int | None) -> None:
        if hook is None:
            engine.hook_add(_constant("UC_HOOK_BLOCK"), self._python_hook())
        else:
            self._attach_native(engine, hook)

    def _attach_native(self, engine: Any, hook: int) -> None:
        library = importlib.import_module("unicorn.unicorn_py3.unicorn").uclib
        self._struct.stop = ctypes.cast(library.uc_emu_stop, ctypes.c_void_p).value
        self._handle = ctypes.c_size_t()
        error = library.uc_hook_add(
            engine._uch,
            ctypes.byref(self._handle),
            _constant("UC_HOOK_BLOCK"),
            ctypes.c_void_p(hook),
            ctypes.cast(ctypes.byref(self._struct), ctypes.c_void_p),
            ctypes.c_uint64(1),
            ctypes.c_uint64(0),
        )
        if error:
            raise LbnnError(f"Unicorn refused the block hook with error {error}; reinstall it: pip install unicorn")

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
            first = int(self._code[index])
            wide = first & 3 == 3 if self._riscv else first >= 0xE800
            index += 2 if wide else 1
        return np.array(starts, dtype=np.intp)


def native_block_counter() -> int | None:
    """The address of the block hook compiled for this host, or None where there is no compiler.

    It is compiled once and kept in the user's cache, under the hash of its source.
    """
    source = targets_folder() / "count_blocks.c"
    key = hashlib.sha256(source.read_bytes() + platform.platform().encode()).hexdigest()[:16]
    library = cache_folder() / f"count_blocks-{key}.so"
    host = TOOLCHAINS["host"]
    if not library.exists():
        if not host.available():
            return None
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            host.compile_shared([source], Path(folder) / library.name).replace(library)
    return ctypes.cast(ctypes.CDLL(str(library)).lbnn_count_block, ctypes.c_void_p).value


@dataclass(frozen=True)
class ProgramRun:
    """What a program did: its exit status and messages."""

    status: int
    stderr: str


def run_program(name: str, command: Sequence[str], folder: Path, timeout: float = RUN_SECONDS) -> ProgramRun:
    """Runs a command in `folder`; `name` is who it is in an error."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EmulationFault(f"{name}: the program did not end within {timeout:g} s") from None
    return ProgramRun(done.returncode, done.stderr)


@dataclass(frozen=True)
class QemuBoard:
    """A board emulated whole: builds firmware with start-up code and linker script, and boots it."""

    board: Board

    @property
    def core(self) -> Core:
        """The board's processor."""
        return CORES[self.board.core]

    def build(
        self, sources: Sequence[Path], out: Path, flags: Iterable[str] = (), include: Sequence[Path] = ()
    ) -> Path:
        """A firmware image of `sources`, one of which has `main`; what main returns is the exit status."""
        targets = targets_folder()
        script = out.with_suffix(".ld")
        script.write_text(linker_script(self.board.name, self.board.memory, "lbnn_reset"))
        own = [targets / startup_source(self.core), targets / "semihosting.c"]
        given = (*self.board.timer.flags, *flags)
        return compile_gcc(self.core, [*own, *sources], out, script, given, [targets, *include])

    def run(self, image: Path, folder: Path, timeout: float = RUN_SECONDS) -> ProgramRun:
        """Boots `image`; the files it opens are in `folder`."""
        program, *options = emulator_command(self.board)
        path = shutil.which(program)
        if path is None:
            raise LbnnError(f"board {self.board.name} needs {program}; apt install {self.emulator_package}")
        return run_program(self.board.name, (path, *options, "-kernel", str(image.resolve())), folder, timeout)

    @property
    def emulator_package(self) -> str:
        """The Debian package with the board's emulator."""
        return "qemu-system-misc" if self.core.riscv else "qemu-system-arm"
