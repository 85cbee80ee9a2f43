"""Well-known microcontrollers, and whether a model fits them with room for the rest of a firmware.

Flash: weights, code, the routines for float where the core has no unit for it and they are called, and a reserve. RAM:
work buffer, stack, the caller's input and output arrays, and a reserve. The estimate of code and stack is an upper
bound for gcc on Cortex-M, see lbnn/exporters/c/footprint.py; other instruction sets get an allowance on top, and AVR
has a bound of its own, which a compiler may stay far below: a part that it exceeds is "perhaps" large enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lbnn.exporters.c import Footprint
from lbnn.exporters.c.avr_footprint import LEAST_OF_BOUND

KIB = 1024
RESERVE_FLASH, RESERVE_RAM = 4 * KIB, 1 * KIB
"""For start-up code, drivers and the application's own variables: the least that a useful firmware takes."""
SOFT_FLOAT = 6 * KIB
"""libgcc's routines for float; on a Cortex-M0 a whole model had 5.7 KB more code than on a Cortex-M4F."""


@dataclass(frozen=True)
class Chip:
    """A part, bytes that one model can use: RAM is the largest block, flash that of the usual board if external.

    Both are from the `datasheet`, external flash from that of the board or module, which it names behind the chip's.
    `code` is how many times the code of a Cortex-M it needs at most. `wide_int`: an int has 32 bits. `device` runs
    what is built for it where only that tells.
    """

    name: str
    core: str
    fpu: bool
    flash: int
    ram: int
    datasheet: str
    note: str = ""
    code: float = 1.0
    wide_int: bool = True
    device: str = ""


_ATMEGA328P, _ATMEGA2560 = "Microchip DS40002061, ATmega48A to 328P", "Atmel 2549, ATmega640 to 2561"
_M4F, _M7, _M33 = "Cortex-M4F", "Cortex-M7", "Cortex-M33"


def _avr(name: str, flash: int, ram: int, datasheet: str, note: str, device: str) -> Chip:
    return Chip(name, "AVR, 8 bits", False, flash * KIB, ram * KIB, datasheet, note, wide_int=False, device=device)


def _with(chip: str, board: str) -> str:
    """The documents of a chip without flash of its own, and of the usual board or module around it."""
    return f"{chip}; flash: {board}"


PARTS = (
    _avr("Arduino Uno", 32, 2, _ATMEGA328P, "ATmega328P", "uno"),
    _avr("Arduino Nano", 32, 2, _ATMEGA328P, "ATmega328P; 2 KB may be boot loader", "uno"),
    _avr("Arduino Mega", 256, 8, _ATMEGA2560, "ATmega2560; 64 KB for weights", "mega2560"),
    Chip("Arduino Uno R4", _M4F, True, 256 * KIB, 32 * KIB, "Renesas R01DS0355, RA4M1", "R7FA4M1AB"),
    Chip("STM32F030R8", "Cortex-M0", False, 64 * KIB, 8 * KIB, "ST DS9773, STM32F030"),
    Chip("STM32G071RB", "Cortex-M0+", False, 128 * KIB, 36 * KIB, "ST DS12232, STM32G071", "32 KB with parity"),
    Chip(
        "RP2040",
        "Cortex-M0+",
        False,
        2048 * KIB,
        264 * KIB,
        _with("Raspberry Pi RP2040", "Raspberry Pi Pico"),
        "flash of a Pico",
    ),
    Chip(
        "RP2350",
        _M33,
        True,
        4096 * KIB,
        520 * KIB,
        _with("Raspberry Pi RP2350", "Raspberry Pi Pico 2"),
        "flash of a Pico 2",
    ),
    Chip(
        "ESP32",
        "Xtensa LX6",
        True,
        4096 * KIB,
        160 * KIB,
        _with("Espressif ESP32 Series", "Espressif ESP32-WROOM-32E"),
        "520 KB in all; static data in ESP-IDF",
        1.5,
    ),
    Chip(
        "ESP32-S3",
        "Xtensa LX7",
        True,
        8192 * KIB,
        416 * KIB,
        _with("Espressif ESP32-S3 Series", "Espressif ESP32-S3-WROOM-1"),
        "512 KB in all; flash of the module's N8",
        1.5,
    ),
    Chip(
        name="ESP32-C3",
        core="RV32IMC",
        fpu=False,
        flash=4096 * KIB,
        ram=384 * KIB,
        datasheet=_with("Espressif ESP32-C3 Series", "Espressif ESP32-C3-MINI-1"),
        note="flash of the usual module; 16 KB of RAM are cache",
        code=1.5,
    ),
    Chip("STM32F407VG", _M4F, True, 1024 * KIB, 128 * KIB, "ST DS8626, STM32F407", "and 64 KB of core-coupled RAM"),
    Chip("STM32L476RG", _M4F, True, 1024 * KIB, 96 * KIB, "ST DS10198, STM32L476", "and 32 KB in a second block"),
    Chip("nRF52840", _M4F, True, 1024 * KIB, 256 * KIB, "Nordic nRF52840 Product Specification"),
    Chip("nRF5340", _M33, True, 1024 * KIB, 512 * KIB, "Nordic nRF5340 Product Specification", "application core"),
    Chip("STM32U575ZI", _M33, True, 2048 * KIB, 768 * KIB, "ST DS13737, STM32U575", "SRAM 1 to 3 side by side"),
    Chip("STM32H743ZI", _M7, True, 2048 * KIB, 512 * KIB, "ST DS12110, STM32H743", "AXI block; 1 MB in all"),
    Chip(
        "Teensy 4.0",
        _M7,
        True,
        1984 * KIB,
        512 * KIB,
        _with("NXP IMXRT1060CEC, i.MX RT1062", "PJRC Teensy 4.0 Technical Specifications"),
        "1 MB of RAM in all",
    ),
)


@dataclass(frozen=True)
class Fit:
    """What a model and the reserve take of a part at most, in bytes; `least_flash` where much less may be taken."""

    part: Chip
    flash: int
    ram: int
    least_flash: int
    compiles: bool = True

    @property
    def fits(self) -> bool:
        """Both memories suffice, and an int of the part is wide enough."""
        return self._takes(self.flash)

    @property
    def perhaps(self) -> bool:
        """Whether that depends on what the compiler leaves of the code."""
        return not self.fits and self._takes(self.least_flash)

    def _takes(self, flash: int) -> bool:
        return self.compiles and flash <= self.part.flash and self.ram <= self.part.ram

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
        part = {key: asdict(self.part)[key] for key in ("name", "core", "fpu", "flash", "ram", "datasheet", "note")}
        said = {"fits": self.fits, "perhaps": self.perhaps}
        return {**part, **said, "flash_left": self.flash_left, "ram_left": self.ram_left}


def place(need: Footprint, part: Chip) -> Fit:
    """The model on one part."""
    most, least = _code(need, part)
    return Fit(
        part,
        flash=need.weight_bytes + most + RESERVE_FLASH,
        least_flash=need.weight_bytes + least + RESERVE_FLASH,
        ram=need.ram_bytes + need.io_bytes + RESERVE_RAM,
        compiles=part.wide_int or not need.wide_int,
    )


def _code(need: Footprint, part: Chip) -> tuple[int, int]:
    """Bytes at most and at least."""
    if not part.wide_int:
        return need.avr_code_bytes, round(LEAST_OF_BOUND * need.avr_code_bytes)
    most = round(part.code * need.code_bytes) + (0 if part.fpu or not need.floats else SOFT_FLOAT)
    return most, most


def fits(need: Footprint, parts: Sequence[Chip] = PARTS) -> list[Fit]:
    """The model on each part."""
    return [place(need, part) for part in parts]


PERHAPS = "the bound for AVR is too large for it, but what is built takes a fifth to four fifths of that; build it"


def verdict(fit: Fit) -> str:
    """In a word or two."""
    return "ok" if fit.fits else "perhaps" if fit.perhaps else "too small"
