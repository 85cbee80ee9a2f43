"""Boards that QEMU emulates whole: their core, their memory, and a clock that counts instructions.

Adding a board is a row of BOARDS (docs/devices.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lbnn.device.cores import CORES, Core

KB, MB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Memory:
    """Where an image is linked: bytes, addresses. Constants lie in a ROM of their own where there is one."""

    rom_base: int
    rom_size: int
    ram_base: int
    ram_size: int
    constants_base: int = 0
    constants_size: int = 0


@dataclass(frozen=True)
class Timer:
    """A clock that counts instructions under `-icount shift=SHIFT`, where one instruction lasts 2^SHIFT ns."""

    kind: str
    base: int
    hertz: float
    shift: int = 8

    @property
    def ticks_per_instruction(self) -> float:
        """An exact ratio for every clock in the table."""
        return self.hertz * float(1 << self.shift) / 1e9

    @property
    def flags(self) -> tuple[str, ...]:
        """Tells c_runtime/targets/timer.h which clock this is."""
        return (f"-DLBNN_TIMER_{self.kind}", f"-DLBNN_TIMER_BASE={self.base:#x}u")


@dataclass(frozen=True)
class Board:
    """A machine that QEMU emulates whole; `machine` is its name there."""

    name: str
    machine: str
    core: Core
    memory: Memory
    timer: Timer


_MICROBIT = Memory(0, 256 * KB, 0x20000000, 16 * KB)
_MPS2 = Memory(0, 4 * MB, 0x20000000, 4 * MB)
_AN505 = Memory(0x10000000, 4 * MB, 0x38000000, 4 * MB)
_AN547 = Memory(0, 512 * KB, 0x31000000, 4 * MB, 0x38000000, 8 * MB)
_VIRT = Memory(0x80000000, 4 * MB, 0x80400000, 4 * MB)

_MPS2_TIMER = Timer("CMSDK", 0x40000000, 25e6)
_MINSTRET = Timer("MINSTRET", 0, 1e9, shift=0)

BOARDS: Mapping[str, Board] = {
    board.name: board
    for board in (
        Board("microbit", "microbit", CORES["cortex-m0"], _MICROBIT, Timer("NRF51", 0x40008000, 16e6)),
        Board("mps2-an385", "mps2-an385", CORES["cortex-m3"], _MPS2, _MPS2_TIMER),
        Board("mps2-an386", "mps2-an386", CORES["cortex-m4"], _MPS2, _MPS2_TIMER),
        Board("mps2-an500", "mps2-an500", CORES["cortex-m7"], _MPS2, _MPS2_TIMER),
        Board("mps2-an505", "mps2-an505", CORES["cortex-m33"], _AN505, Timer("CMSDK", 0x50000000, 20e6)),
        Board("mps3-an547", "mps3-an547", CORES["cortex-m55"], _AN547, Timer("FPGAIO", 0x59302000, 20e6)),
        Board("riscv-virt-rv32imac", "virt", CORES["rv32imac"], _VIRT, _MINSTRET),
        Board("riscv-virt-rv32imafc", "virt", CORES["rv32imafc"], _VIRT, _MINSTRET),
    )
}
