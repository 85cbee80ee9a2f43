"""Prints the table KERNELS of lbnn/exporters/c/footprint.py: the most code and stack of each kernel on Cortex-M.

    python tools/bench/measure_kernels.py
    python tools/bench/measure_kernels.py --half      # those that differ where weights are half floats: HALF_KERNELS
    python tools/bench/measure_kernels.py --integers  # INTEGER_KERNELS of int_footprint.py
    python tools/bench/measure_kernels.py --forms     # those that differ in models that leave parts out: int_forms.py

Needs arm-none-eabi-gcc. The library routines for float on cores without a floating-point unit are not included.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lbnn.base import resources
from lbnn.device.cores import CORES
from lbnn.device.stack import STACK_FLAGS, stack_bound
from lbnn.exporters.c.int_footprint import INTEGER_KERNELS

GCC = "arm-none-eabi-gcc"
MEASURED = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33")
LEVELS = tuple((level, *size) for level in ("-O2", "-Os") for size in ((), ("-DLBNN_OPTIMIZE_SIZE",)))
KERNEL = re.compile(r"^LBNN_(?:KERNEL|INNER) [\w *]*?(lbnn_\w+)\(", re.MULTILINE)

VECTOR_HEADERS = ("lbnn_int.h", "lbnn_int_linear.h", "lbnn_int_more.h")
MAP_HEADERS = (*VECTOR_HEADERS, *(f"lbnn_int_{part}.h" for part in ("map", "pool", "conv", "maxpool")))
FORMS = (
    ("MAPS",),
    ("MAPS", "FREE"),
    ("MAPS", "FACTORS"),
    ("MAPS", "FREE", "PAIRS"),
    ("MAPS", "FACTORS", "PAIRS"),
    ("DILATION", "CORRELATED"),
    ("FREE", "DILATION", "CORRELATED"),
    ("FACTORS", "DILATION", "CORRELATED"),
    ("FREE", "GROUPS", "DILATION", "CORRELATED"),
    ("FACTORS", "GROUPS", "DILATION", "CORRELATED"),
)
"""What models leave out together: macros LBNN_INT_NO_..."""

LEAST_BYTES = 32
"""Of code that a kernel of a form saves, to be told."""


def main() -> None:
    """Prints the table."""
    if "--forms" in sys.argv[1:]:
        print_forms()
        return
    half, integers, found = "--half" in sys.argv[1:], "--integers" in sys.argv[1:], table()
    if half:
        found = dict(set(table(flags=("-DLBNN_HALF_WEIGHTS",)).items()) - set(found.items()))
    kind = "HALF_" if half else "INTEGER_" if integers else ""
    print(f"{kind}KERNELS: dict[str, tuple[int, int]] = {{")
    for name, (code, stack) in sorted(found.items()):
        if name.startswith("lbnn_int") == integers:
            print(f'    "{name}": ({code}, {stack}),')
    print("}")


def print_forms() -> None:
    """INTEGER_FORMS of int_forms.py."""
    print("INTEGER_FORMS: dict[tuple[str, ...], dict[str, tuple[int, int]]] = {")
    for form in FORMS:
        print(f"    {form}: {{".replace("'", '"'))
        for name, (code, stack) in sorted(of_form(form).items()):
            print(f'        "{name}": ({code}, {stack}),')
        print("    },")
    print("}")


def of_form(form: tuple[str, ...], cores: Sequence[str] = MEASURED) -> dict[str, tuple[int, int]]:
    """Kernels that take more than in general, or much less; those that are part of others then take nothing."""
    headers = VECTOR_HEADERS if "MAPS" in form else MAP_HEADERS
    flags = tuple(f"-DLBNN_INT_NO_{what}" for what in form)
    found, general = table(cores, flags, headers), {name: INTEGER_KERNELS[name] for name in kernels_of(headers)}
    sizes = {name: found.get(name, (0, 0)) for name in general}
    return {name: size for name, size in sizes.items() if differs(size, general[name])}


def differs(size: tuple[int, int], general: tuple[int, int]) -> bool:
    """Whether it is worth a line."""
    return size[0] > general[0] or size[1] > general[1] or size[0] + LEAST_BYTES <= general[0]


def kernels_of(headers: Sequence[str]) -> list[str]:
    """The kernels in headers."""
    return [name for header in headers for name in KERNEL.findall(resources.header(header))]


def table(
    cores: Sequence[str] = MEASURED, flags: tuple[str, ...] = (), headers: Sequence[str] = ()
) -> dict[str, tuple[int, int]]:
    """The most that each kernel takes as a function of its own; of all headers unless some are given."""
    headers = headers or sorted(path.name for path in resources.folder("c_runtime").glob("*.h"))
    most: dict[str, tuple[int, int]] = {}
    for core in cores:
        for level in LEVELS:
            for name, found in measure((*CORES[core].gcc, *level, *flags), headers).items():
                most[name] = tuple(map(max, found, most.get(name, (0, 0))))  # type: ignore[assignment]
    return most


def measure(flags: tuple[str, ...], headers: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Bytes of code and of stack by kernel."""
    names = kernels_of(headers)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "all.c"
        source.write_text("#define LBNN_KERNEL\n" + "".join(f'#include "{header}"\n' for header in headers))
        include = f"-I{resources.folder('c_runtime')}"
        options = ("-std=c99", "-fno-math-errno", *STACK_FLAGS, *flags, include)
        subprocess.run((GCC, *options, "-c", source, "-o", source.with_suffix(".o")), check=True, cwd=folder)
        listing = subprocess.run(
            ("arm-none-eabi-nm", "-S", source.with_suffix(".o")), check=True, capture_output=True, text=True
        ).stdout
        sizes = {name: int(size, 16) for size, name in re.findall(r"^\w+ (\w+) [tT] ([\w.]+)$", listing, re.MULTILINE)}
        graph = source.with_suffix(".ci")
        return {
            name: (code_bytes(name, sizes, graph.read_text(), names), stack_bound([graph], name).bytes)
            for name in names
            if name in sizes  # some stand for instructions that not all cores have
        }


def code_bytes(name: str, sizes: dict[str, int], graph: str, kernels: list[str]) -> int:
    """A kernel and the functions it calls that are no kernels themselves."""
    edges = re.findall(r'edge: \{ sourcename: "(?:[^":]*:)?([^":]+)" targetname: "(?:[^":]*:)?([^":]+)"', graph)
    reached, found = {name}, [name]
    while found:
        caller = found.pop()
        inner = {callee for source, callee in edges if source == caller and callee in sizes and callee not in kernels}
        found += inner - reached
        reached |= inner
    return sum(sizes[function] for function in reached)


if __name__ == "__main__":
    main()
