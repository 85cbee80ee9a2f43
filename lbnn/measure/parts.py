"""Well-known microcontrollers, and whether a model fits them with room for the rest of a firmware.

Flash: weights, code, the routines for float where the core has no unit for it and they are called, and a reserve. RAM:
work buffer, stack and a reserve. The estimate of code and stack is an upper bound for gcc on Cortex-M, see
lbnn/exporters/c/footprint.py; other instruction sets get an allowance on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lbnn.exporters.c import Footprint

KIB = 1024
RESERVE_FLASH, RESERVE_RAM = 4 * KIB, 1 * KIB
"""For start-up code, drivers and the application's own variables: the least that a useful firmware takes."""
SOFT_FLOAT = 6 * KIB
"""libgcc's routines for float; on a Cortex-M0 a whole model had 5.7 KB more code than on a Cortex-M4F."""


@dataclass(frozen=True)
class Chip:
    """A part, bytes that one model can use: RAM is the largest block, flash that of the usual board if external.

    `code` is how many times the code of a Cortex-M it needs at most. `copies_constants`: avr-gcc keeps constants in
    RAM too, because an AVR reads flash with instructions of its own. `wide_int`: an int has 32 bits.
    """

    name: str
    core: str
    fpu: bool
    flash: int
    ram: int
    note: str = ""
    code: float = 1.0
    copies_constants: bool = False
    wide_int: bool = True


PARTS = (
    Chip("ATmega2560", "AVR, 8 bits", False, 256 * KIB, 8 * KIB, "weights also in RAM", 2.5, True, False),
    Chip("STM32F030R8", "Cortex-M0", False, 64 * KIB, 8 * KIB),
    Chip("RP2040", "Cortex-M0+", False, 2048 * KIB, 264 * KIB, "flash of a Pico"),
    Chip("ESP32-C3", "RV32IMC", False, 4096 * KIB, 384 * KIB, "flash of the usual module; 16 KB of RAM are cache", 1.5),
    Chip("STM32F407VG", "Cortex-M4F", True, 1024 * KIB, 128 * KIB, "and 64 KB of core-coupled RAM"),
    Chip("STM32L476RG", "Cortex-M4F", True, 1024 * KIB, 96 * KIB, "and 32 KB in a second block"),
    Chip("nRF52840", "Cortex-M4F", True, 1024 * KIB, 256 * KIB),
    Chip("STM32H743ZI", "Cortex-M7", True, 2048 * KIB, 512 * KIB, "AXI block; 1 MB in all"),
)


@dataclass(frozen=True)
class Fit:
    """What a model and the reserve take of a part, in bytes."""

    part: Chip
    flash: int
    ram: int
    compiles: bool = True

    @property
    def fits(self) -> bool:
        """Both memories suffice, and an int of the part is wide enough."""
        return self.compiles and self.flash <= self.part.flash and self.ram <= self.part.ram

    @property
    def flash_left(self) -> int:
        """Negative if that much is lacking."""
        return self.part.flash - self.flash

    @property
    def ram_left(self) -> int:
        """Negative if that much is lacking."""
        return self.part.ram - self.ram

    def as_plain(self) -> dict[str, Any]:
        """Everything as plain data."""
        part = {key: asdict(self.part)[key] for key in ("name", "core", "fpu", "flash", "ram", "note")}
        return {**part, "fits": self.fits, "flash_left": self.flash_left, "ram_left": self.ram_left}


def place(need: Footprint, part: Chip) -> Fit:
    """The model on one part."""
    code = round(part.code * need.code_bytes) + (0 if part.fpu or not need.floats else SOFT_FLOAT)
    constants = need.weight_bytes if part.copies_constants else 0
    return Fit(
        part,
        flash=need.weight_bytes + code + RESERVE_FLASH,
        ram=need.work_bytes + need.stack_bytes + constants + RESERVE_RAM,
        compiles=part.wide_int or not need.wide_int,
    )


def fits(need: Footprint, parts: Sequence[Chip] = PARTS) -> list[Fit]:
    """The model on each part."""
    return [place(need, part) for part in parts]
