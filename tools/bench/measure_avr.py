"""Prints the tables of lbnn/exporters/c/avr_footprint.py: the most code of each kernel on AVR, and of libgcc for all.

    python tools/bench/measure_avr.py          # AVR_KERNELS and AVR_LIBRARY
    python tools/bench/measure_avr.py --half   # those that differ where weights are half floats: AVR_HALF_KERNELS

Needs avr-gcc. Each kernel is linked alone, so that its functions and tables count; integers need an int of 32 bits.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from lbnn.base import resources
from lbnn.device.elf import image_sizes
from measure_kernels import KERNEL, LEVELS

GCC, CHIP = "avr-gcc", "-mmcu=atmega2560"
ALONE = ("-nostdlib", "-Wl,--unresolved-symbols=ignore-all")
LINKED = (CHIP, "-nostartfiles", "-Wl,--gc-sections", "-Wl,--defsym=__TEXT_REGION_LENGTH__=0x100000")


def main() -> None:
    """Prints the table."""
    kernels, library = table()
    if half := "--half" in sys.argv[1:]:
        found, with_halves = table(("-DLBNN_HALF_WEIGHTS",))
        kernels, library = dict(set(found.items()) - set(kernels.items())), max(library, with_halves)
    print(f"AVR_{'HALF_' if half else ''}KERNELS: dict[str, int] = {{")
    for name, code in sorted(kernels.items()):
        print(f'    "{name}": {code},')
    print(f"}}\nAVR_LIBRARY = {library}")


def table(flags: tuple[str, ...] = ()) -> tuple[dict[str, int], int]:
    """The most that each kernel takes beside libgcc, and that libgcc takes for all of them."""
    most, library = dict[str, int](), 0
    for level in LEVELS:
        found, routines = measure((*level, *flags))
        most = {name: max(code, most.get(name, 0)) for name, code in found.items()}
        library = max(library, routines)
    return most, library


def measure(flags: tuple[str, ...]) -> tuple[dict[str, int], int]:
    """Bytes by kernel, and those of libgcc where all are linked."""
    headers = sorted(path.name for path in resources.folder("c_runtime").glob("*.h") if "_int" not in path.name)
    names = sorted({name for header in headers for name in KERNEL.findall(resources.header(header))})
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "all.c"
        source.write_text("#define LBNN_KERNEL\n" + "".join(f'#include "{header}"\n' for header in headers))
        options = (CHIP, "-std=c99", "-fno-math-errno", "-ffunction-sections", "-fdata-sections", *flags)
        include = f"-I{resources.folder('c_runtime')}"
        subprocess.run((GCC, *options, include, "-c", source, "-o", source.with_suffix(".o")), check=True)
        listing = subprocess.run(("avr-nm", source.with_suffix(".o")), check=True, capture_output=True, text=True)
        there = [name for name in names if f" T {name}\n" in listing.stdout]  # some need instructions of other cores
        sizes = {name: _linked(source, [name], ALONE) for name in there}
        return sizes, _linked(source, there, ("-lm",)) - _linked(source, there, ALONE)


def _linked(source: Path, names: list[str], flags: tuple[str, ...]) -> int:
    """Bytes of flash of what `names` need."""
    roots = (f"-Wl,-e,{names[0]}", *(f"-Wl,-u,{name}" for name in names))
    elf = source.with_suffix(".elf")
    subprocess.run((GCC, *LINKED, *roots, source.with_suffix(".o"), "-o", elf, *flags), check=True)
    return image_sizes(elf).flash


if __name__ == "__main__":
    main()
