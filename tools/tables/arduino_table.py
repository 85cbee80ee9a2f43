"""Prints what the thermometer's Arduino sketch takes of an Uno's memories: built with the real core, run in simavr.

Debian's arduino-core-avr has the core; Debian's avr-gcc 5.4 needs DECIMAL_DIG from outside to compile it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lbnn.base.terminal import thousands
from lbnn.exporters.c import COptions, export_c
from lbnn.model.file import read_model

ROOT = Path(__file__).resolve().parents[2]
CORE = Path("/usr/share/arduino/hardware/arduino/avr")
KB = 1024
STRICT = ("-Wall", "-Wextra", "-Werror")
C = ("-std=gnu11", "-fno-fat-lto-objects")
CPP = ("-std=gnu++11", "-fpermissive", "-fno-exceptions", "-fno-threadsafe-statics")


@dataclass(frozen=True)
class Board:
    """As avr-gcc, the core's variants and its macros call it."""

    chip: str
    variant: str
    macro: str
    ram: int


BOARDS = {
    "uno": Board("atmega328p", "standard", "AVR_UNO", 2 * KB),
    "mega": Board("atmega2560", "mega", "AVR_MEGA2560", 8 * KB),
}

# Paints all RAM before anything runs, and says after some rounds how much was never touched.
WITNESS = """
extern char __heap_start;
extern "C" void paint(void) __attribute__((naked, used, section(".init1")));
extern "C" void paint(void)
{
    __asm__ volatile("ldi r30, lo8(__heap_start)\\n ldi r31, hi8(__heap_start)\\n ldi r24, 0xa5\\n ldi r25, hi8(%0)\\n"
                     "1: st Z+, r24\\n cpi r30, lo8(%0)\\n cpc r31, r25\\n brlo 1b" :: "i"(RAMEND));
}
static void say_untouched()
{
    const char *at = &__heap_start;
    while (*at == static_cast<char>(0xa5)) at++;
    Serial.print(F("static "));
    Serial.print(reinterpret_cast<unsigned>(&__heap_start) - RAMSTART);
    Serial.print(F(" untouched "));
    Serial.println(static_cast<unsigned>(at - &__heap_start));
}
"""


def build(board: str, library: Path, sketch: str, folder: Path) -> Path:
    """What the Arduino builder does: its platform.txt has these flags."""
    is_for, core = BOARDS[board], CORE / "cores/arduino"
    (folder / "sketch.cpp").write_text(f"#include <Arduino.h>\n{sketch}")
    include = [f"-I{core}", f"-I{CORE / 'variants' / is_for.variant}", f"-I{library / 'src'}"]
    flags = [f"-mmcu={is_for.chip}", "-DF_CPU=16000000L", "-DARDUINO=10819", f"-DARDUINO_{is_for.macro}"]
    flags += ["-DARDUINO_ARCH_AVR", "-DDECIMAL_DIG=9", *include]
    flags += ["-Os", "-ffunction-sections", "-fdata-sections", "-flto", "-c"]
    commands = [["avr-gcc", *flags, *C, *map(str, sorted(core.glob("*.c")))]]
    commands += [["avr-gcc", *flags, *C, *STRICT, *map(str, sorted((library / "src").glob("*.c")))]]
    commands += [["avr-g++", *flags, *CPP, *map(str, sorted(core.glob("*.cpp")))]]
    commands += [["avr-g++", *flags, *CPP, *STRICT, "sketch.cpp"]]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda command: _run(command, folder), commands))
    objects = sorted(path.name for path in folder.glob("*.o"))
    link = ["-Os", "-flto", "-fuse-linker-plugin", "-Wl,--gc-sections", f"-mmcu={is_for.chip}"]
    _run(["avr-gcc", *link, *objects, "-lm", "-o", "sketch.elf"], folder)
    return folder / "sketch.elf"


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stderr}")


def printed(board: str, elf: Path, lines: int) -> list[str]:
    """The first lines that the sketch writes to its serial port; it runs for ever."""
    command = ["simavr", "-m", BOARDS[board].chip, "-f", "16000000", str(elf)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as sim:
        found: list[str] = []
        assert sim.stdout is not None
        for line in sim.stdout:
            text = re.sub(r"\x1b\[\d*m", "", line).strip()
            if text.endswith(".."):  # simavr shows the end of a line, CR and LF, as two dots
                found.append(text[:-2])
            if len(found) == lines:
                break
        sim.kill()
    return found


def watched(library: Path) -> str:
    """The example of a library, which also says what of RAM was never touched."""
    (sketch,) = library.glob("examples/*_example/*.ino")
    text = sketch.read_text().replace("void loop()", f"{WITNESS}\nvoid loop()")
    return text.replace("delay(1000);", "say_untouched();")


def ram(board: str, last: str) -> tuple[int, int]:
    """Bytes that were used, and of them static ones, of the last line that `watched` printed."""
    static, untouched = map(int, re.findall(r"\d+", last))
    return BOARDS[board].ram - untouched, static


def main() -> None:
    """A sentence."""
    if not CORE.exists():
        sys.exit("apt install arduino-core-avr")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = read_model(ROOT / "examples/sensor_firmware/thermometer.pt")
        library = export_c(model, folder / "thermometer", COptions(package="arduino"))
        used, static = ram("uno", printed("uno", build("uno", library, watched(library), folder), 5)[-1])
    print(f"It takes {thousands(used)} bytes of an Uno's RAM, {thousands(static)} of them static.")


if __name__ == "__main__":
    main()
