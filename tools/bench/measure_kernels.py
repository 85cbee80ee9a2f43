"""Prints the table KERNELS of lbnn/exporters/c/footprint.py: the most code and stack of each kernel on Cortex-M.

    python tools/bench/measure_kernels.py
    python tools/bench/measure_kernels.py --half      # those that differ where weights are half floats: HALF_KERNELS
    python tools/bench/measure_kernels.py --integers  # INTEGER_KERNELS of int_footprint.py
    python tools/bench/measure_kernels.py --vectors   # those that differ without feature maps: VECTOR_KERNELS of it

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

GCC = "arm-none-eabi-gcc"
MEASURED = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33")
LEVELS = tuple((level, *size) for level in ("-O2", "-Os") for size in ((), ("-DLBNN_OPTIMIZE_SIZE",)))
KERNEL = re.compile(r"^LBNN_(?:KERNEL|INNER) [\w *]*?(lbnn_\w+)\(", re.MULTILINE)


def main() -> None:
    """Prints the table."""
    half, vectors, found = "--half" in sys.argv[1:], "--vectors" in sys.argv[1:], table()
    integers = vectors or "--integers" in sys.argv[1:]
    if half:
        found = dict(set(table(flags=("-DLBNN_HALF_WEIGHTS",)).items()) - set(found.items()))
    if vectors:
        found = of_vectors(found)
    kind = "HALF_" if half else "VECTOR_" if vectors else "INTEGER_" if integers else ""
    print(f"{kind}KERNELS: dict[str, tuple[int, int]] = {{")
    for name, (code, stack) in sorted(found.items()):
        if name.startswith("lbnn_int") == integers:
            print(f'    "{name}": ({code}, {stack}),')
    print("}")


def of_vectors(known: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """What differs where no layer has feature maps; kernels that are part of others then take nothing."""
    found = table(flags=("-DLBNN_INT_NO_MAPS",))
    return {name: found.get(name, (0, 0)) for name in known if found.get(name, (0, 0)) != known[name]}


def table(cores: Sequence[str] = MEASURED, flags: tuple[str, ...] = ()) -> dict[str, tuple[int, int]]:
    """The most that each kernel takes as a function of its own."""
    most: dict[str, tuple[int, int]] = {}
    for core in cores:
        for level in LEVELS:
            for name, found in measure((*CORES[core].gcc, *level, *flags)).items():
                most[name] = tuple(map(max, found, most.get(name, (0, 0))))  # type: ignore[assignment]
    return most


def measure(flags: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Bytes of code and of stack by kernel."""
    headers = sorted(path.name for path in resources.folder("c_runtime").glob("*.h"))
    names = [name for header in headers for name in KERNEL.findall(resources.header(header))]
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
