"""Runs compiled models: on the host, on an emulated core (Unicorn) and on an emulated board (QEMU).

`run_model(device, folder, name, inputs)` is the whole interface for those who only want numbers and costs; DEVICES lists
what there is.  Numbers travel as float32 bit patterns, never as text.
"""

from __future__ import annotations

import bisect
import ctypes
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from lbnn.errors import LbnnError
from lbnn.toolchains import (
    BOARDS,
    CORES,
    MB,
    SANITIZE_FLAGS,
    STACK_FLAGS,
    TOOLCHAINS,
    Board,
    Core,
    Memory,
    Sizes,
    StackBound,
    Toolchain,
    cache_folder,
    compile_gcc,
    compile_zig,
    cross_gcc,
    emulator_command,
    image_sizes,
    linker_script,
    model_flags,
    stack_bound,
    startup_source,
    targets_folder,
)

Floats = NDArray[np.float32]

RUN_SECONDS = 600


class EmulationFault(LbnnError):
    """The emulated program did what the core forbids; says what, and in which function."""


@dataclass(frozen=True)
class DeviceResult:
    """Outputs of a model for n samples and what they cost; None where a device cannot say."""

    mean: Floats
    variance: Floats
    status: NDArray[np.int32]
    work_bytes: int
    instructions: NDArray[np.int64] | None = None
    sizes: Sizes | None = None
    stack_bytes: int | None = None
    stack_bound: StackBound | None = None
    profile: Mapping[str, int] = field(default_factory=dict)
    stderr: str = ""


# ------------------------------------------------------------------------------------------------ Unicorn


class _BlockCounter(ctypes.Structure):
    """struct counter of c_runtime/targets/count_blocks.c."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("halfwords", ctypes.c_uint64),
        ("code", ctypes.c_void_p),
        ("executed", ctypes.c_void_p),
        ("total", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("stop", ctypes.c_void_p),
        ("encoding", ctypes.c_int),
    )


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

# Nothing is mapped at address 0 nor around the stack, so that a null pointer and a stack overflow fault.
IMAGE_MEMORY = Memory(0x08000000, 4 * MB, 0x20000000, 4 * MB)
_STACK_BASE, _STACK_SIZE = 0x30000000, 256 << 10
_BUFFER_BASE, _BUFFER_SIZE = 0x60000000, 64 * MB
_RETURN_PAGE = 0x0F000000
_PAGE = 4096
_PAINT = 0xA5
_MAX_INSTRUCTIONS = 20_000_000_000


def _float_bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


class UnicornMachine:
    """One core with the segments of an ELF file in its memory; calls its C functions from Python.

    Instructions are counted exactly, by decoding each executed block; `limit` instructions end a call that hangs.
    """

    def __init__(self, elf: Path, core: Core, *, limit: int = _MAX_INSTRUCTIONS, native: bool = True) -> None:
        self.core = core
        self._abi = _RISCV_ABI if core.riscv else _ARM_ABI
        self._engine, self._registers = _open_engine(core)
        self._limit = limit
        self._invalid: tuple[int, int] | None = None
        self._next_buffer = _BUFFER_BASE
        self.symbols: dict[str, int] = {}
        self._functions: list[tuple[int, str]] = []
        self._load(elf)
        self._map_own_memory()
        self._attach_counter(native)
        self._attach_fault_hook()

    # Memory

    def alloc(self, count: int, dtype: Any = np.float32) -> int:
        """The address of a new buffer, aligned to 8 bytes; `free_buffers` takes all of them back."""
        address = self._next_buffer
        self._next_buffer += -(-count * np.dtype(dtype).itemsize // 8) * 8
        if self._next_buffer > _BUFFER_BASE + _BUFFER_SIZE:
            raise LbnnError(f"more than {_BUFFER_SIZE // MB} MB of buffers; run fewer samples at once")
        return address

    def free_buffers(self) -> None:
        self._next_buffer = _BUFFER_BASE

    def write(self, address: int, values: NDArray[Any]) -> None:
        self._engine.mem_write(address, values.tobytes())

    def read(self, address: int, count: int, dtype: Any = np.float32) -> NDArray[Any]:
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(self._engine.mem_read(address, size), dtype=dtype).copy()

    # Calls

    def call(self, function: str, *arguments: int | float) -> int:
        """Calls a C function: int arguments are integers or pointers, float ones C floats; returns the integer result."""
        self._run(function, arguments)
        value = int(self._get(self._abi.integers[0])) & 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value

    def call_float(self, function: str, *arguments: int | float) -> float:
        """The same for a function that returns a float."""
        self._run(function, arguments)
        register = self._abi.floats[0] if self.core.hard_float else self._abi.integers[0]
        return float(np.uint32(int(self._get(register)) & 0xFFFFFFFF).view(np.float32))

    @property
    def instructions(self) -> int:
        """Executed since the last `reset_counts`."""
        return int(self._counter.total)

    def reset_counts(self) -> None:
        self._counter.total = 0
        self._executed[:] = 0

    def profile(self) -> dict[str, int]:
        """Instructions by function since the last `reset_counts`, the dearest first."""
        costs: Counter[str] = Counter()
        for halfword in np.flatnonzero(self._executed):
            address = int(self._counter.base) + 2 * int(halfword)
            costs[self.function_at(address)[0]] += int(self._executed[halfword])
        return dict(costs.most_common())

    def executed(self) -> dict[int, int]:
        """Address of each executed instruction -> how often it ran since the last `reset_counts`."""
        base = int(self._counter.base)
        return {base + 2 * int(i): int(self._executed[i]) for i in np.flatnonzero(self._executed)}

    def paint_stack(self) -> None:
        self._engine.mem_write(_STACK_BASE, bytes([_PAINT]) * _STACK_SIZE)

    def stack_used(self) -> int:
        """Bytes of stack written since `paint_stack`."""
        stack = np.frombuffer(self._engine.mem_read(_STACK_BASE, _STACK_SIZE), dtype=np.uint8)
        touched = np.flatnonzero(stack != _PAINT)
        return _STACK_SIZE - int(touched[0]) // 4 * 4 if touched.size else 0

    def function_at(self, address: int) -> tuple[str, int]:
        """The function that holds `address`, and the offset in it."""
        index = bisect.bisect_right(self._functions, (address, "\x7f")) - 1
        if index < 0:
            return f"{address:#010x}", 0
        start, name = self._functions[index]
        return name, address - start

    # Set-up

    def _load(self, elf: Path) -> None:
        with elf.open("rb") as stream:
            image = ELFFile(stream)
            segments = [
                (s["p_vaddr"], s["p_memsz"], s["p_flags"], s.data())
                for s in image.iter_segments("PT_LOAD")
                if s["p_memsz"]
            ]
            self._read_symbols(image)
        for begin, end, flags in _page_runs(segments):
            self._engine.mem_map(begin, end - begin, _unicorn_permissions(flags))
        for address, _, _, data in segments:
            self._engine.mem_write(address, data)
        executable = [(address, size) for address, size, flags, _ in segments if flags & 1]
        self._code_base = min(address for address, _ in executable)
        self._code_end = max(address + size for address, size in executable)

    def _read_symbols(self, image: ELFFile) -> None:
        table = image.get_section_by_name(".symtab")
        defined = [s for s in (table.iter_symbols() if table else ()) if s.name and s["st_shndx"] != "SHN_UNDEF"]
        self.symbols = {s.name: s["st_value"] for s in defined}
        functions = {s["st_value"] & ~1: s.name for s in defined if s["st_info"]["type"] == "STT_FUNC"}
        self._functions = sorted(functions.items())

    def _map_own_memory(self) -> None:
        readable_writable = _unicorn_permissions(6)
        self._engine.mem_map(_STACK_BASE, _STACK_SIZE, readable_writable)
        self._engine.mem_map(_BUFFER_BASE, _BUFFER_SIZE, readable_writable)
        self._engine.mem_map(_RETURN_PAGE, _PAGE, _unicorn_permissions(5))

    def _attach_counter(self, native: bool) -> None:
        from unicorn.unicorn_py3.unicorn import uclib

        size = (self._code_end - self._code_base + 3) // 2
        code = self.read(self._code_base, self._code_end - self._code_base, np.uint8).tobytes()
        self._code = np.frombuffer(code.ljust(2 * size, b"\0"), dtype="<u2").copy()
        self._executed = np.zeros(size, np.uint64)
        self._counter = _BlockCounter(
            base=self._code_base,
            halfwords=size,
            code=self._code.ctypes.data,
            executed=self._executed.ctypes.data,
            limit=self._limit,
            stop=ctypes.cast(uclib.uc_emu_stop, ctypes.c_void_p).value,
            encoding=int(self.core.riscv),
        )
        hook = native_block_counter() if native else None
        if hook is not None:
            self._attach_native(uclib, hook)
        else:
            self._attach_python()

    def _attach_native(self, uclib: ctypes.CDLL, hook: int) -> None:
        from unicorn.unicorn_const import UC_HOOK_BLOCK

        self._hook = ctypes.c_size_t()
        uclib.uc_hook_add(
            self._engine._uch,
            ctypes.byref(self._hook),
            UC_HOOK_BLOCK,
            ctypes.c_void_p(hook),
            ctypes.cast(ctypes.byref(self._counter), ctypes.c_void_p),
            ctypes.c_uint64(1),
            ctypes.c_uint64(0),
        )

    def _attach_python(self) -> None:
        """The same count without a host compiler, some 200 times slower."""
        from unicorn.unicorn_const import UC_HOOK_BLOCK

        starts: dict[tuple[int, int], NDArray[np.intp]] = {}

        def count(engine: Any, address: int, size: int, _: object) -> None:
            if (address, size) not in starts:
                starts[address, size] = self._instruction_starts(address, size)
            indices = starts[address, size]
            self._executed[indices] += np.uint64(1)
            self._counter.total += indices.size
            if self._counter.total > self._limit:
                engine.emu_stop()

        self._engine.hook_add(UC_HOOK_BLOCK, count)

    def _instruction_starts(self, address: int, size: int) -> NDArray[np.intp]:
        starts = []
        index = (address - self._code_base) // 2
        end = index + size // 2
        while 0 <= index < end <= self._code.size:
            starts.append(index)
            first = int(self._code[index])
            wide = first & 3 == 3 if self.core.riscv else first >= 0xE800
            index += 2 if wide else 1
        return np.array(starts, dtype=np.intp)

    def _attach_fault_hook(self) -> None:
        from unicorn.unicorn_const import UC_HOOK_MEM_INVALID

        def note(_engine: Any, access: int, address: int, *_: object) -> bool:
            self._invalid = (access, address)
            return False

        self._engine.hook_add(UC_HOOK_MEM_INVALID, note)

    # A call, step by step

    def _run(self, function: str, arguments: Sequence[int | float]) -> None:
        from unicorn import UcError

        if function not in self.symbols:
            raise LbnnError(f"no function {function} in the image; was it removed as unused?")
        start = self.symbols[function]
        self._place_arguments(arguments)
        self._set(self._abi.link, _RETURN_PAGE if self.core.riscv else _RETURN_PAGE | 1)
        self._invalid = None
        try:
            self._engine.emu_start(start, _RETURN_PAGE)
        except UcError as error:
            raise EmulationFault(self._describe(error)) from None
        if self._counter.total > self._limit:
            raise EmulationFault(f"{self.core.name}: {function} did not return within {self._limit} instructions")
        if self._get(self._abi.counter) & ~1 != _RETURN_PAGE:
            raise EmulationFault(f"{self.core.name}: stopped {self._place()}")

    def _place_arguments(self, arguments: Sequence[int | float]) -> None:
        """AAPCS, and the RISC-V convention with ilp32 or ilp32f: the two agree for words and floats."""
        integers, floats = list(self._abi.integers), list(self._abi.floats)
        stacked: list[int] = []
        for argument in arguments:
            in_float_register = isinstance(argument, float) and self.core.hard_float and floats
            word = _float_bits(argument) if isinstance(argument, float) else argument & 0xFFFFFFFF
            if in_float_register:
                self._set(floats.pop(0), word)
            elif integers and not (isinstance(argument, float) and self.core.hard_float and not self.core.riscv):
                self._set(integers.pop(0), word)
            else:
                stacked.append(word)
        stack = _STACK_BASE + _STACK_SIZE - (4 * len(stacked) + 15) // 16 * 16
        self._engine.mem_write(stack, struct.pack(f"<{len(stacked)}I", *stacked))
        self._set(self._abi.stack, stack)

    def _set(self, register: str, value: int) -> None:
        self._engine.reg_write(self._registers[register], value)

    def _get(self, register: str) -> int:
        return int(self._engine.reg_read(self._registers[register]))

    def _place(self) -> str:
        pc = self._get(self._abi.counter) & ~1
        name, offset = self.function_at(pc)
        return f"at pc {pc:#010x} ({name}+{offset:#x})"

    def _describe(self, error: Exception) -> str:
        if self._invalid is not None:
            access, address = self._invalid
            what = f"{_ACCESSES.get(access, 'access to')} address {address:#010x}, where nothing may be"
        else:
            what = f"{error}"
        return f"{self.core.name}: {what}, {self._place()}"


# UC_MEM_{READ,WRITE,FETCH}_{UNMAPPED,PROT}
_ACCESSES = {19: "read of", 20: "write to", 21: "jump to", 22: "write to", 23: "read of", 24: "jump to"}


def _open_engine(core: Core) -> tuple[Any, dict[str, int]]:
    """A Unicorn engine for `core` and its register numbers by name."""
    if core.unicorn is None:
        raise LbnnError(f"Unicorn has no {core.name}; run it on a QEMU board")
    import unicorn
    from unicorn import arm_const, riscv_const

    const, mark = (riscv_const, "RISCV") if core.riscv else (arm_const, "ARM")
    prefix = f"UC_{mark}_REG_"
    registers = {name.removeprefix(prefix): getattr(const, name) for name in dir(const) if name.startswith(prefix)}
    if core.riscv:
        engine = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
        engine.ctl_set_cpu_model(getattr(riscv_const, f"UC_CPU_RISCV32_{core.unicorn}"))
        if core.hard_float:
            mstatus = registers["MSTATUS"]
            engine.reg_write(mstatus, engine.reg_read(mstatus) | 0x6000)  # FS: the FPU is on
    else:
        engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        engine.ctl_set_cpu_model(getattr(arm_const, f"UC_CPU_ARM_{core.unicorn}"))
    return engine, registers


def _unicorn_permissions(flags: int) -> int:
    """ELF segment flags (execute 1, write 2, read 4) as Unicorn's (read 1, write 2, execute 4)."""
    return 1 | flags & 2 | (flags & 1) << 2


def _page_runs(segments: Iterable[tuple[int, int, int, bytes]]) -> list[tuple[int, int, int]]:
    """(begin, end, flags) of runs of pages that hold the segments; a shared page allows what any of them may."""
    pages: dict[int, int] = {}
    for address, size, flags, _ in segments:
        for page in range(address // _PAGE, (address + size - 1) // _PAGE + 1):
            pages[page] = pages.get(page, 0) | flags
    ordered = sorted(pages.items())
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(ordered), 1) if b != (a[0] + 1, a[1])), len(ordered)]
    return [
        (ordered[i][0] * _PAGE, (ordered[j - 1][0] + 1) * _PAGE, ordered[i][1]) for i, j in pairwise(breaks) if j > i
    ]


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
            built = host.compile_shared([source], Path(folder) / library.name)
            os.replace(built, library)
    return ctypes.cast(_load_library(library).lbnn_count_block, ctypes.c_void_p).value


def _load_library(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


# ------------------------------------------------------------------------------------------------ QEMU


@dataclass(frozen=True)
class QemuRun:
    """What a firmware image did: exit status, its messages."""

    status: int
    stderr: str


class QemuBoard:
    """A board emulated whole: builds firmware with start-up code and linker script, and boots it."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.core = CORES[board.core]

    def build(
        self, sources: Sequence[Path], out: Path, flags: Iterable[str] = (), include: Sequence[Path] = ()
    ) -> Path:
        """A firmware image of `sources`, one of which has `main`; its status is the exit status."""
        targets = targets_folder()
        script = out.with_suffix(".ld")
        script.write_text(linker_script(self.board.name, self.board.memory, "lbnn_reset"))
        own = [targets / startup_source(self.core), targets / "semihosting.c"]
        given = (*self.board.timer.flags, *flags)
        return compile_gcc(self.core, [*own, *sources], out, script, given, [targets, *include])

    def run(self, image: Path, folder: Path, timeout: float = RUN_SECONDS) -> QemuRun:
        """Boots `image` with `folder` as the place of its files."""
        program, *options = emulator_command(self.board)
        command = (shutil.which(program) or program, *options, "-kernel", str(image.resolve()))
        return _run_program(command, folder, timeout, self.board.name)


def _run_program(command: Sequence[str], folder: Path, timeout: float, name: str) -> QemuRun:
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
    return QemuRun(done.returncode, done.stderr)


# ------------------------------------------------------------------------------------------------ models


@dataclass(frozen=True)
class Model:
    """A generated model in a folder: NAME.c, NAME.h, and the lengths its header defines."""

    folder: Path
    name: str
    input_len: int
    output_len: int
    work_len: int
    input_variance: bool

    @property
    def source(self) -> Path:
        return self.folder / f"{self.name}.c"

    @property
    def weight_pattern(self) -> str:
        """Names of the weight arrays: those of the model, not those of the runtime's tables."""
        return f"(?i){re.escape(self.name)}_"


def read_model(folder: Path, name: str, input_variance: bool = False) -> Model:
    header = (folder / f"{name}.h").read_text()
    found = dict(re.findall(rf"#define\s+{name.upper()}_(INPUT|OUTPUT|WORK)_LEN\s+\(?(\d+)", header))
    if set(found) != {"INPUT", "OUTPUT", "WORK"}:
        raise LbnnError(f"{folder / name}.h does not define the lengths of model {name}; export it again")
    lengths = {kind: int(value) for kind, value in found.items()}
    return Model(folder, name, lengths["INPUT"], lengths["OUTPUT"], lengths["WORK"], input_variance)


class Image(Protocol):
    """A model built for a device."""

    def run(self, inputs: Floats, input_variance: Floats | None, profile: bool) -> DeviceResult: ...


class Device(Protocol):
    """Something that runs a model: a compiler and a place."""

    @property
    def name(self) -> str: ...
    def available(self) -> bool: ...
    def missing(self) -> str: ...
    def build(self, model: Model, out: Path, flags: Iterable[str]) -> Image: ...


def _result(
    model: Model, records: NDArray[np.void], instructions: NDArray[np.int64] | None, **costs: Any
) -> DeviceResult:
    return DeviceResult(
        mean=records["mean"].copy(),
        variance=records["variance"].copy(),
        status=records["status"].copy(),
        work_bytes=4 * model.work_len,
        instructions=instructions,
        **costs,
    )


def _record_type(model: Model) -> np.dtype[np.void]:
    """What c_runtime/targets/run_samples.c writes for a sample."""
    outputs = (model.output_len,)
    return np.dtype(
        [("status", "<i4"), ("ticks", "<u4"), ("mean", "<f4", outputs), ("variance", "<f4", outputs)]
    )


@dataclass(frozen=True)
class HostDevice:
    """The model as a shared library in this process."""

    name: str
    toolchain: Toolchain

    def available(self) -> bool:
        return self.toolchain.available()

    def missing(self) -> str:
        return "" if self.available() else self.toolchain.install

    def build(self, model: Model, out: Path, flags: Iterable[str]) -> Image:
        library = self.toolchain.compile_shared([model.source], out / "model.so", flags, [model.folder])
        return _HostImage(model, library)


@dataclass(frozen=True)
class _HostImage:
    model: Model
    library: Path

    def run(self, inputs: Floats, input_variance: Floats | None, profile: bool) -> DeviceResult:
        predict: Callable[..., int] = getattr(_load_library(self.library), f"{self.model.name}_predict")
        records = np.zeros(len(inputs), _record_type(self.model))
        work = np.zeros(max(self.model.work_len, 1), np.float32)
        mean, variance = np.zeros((2, self.model.output_len), np.float32)
        given = [inputs] if input_variance is None else [inputs, input_variance]
        for index, record in enumerate(records):
            buffers = [*(array[index] for array in given), mean, variance, work]
            record["status"] = predict(*(ctypes.c_void_p(buffer.ctypes.data) for buffer in buffers))
            record["mean"], record["variance"] = mean, variance
        return _result(self.model, records, None)


@dataclass(frozen=True)
class SanitizedDevice:
    """The model as a host program that stops at the first undefined behaviour or wrong memory access."""

    name: str
    toolchain: Toolchain

    def available(self) -> bool:
        return self.toolchain.available()

    def missing(self) -> str:
        return "" if self.available() else self.toolchain.install

    def build(self, model: Model, out: Path, flags: Iterable[str]) -> Image:
        targets = targets_folder()
        sources = [targets / "host_io.c", targets / "run_samples.c", model.source]
        given = (*SANITIZE_FLAGS, *model_flags(model.name, model.input_variance), *flags, "-lm")
        program = self.toolchain.compile(sources, out / "model", given, [targets, model.folder])
        return _SanitizedImage(self.name, model, program)


@dataclass(frozen=True)
class _SanitizedImage:
    name: str
    model: Model
    program: Path

    def run(self, inputs: Floats, input_variance: Floats | None, profile: bool) -> DeviceResult:
        command = (str(self.program.resolve()),)
        run, _, records = _run_samples(
            self.name, self.model, inputs, input_variance, lambda folder: _run_program(command, folder, RUN_SECONDS, self.name)
        )
        return _result(self.model, records, None, stderr=run.stderr)


def _run_samples(
    name: str,
    model: Model,
    inputs: Floats,
    input_variance: Floats | None,
    run: Callable[[Path], QemuRun],
) -> tuple[QemuRun, int, NDArray[np.void]]:
    """Runs a program built from run_samples.c: what it did, the ticks of an empty call, a record for each sample."""
    samples = inputs if input_variance is None else np.concatenate([inputs, input_variance], axis=1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "inputs.bin").write_bytes(samples.astype("<f4").tobytes())
        done = run(folder)
        if done.status != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["no message"]
            raise EmulationFault(f"{name}: the program ended with status {done.status}: {_sanitizer_line(done.stderr) or last[0]}")
        output = (folder / "outputs.bin").read_bytes()
    records = np.frombuffer(output[4:], _record_type(model))
    if len(records) != len(inputs):
        raise EmulationFault(f"{name}: {len(records)} results for {len(inputs)} samples")
    return done, int.from_bytes(output[:4], "little"), records


def _sanitizer_line(stderr: str) -> str | None:
    return next((line.strip() for line in stderr.splitlines() if "runtime error" in line or "ERROR:" in line), None)


@dataclass(frozen=True)
class UnicornDevice:
    """An emulated core, with zig (pip alone) or gcc as the compiler."""

    name: str
    core: Core
    compiler: Toolchain

    @property
    def _uses_zig(self) -> bool:
        return self.compiler.name == "zig"

    def available(self) -> bool:
        return not self.missing()

    def missing(self) -> str:
        emulator = "" if importlib.util.find_spec("unicorn") else "pip install unicorn"
        compiler = "" if self.compiler.available() else self.compiler.install
        return "; ".join(part for part in (compiler, emulator) if part)

    def build(self, model: Model, out: Path, flags: Iterable[str]) -> Image:
        script = out / "image.ld"
        script.write_text(linker_script(self.name, IMAGE_MEMORY, f"{model.name}_predict"))
        link = compile_zig if self._uses_zig else compile_gcc
        stack = () if self._uses_zig else STACK_FLAGS
        given = (*stack, f"-Wl,-e,{model.name}_predict", *flags)
        elf = link(self.core, [model.source], out / "model.elf", script, given, [model.folder])
        bound = None if self._uses_zig else stack_bound(out.glob("*.ci"), f"{model.name}_predict")
        return _UnicornImage(self.core, model, elf, bound)


@dataclass(frozen=True)
class _UnicornImage:
    core: Core
    model: Model
    elf: Path
    bound: StackBound | None

    def run(self, inputs: Floats, input_variance: Floats | None, profile: bool) -> DeviceResult:
        model, machine = self.model, UnicornMachine(self.elf, self.core)
        given = [inputs] if input_variance is None else [inputs, input_variance]
        buffers = [machine.alloc(model.input_len) for _ in given]
        mean, variance = machine.alloc(model.output_len), machine.alloc(model.output_len)
        arguments = (*buffers, mean, variance, machine.alloc(max(model.work_len, 1)))
        records = np.zeros(len(inputs), _record_type(model))
        instructions = np.zeros(len(inputs), np.int64)
        machine.paint_stack()
        for index, record in enumerate(records):
            for buffer, array in zip(buffers, given, strict=True):
                machine.write(buffer, array[index])
            before = machine.instructions
            record["status"] = machine.call(f"{model.name}_predict", *arguments)
            instructions[index] = machine.instructions - before
            record["mean"] = machine.read(mean, model.output_len)
            record["variance"] = machine.read(variance, model.output_len)
        return _result(
            model,
            records,
            instructions,
            sizes=image_sizes(self.elf, model.weight_pattern),
            stack_bytes=machine.stack_used(),
            stack_bound=self.bound,
            profile=machine.profile() if profile else {},
        )


@dataclass(frozen=True)
class QemuDevice:
    """An emulated board: a whole firmware image, compiled by gcc."""

    board: Board

    @property
    def name(self) -> str:
        return self.board.name

    @property
    def _core(self) -> Core:
        return CORES[self.board.core]

    def available(self) -> bool:
        return not self.missing()

    def missing(self) -> str:
        compiler = cross_gcc(self._core)
        program = emulator_command(self.board)[0]
        package = "qemu-system-misc" if self._core.riscv else "qemu-system-arm"
        wanted = ("" if compiler.available() else compiler.install, "" if shutil.which(program) else f"apt install {package}")
        return "; ".join(part for part in wanted if part)

    def build(self, model: Model, out: Path, flags: Iterable[str]) -> Image:
        sources = [targets_folder() / "run_samples.c", model.source]
        given = (*STACK_FLAGS, *model_flags(model.name, model.input_variance), *flags)
        elf = QemuBoard(self.board).build(sources, out / "model.elf", given, [model.folder])
        return _QemuImage(self.board, model, elf, stack_bound(out.glob("*.ci"), f"{model.name}_predict"))


@dataclass(frozen=True)
class _QemuImage:
    board: Board
    model: Model
    elf: Path
    bound: StackBound

    def run(self, inputs: Floats, input_variance: Floats | None, profile: bool) -> DeviceResult:
        machine = QemuBoard(self.board)
        run, empty, records = _run_samples(
            self.board.name, self.model, inputs, input_variance, lambda folder: machine.run(self.elf, folder)
        )
        # The empty function has two instructions; the rest of its time is the call's own.
        scale = self.board.timer.ticks_per_instruction
        overhead = round(empty / scale) - 2
        instructions = np.rint(records["ticks"] / scale).astype(np.int64) - overhead
        sizes = image_sizes(self.elf, self.model.weight_pattern)
        return _result(
            self.model, records, instructions, sizes=sizes, stack_bound=self.bound, stderr=run.stderr
        )


def _devices() -> Iterable[Device]:
    yield HostDevice("c", TOOLCHAINS["host"])
    yield from (HostDevice(f"c-{name}", TOOLCHAINS[name]) for name in ("gcc", "clang", "zig"))
    yield SanitizedDevice("c-sanitized", TOOLCHAINS["host"])
    emulated = [core for core in CORES.values() if core.unicorn]
    yield from (UnicornDevice(core.name, core, TOOLCHAINS["zig"]) for core in emulated)
    yield from (UnicornDevice(f"{core.name}-gcc", core, cross_gcc(core)) for core in emulated)
    yield from (QemuDevice(board) for board in BOARDS.values())


DEVICES: Mapping[str, Device] = {device.name: device for device in _devices()}


def find_device(name: str) -> Device:
    """The device called `name`, which must be usable here."""
    if name not in DEVICES:
        raise LbnnError(f"unknown device '{name}'; known are {', '.join(DEVICES)}")
    device = DEVICES[name]
    if not device.available():
        raise LbnnError(f"device '{name}' needs: {device.missing()}")
    return device


def run_model(
    device: str | Device,
    folder: Path,
    name: str,
    inputs: Floats,
    input_variance: Floats | None = None,
    flags: Iterable[str] = (),
    profile: bool = False,
) -> DeviceResult:
    """Compiles the generated model NAME in `folder` for `device` and predicts `inputs` [n, input_len] there."""
    chosen = find_device(device) if isinstance(device, str) else device
    model = read_model(folder.resolve(), name, input_variance is not None)
    samples = [np.ascontiguousarray(x, np.float32) for x in (inputs, input_variance) if x is not None]
    for array in samples:
        if array.ndim != 2 or array.shape[1] != model.input_len:
            raise LbnnError(f"inputs have shape {array.shape}, but {name} wants (samples, {model.input_len})")
    with tempfile.TemporaryDirectory() as temporary:
        image = chosen.build(model, Path(temporary), tuple(flags))
        return image.run(samples[0], samples[1] if len(samples) > 1 else None, profile)
