"""One emulated core whose C functions Python calls, by Unicorn."""

from __future__ import annotations

import importlib
import mmap
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbnn.base.errors import LbnnError
from lbnn.device.blocks import BlockCounts, native_counter, unicorn_constant
from lbnn.device.boards import KB, MB
from lbnn.device.cores import Core, UnicornFamily
from lbnn.device.elf import Segment, read_segments, read_symbols
from lbnn.device.runs import EmulationFault, OutOfMemory

# Nothing is mapped at address 0 nor around the stack, so that a null pointer and a stack overflow fault.
_STACK_BASE, _STACK_SIZE = 0x30000000, 256 * KB
_BUFFER_BASE, _BUFFER_SIZE = 0x60000000, 64 * MB
_RETURN_PAGE = 0x0F000000
_PAGE = 4 * KB
_ENGINE_SIZE = 1024 * MB + _BUFFER_SIZE + 64 * MB  # its buffer for translated code, our memory, and some for the rest
_PAINT = 0xA5A5A5A5
_INSTRUCTION_LIMIT = 20_000_000_000

_READ, _WRITE, _EXECUTE = 1, 2, 4  # permissions in Unicorn

# UC_MEM_READ_UNMAPPED, ..._PROT
_ACCESSES = {19: "read of", 20: "write to", 21: "jump to", 22: "write to", 23: "read of", 24: "jump to"}


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
        self._family = _known(core)
        self._abi = self._family.abi
        self._engine, self._registers = _open_engine(core)
        self._invalid: tuple[int, int] | None = None
        self._next_buffer = _BUFFER_BASE
        self._top = _STACK_BASE + _STACK_SIZE
        self._limit = limit
        self.segments = read_segments(elf)
        self._native = native
        self._map(self.segments)
        self._counts = BlockCounts(self.segments, self._family)
        self._counts.attach(self._engine, native_counter() if native else None)
        self._engine.hook_add(unicorn_constant("UC_HOOK_MEM_INVALID"), self._note_invalid_access)

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

    def taken(self) -> dict[int, int]:
        """How often each instruction was followed by another than its neighbour since then, by its address."""
        return self._counts.by_address(self._counts.taken)

    def count_constants(self) -> None:
        """From now on, lines of flash that are read are counted too, which makes loads slower here."""
        hook = native_counter("lbnn_count_read") if self._native else None
        for segment in self.segments:
            if not segment.writable:
                end = segment.address + segment.size
                self._counts.attach_reads(self._engine, hook, segment.address, end)

    @property
    def lines(self) -> int:
        """Lines of flash read since the last `reset_counts`."""
        return self._counts.lines

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
        self._set(self._abi.link, _RETURN_PAGE | self._family.code_bit)
        self._invalid = None
        self._counts.stop_after(self._limit)
        try:
            self._engine.emu_start(start, _RETURN_PAGE)
        except importlib.import_module("unicorn").UcError as error:
            raise EmulationFault(self._describe(error)) from None
        if self._pc() != _RETURN_PAGE:
            raise EmulationFault(
                f"{self.core.name}: {function} did not return within {self._limit} instructions, {self._place()}"
            )

    def _place_arguments(self, arguments: Sequence[int | float]) -> None:
        """Arm (AAPCS) and RISC-V (ilp32, ilp32f) do the same with words and floats, in registers of other names."""
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

    def _pc(self) -> int:
        return self._get(self._abi.counter) & ~self._family.code_bit

    def _place(self) -> str:
        pc = self._pc()
        name, offset = self.symbols.function_at(pc)
        return f"at pc {pc:#010x} ({name}+{offset:#x})"

    def _describe(self, error: Exception) -> str:
        if self._invalid is None:
            return f"{self.core.name}: {error}, {self._place()}"
        access, address = self._invalid
        return f"{self.core.name}: forbidden {_ACCESSES[access]} address {address:#010x}, {self._place()}"


def _known(core: Core) -> UnicornFamily:
    if core.unicorn is None or core.family.unicorn is None:
        raise LbnnError(f"Unicorn has no {core.name}; run it on a QEMU board")
    return core.family.unicorn


def _open_engine(core: Core) -> tuple[Any, dict[str, int]]:
    """A Unicorn engine for `core` and its register numbers by name."""
    family = _known(core)
    _refuse_small_memory(core)
    names = vars(importlib.import_module(f"unicorn.{family.arch.lower()}_const"))
    prefix = f"UC_{family.arch}_REG_"
    registers = {name.removeprefix(prefix): value for name, value in names.items() if name.startswith(prefix)}
    mode = sum(unicorn_constant(f"UC_MODE_{name}") for name in family.modes)
    engine: Any = importlib.import_module("unicorn").Uc(unicorn_constant(f"UC_ARCH_{family.arch}"), mode)
    engine.ctl_set_cpu_model(names[f"{family.cpu_prefix}{core.unicorn}"])
    for register, bits in family.fpu_bits if core.hard_float else ():
        engine.reg_write(registers[register], engine.reg_read(registers[register]) | bits)
    return engine, registers


def _refuse_small_memory(core: Core) -> None:
    """An error if there is no room for the engine, which would end the process with a message of its own."""
    try:
        mmap.mmap(-1, _ENGINE_SIZE, getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_NORESERVE", 0)).close()
    except OSError:
        raise OutOfMemory(f"{core.name}: the emulator") from None


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
