"""Prints estimated cycles of the benchmark models on Cortex-M4F and M7, with and without fused multiply-adds.

    python tools/tables/cycle_table.py          # M1 to M5
    python tools/tables/cycle_table.py kws ad   # these of M1 to M5 and of MLPerf Tiny

By the model of lbnn/device/cycles.py, compiled by gcc with `-O2 -fno-math-errno` and `-std=gnu99`, which lets it fuse,
or `-std=c99`, which does not.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

from cost_table import markdown
from lbnn.base.terminal import progress, thousands
from lbnn.device.cycles import Cycles
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.model.file import read_model

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/bench"))
small, tiny = (importlib.import_module(name) for name in ("bench_models", "tiny_models"))
MODELS = small.MODELS | tiny.TINY
CORES = {"cortex-m4-gcc": "Cortex-M4F", "cortex-m7-gcc": "Cortex-M7"}
HEAD = [
    "",
    "core",
    "instructions",
    "cycles",
    "a wait state",
    "instructions",
    "cycles",
    "a wait state",
    "c99 over gnu99",
]


def measured(name: str, core: str) -> dict[str, tuple[int, Cycles]]:
    """Instructions and cycles of one prediction, by the language that gcc is told."""
    of = tiny.TINY if name in tiny.TINY else small.MODELS
    model, options = read_model(small.build(name, of), MODELS[name][1]), COptions(name=NAME)
    inputs, found = ordinary_inputs(model)[:1].reshape(1, -1), {}
    with tempfile.TemporaryDirectory() as folder:
        generated = write_program(lower(model, options), model, options, Path(folder) / "c")
        for language in ("gnu99", "c99"):
            result = run_model(core, generated, inputs, flags=(f"-std={language}",), profile=True)
            if result.cycles is None or result.instructions is None:
                sys.exit("cycles need capstone: pip install 'lbnn[mcu]'")
            found[language] = (int(result.instructions[0]), result.cycles)
    return found


def row(name: str, core: str, found: dict[str, tuple[int, Cycles]]) -> list[str]:
    """Both languages, and how many times the cycles of the first the second takes."""
    cells = [name.upper(), CORES[core]]
    for count, cycles in found.values():
        about = thousands(cycles.low) + ("" if cycles.low == cycles.high else f" to {thousands(cycles.high)}")
        cells += [thousands(count), about, thousands(cycles.wait_state)]
    return [*cells, "{:.2f} to {:.2f}".format(*ratios(found))]


def ratios(found: dict[str, tuple[int, Cycles]]) -> tuple[float, float]:
    """Cycles with c99 over those with gnu99, for multiply-adds of 3 and of 1 cycles."""
    fused, plain = found["gnu99"][1], found["c99"][1]
    return plain.high / fused.high, plain.low / fused.low


def summary(found: list[tuple[float, float]]) -> str:
    """What the ratios of a Cortex-M4F come to."""
    slow, quick = ([round(100 * abs(one - 1)) for one in part] for part in zip(*found, strict=True))
    return (
        f"On the Cortex-M4F `-std=c99` saves {min(slow)} to {max(slow)} % of the cycles if VFMA takes 3, and costs "
        f"{min(quick)} to {max(quick)} % more\nif it takes 1."
    )


def main(names: list[str]) -> None:
    """The table of these models."""
    with progress("models", names or list(small.MODELS)) as steps:
        found = {(name, core): measured(name, core) for name in steps for core in CORES}
    print(markdown([HEAD, *(row(*key, value) for key, value in found.items())], words=2))
    print(f"\n{summary([ratios(value) for (_, core), value in found.items() if core == 'cortex-m4-gcc'])}")


if __name__ == "__main__":
    main(sys.argv[1:])
