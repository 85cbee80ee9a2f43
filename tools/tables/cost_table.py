"""Prints what predictions cost on emulated cores, as the pages show it: exact counts, the same on every machine.

    python tools/tables/cost_table.py core              # the benchmark models on a Cortex-M4F
    python tools/tables/cost_table.py layers            # each layer of M1 and M2 there
    python tools/tables/cost_table.py soft              # M1 on cores without a floating-point unit
    python tools/tables/cost_table.py vector            # every model on a Cortex-M55 in QEMU, with Helium and without
    python tools/tables/cost_table.py runtime           # M1 to M3: for speed, for size, strict, without a unit
    python tools/tables/cost_table.py size              # what --optimize size saves and costs
    python tools/tables/cost_table.py model MODEL.pt    # another model on a Cortex-M4F and a Cortex-M0

    python tools/tables/cost_table.py readme            # the README's choice of the rows of docs/performance.md

All are compiled by gcc, `-O2 -std=gnu99 -fno-math-errno` unless said otherwise. "Code" is what flash holds besides
weights.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lbnn.base.terminal import kilobytes, progress, thousands
from lbnn.device.devices import run_model
from lbnn.device.results import DeviceResult
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.counting import DEVICE_FLAGS, Counted, count_backend, reference_layer_costs
from lbnn.measure.layers import FEWEST, LayerCost, total
from lbnn.measure.subject import COUNTED, NAME, Subject, ordinary_inputs
from lbnn.model.file import Model, read_model

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/bench"))
models = importlib.import_module("bench_models")
tiny = importlib.import_module("tiny_models")

M4, M3, M0, M55 = "cortex-m4-gcc", "cortex-m3-gcc", "cortex-m0-gcc", "mps3-an547"
STRICT = ("-std=c99", "-DLBNN_STRICT")
NO_HELIUM = "-mcpu=cortex-m55+nomve"  # scalar code: not a vector, not even one of the compiler's own
LABELS = {M4: "Cortex-M4F", M0: "Cortex-M0 (no FPU)"}


def markdown(rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table; its first row is the head, all columns but the first `words` hold numbers."""
    head, *body = rows
    lines = [head, [*["---"] * words, *["---:"] * (len(head) - words)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def built(name: str) -> Model:
    """A benchmark model."""
    return read_model(models.build(name), models.MODELS[name][1])


def counted(model: Model, device: str, options: COptions | None = None) -> Counted:
    """What a prediction takes there, with and without variances."""
    options = options or COptions(name=NAME)
    program = lower(model, options)
    with tempfile.TemporaryDirectory() as folder:
        generated = write_program(program, model, options, Path(folder) / "c")
        found = count_backend(device, Subject(Path(), model, program, generated, ordinary_inputs(model)), True)
    assert isinstance(found, Counted)
    return found


def emulated(name: str, device: str, *flags: str, optimize: str = "speed") -> DeviceResult:
    """Predictions of a benchmark model."""
    model, options = built(name), COptions(name=NAME, optimize=optimize)
    with tempfile.TemporaryDirectory() as folder:
        generated = write_program(lower(model, options), model, options, Path(folder) / "c")
        inputs = ordinary_inputs(model)[:COUNTED].reshape(COUNTED, -1)
        return run_model(device, generated, inputs, flags=flags or DEVICE_FLAGS, profile=True)


def code_bytes(name: str, result: DeviceResult, optimize: str = "speed") -> int:
    """Flash without the weights."""
    weights = footprint(lower(built(name), COptions(name=NAME, optimize=optimize))).weight_bytes
    return int(result.sizes.flash) - weights if result.sizes else 0


def core() -> str:
    """The benchmark models side by side on a Cortex-M4F."""
    with progress("models", list(models.MODELS)) as names:
        found = {name: counted(built(name), M4) for name in names}
    rows: dict[str, Callable[[Counted], str]] = {
        "**instructions, mean and variance**": lambda one: f"**{thousands(one.cost.instructions)}**",
        "the plain network by the same kernels": lambda one: thousands(one.plain.instructions if one.plain else None),
        "flash": lambda one: kilobytes((one.cost.code_bytes or 0) + (one.cost.weight_bytes or 0)),
        "of it code and tables": lambda one: kilobytes(one.cost.code_bytes),
        "RAM with stack": lambda one: kilobytes((one.cost.work_bytes or 0) + (one.cost.stack_bytes or 0)),
    }
    heads = [f"{name.upper()}: {models.MODELS[name][0]}" for name in found]
    return markdown([["", *heads], *([label, *map(cell, found.values())] for label, cell in rows.items())])


def layers() -> str:
    """Each layer of M1 and M2 beside the least that its arithmetic needs."""
    return "\n\n".join(f"{name.upper()}: {models.MODELS[name][0]}\n\n{_layers(built(name))}" for name in ("m1", "m2"))


def _layers(model: Model) -> str:
    costs = reference_layer_costs(model)
    rows = [[one.layer, one.op, one.shape, *_cells(one)] for one in (*costs, total(costs))]
    return markdown([["layer", "operator", "shape", "instructions", FEWEST, "ratio"], *rows], words=3)


def _cells(one: LayerCost) -> list[str]:
    return [thousands(one.instructions), thousands(one.minimum), f"{one.ratio:.2f}"]


def soft() -> str:
    """Where the instructions of M1 go on cores without a floating-point unit."""
    rows = [["M1 on", "instructions", "the kernels' own, beside those of the float library"]]
    for device, label in ((M0, "Cortex-M0"), (M3, "Cortex-M3")):
        functions = emulated("m1", device).functions
        whole = sum(functions.values())
        own = sum(count for name, count in functions.items() if name.startswith(("lbnn_", NAME)))
        rows.append([label, thousands(whole // COUNTED), f"{own / (whole - own):.1%}"])
    return markdown(rows)


def vector() -> str:
    """Every benchmark model with a vector unit of a microcontroller, and without."""
    every = {**models.MODELS, **tiny.TINY}
    rows = [["instructions on a Cortex-M55", "scalar code", "with Helium", "times as many"]]
    with progress("models", list(every)) as names:
        for name in names:
            scalar, helium = (on_m55(name, every, flags) for flags in ((*DEVICE_FLAGS, NO_HELIUM), DEVICE_FLAGS))
            title = f"{name.upper()}: {every[name][0]}"
            rows.append([title, thousands(scalar), thousands(helium), f"{helium / scalar:.2f}"])
    return markdown(rows)


def on_m55(name: str, every: Any, flags: Sequence[str]) -> int:
    """Instructions of a prediction on the board with Helium."""
    group = models.MODELS if name in models.MODELS else tiny.TINY
    model = read_model(models.build(name, group), every[name][1])
    options = COptions(name=NAME)
    with tempfile.TemporaryDirectory() as folder:
        generated = write_program(lower(model, options), model, options, Path(folder) / "c")
        found = run_model(M55, generated, ordinary_inputs(model)[:1].reshape(1, -1), flags=tuple(flags))
    assert found.instructions is not None
    return int(found.instructions[0])


def runtime() -> str:
    """M1 to M3 with the runtime's options."""
    names = ("m1", "m2", "m3")
    fast = {name: emulated(name, M4) for name in names}
    small = {name: emulated(name, M4, *DEVICE_FLAGS, "-Os", optimize="size") for name in names}
    rows = {
        "Cortex-M4F": [_instructions(fast[name]) for name in names],
        "code, bytes": [thousands(code_bytes(name, fast[name])) for name in names],
        "`--optimize size`, `-Os`: Cortex-M4F": [_instructions(small[name]) for name in names],
        "code, bytes, `--optimize size`, `-Os`": [thousands(code_bytes(name, small[name], "size")) for name in names],
        "`LBNN_STRICT`, Cortex-M4F": [_instructions(emulated(name, M4, *STRICT)) for name in names],
        "Cortex-M3 (soft float), strict": [_instructions(emulated(name, M3, *STRICT)) for name in names],
        "Cortex-M0 (soft float), strict": [_instructions(emulated(name, M0, *STRICT)) for name in names],
    }
    return markdown([["", *map(str.upper, names)], *([label, *cells] for label, cells in rows.items())])


def _mean_count(result: DeviceResult) -> int:
    """Of one prediction."""
    assert result.instructions is not None
    return int(result.instructions.mean())


def _instructions(result: DeviceResult) -> str:
    return thousands(_mean_count(result))


def size() -> str:
    """What --optimize size is worth for the CNN."""
    fast, small = emulated("m2", M4), emulated("m2", M4, *DEVICE_FLAGS, "-Os", optimize="size")
    bytes_ = [code_bytes("m2", result, form) for result, form in ((fast, "speed"), (small, "size"))]
    times = _mean_count(small) / _mean_count(fast)
    return (
        f"`--optimize size`, compiled with `-Os`, makes the first CNN {kilobytes(bytes_[1])} of code and tables\n"
        f"instead of {kilobytes(bytes_[0])}, for {times:.2f} times the instructions."
    )


def model(path: str) -> str:
    """A stored model on two cores."""
    rows = [["core", "instructions", "code", "weights", "work buffer", "stack"]]
    for device, label in LABELS.items():
        cost = counted(read_model(Path(path)), device).cost
        sizes = (cost.code_bytes, cost.weight_bytes, cost.work_bytes, cost.stack_bytes)
        rows.append([label, thousands(cost.instructions), *map(kilobytes, sizes)])
    return markdown(rows)


README_ROWS = {
    "**mean and variance**": "**instructions, mean and variance**",
    "the means alone, same kernels": "the plain network by the same kernels",
    "mean and variance by emx-onnx-cgen": "emx-onnx-cgen, mean and variance",
    "the means alone by emx-onnx-cgen": "emx-onnx-cgen, plain network",
    "code and tables": "of it code and tables",
    "RAM with stack": "RAM with stack",
    "times faster than onnxruntime": "**host, batch 1: times faster than onnxruntime**",
}
PERFORMANCE = ROOT / "docs/performance.md"


def readme() -> str:
    """The README's table: nothing is measured twice, and nothing copied by hand."""
    lines = [line.strip("|").split("|") for line in PERFORMANCE.read_text().splitlines() if line.startswith("|")]
    rows = {label.strip(): [cell.strip() for cell in cells] for label, *cells in reversed(lines)}  # the first table's
    heads = [name.partition(": ")[2].replace("depthwise-", "") for name in rows[""]]
    return markdown([["", *heads], *([label, *rows[source]] for label, source in README_ROWS.items())])


TABLES: dict[str, Callable[..., str]] = {
    table.__name__: table for table in (core, layers, soft, vector, runtime, size, model, readme)
}


def main(words: Sequence[Any]) -> None:
    """Prints the table that is asked for."""
    if not words or words[0] not in TABLES:
        sys.exit(f"which table? {', '.join(TABLES)}")
    print(TABLES[words[0]](*words[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
