"""Holds generated integers to their reference: every model, a thousand samples, on every compiler, level and core.

    python tools/check/integers.py --models "gas sensor;M2" --dtypes int8 --places "c-gcc -O2;cortex"

A sample differs if a bit of its result, or its status, is not that of the reference; status 1 if one does.
`pytest tests/exporters/c/dtypes/test_integer_thousand.py` is the part of it that the suite runs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from lbnn.base.terminal import print_table, progress
from lbnn.device.compilers import HOST_TOOLCHAINS
from lbnn.device.devices import DEVICES, Device
from lbnn.device.hosts import SanitizedDevice

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/support", "tools/bench")]
models: Any = importlib.import_module("int_thousand")
cores: Any = importlib.import_module("int_models")

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
Place = tuple[Device, tuple[str, ...]]


def all_places() -> dict[str, Place]:
    """Every compiler at every level with 64 and 32 bits, sanitizers, and each core by zig or gcc; M55 is a board."""
    hosts = {f"{name} {level}": (DEVICES[name], (level,)) for name in ("c-gcc", "c-clang", "c-x86") for level in LEVELS}
    native = {f"{name} -O3 -march=native": (DEVICES[name], ("-O3", "-march=native")) for name in ("c-gcc", "c-clang")}
    checked = {
        f"{name}, sanitizers": (SanitizedDevice(f"{name}, sanitizers", HOST_TOOLCHAINS[name]), ())
        for name in ("gcc", "clang")
    }
    emulated = {name: (DEVICES[name], ()) for name in cores.CORES}
    return {**hosts, **native, **checked, **emulated}


def main() -> None:
    """Prints the table; status 1 if a sample differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="names of models, the whole or a part of each, separated by semicolons")
    parser.add_argument("--dtypes", default="int8,int16", help="arithmetics, separated by commas")
    parser.add_argument("--places", help="compilers with their levels, sanitizers and cores, in the same way")
    given = parser.parse_args()
    start = time.monotonic()
    chosen = [name for name in models.THOUSANDS if is_asked(name, given.models)]
    asked = {name: place for name, place in all_places().items() if is_asked(name, given.places)}
    places = {name: place for name, place in asked.items() if not place[0].missing()}
    found = run(list(product(chosen, given.dtypes.split(","))), places)
    rows = [(name, str(len(places)), shown(cells)) for name, cells in found.items()]
    print_table(("model", "places", "samples that differ"), rows, f"{models.SAMPLES} samples a model")
    for name in asked.keys() - places.keys():
        print(f"left out: {name} ({asked[name][0].missing()})")
    wrong = sum(count > 0 for cells in found.values() for count in cells.values())
    runs, minutes = len(places) * len(found), (time.monotonic() - start) / 60
    print(f"{runs} runs, {wrong} with samples that differ, {minutes:.0f} minutes")
    sys.exit(wrong > 0)


def is_asked(name: str, parts: str | None) -> bool:
    """Whether a name holds one of the texts that semicolons separate; all do if there are none."""
    return parts is None or any(part in name for part in parts.split(";"))


def shown(cells: Mapping[str, int]) -> str:
    """The places where samples differ, and how many."""
    return ", ".join(f"{place}: {count}" for place, count in cells.items() if count) or "none"


def run(rows: Sequence[tuple[str, str]], places: Mapping[str, Place]) -> dict[str, dict[str, int]]:
    """How many samples differ in each place, by model and arithmetic."""
    found: dict[str, dict[str, int]] = {}
    with progress("running", [" ".join(row) for row in rows]) as names:
        for row, name in zip(rows, names, strict=True):
            held = models.thousand(*row)
            with tempfile.TemporaryDirectory() as folder:
                net = held.write(Path(folder))
                found[name] = {place: held.differ(device, net, flags) for place, (device, flags) in places.items()}
    return found


if __name__ == "__main__":
    main()
