"""`lbnn bench`: what a prediction costs on each backend, and what Monte Carlo would cost for the same.

Instructions are counted, not timed: exactly on emulated cores, by callgrind on this host. Times are ratios to
onnxruntime in the same rounds, all called from Python. Each row says how it was compiled or run.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn import callgrind, parity, timing
from lbnn.arithmetic import minimum
from lbnn.backends.c import COptions, generate, list_calls
from lbnn.checkpoint import Model, load, read_model
from lbnn.compiler import compile
from lbnn.emulators import DEVICES, HostDevice, run_model
from lbnn.errors import LbnnError
from lbnn.files import write_folder
from lbnn.inspection import inspect
from lbnn.montecarlo import monte_carlo, samples_replaced
from lbnn.parity import Cost
from lbnn.terminal import kilobytes, print_table, progress, thousands
from lbnn.timing import Floats, Run, Time
from lbnn.toolchains import DEFAULT_FLAGS, CompileError, Toolchain

NAME = "model"
DEVICE_FLAGS = ("-std=gnu99",)  # beside the defaults -O2 -fno-math-errno; gnu99 lets gcc fuse multiply and add
HOST_FLAGS = ("-O3", "-march=native", "-std=gnu99")
REFERENCE_DEVICES = ("cortex-m4-gcc", "cortex-m4")
DEFAULT_BACKENDS = (
    *("torch", "onnx", "c"),
    *("cortex-m0-gcc", "cortex-m3-gcc", "cortex-m4-gcc", "cortex-m7-gcc", "cortex-m33-gcc", "mps3-an547"),
    *("cortex-m0", "cortex-m4"),
)
BATCH = 256
COUNTED = 2  # inputs over which instructions are averaged; without an FPU they depend on the numbers

STANDARD_ERROR = 0.1
"""The accuracy that Monte Carlo is asked for: one standard error of its variance, relative."""
DRAWN_NUMBERS = 100_000_000
"""About how many weights are drawn in all: some seconds."""


@dataclass(frozen=True)
class Row:
    """One backend. `settings` says how it was compiled or run; None is what a backend can't tell."""

    backend: str
    settings: str
    cost: Cost
    one: Time | None = None
    batch: Time | None = None

    @property
    def flash_bytes(self) -> int | None:
        """Code and weights."""
        return _sum(self.cost.code_bytes, self.cost.weight_bytes)

    @property
    def ram_bytes(self) -> int | None:
        """Work buffer and stack."""
        return _sum(self.cost.work_bytes, self.cost.stack_bytes)


@dataclass(frozen=True)
class Layer:
    """Instructions of one layer on the reference core, and the fewest that its arithmetic needs."""

    layer: str
    op: str
    shape: str
    instructions: int
    minimum: int


@dataclass(frozen=True)
class Sampling:
    """Passes of sampled networks: for a variance with STANDARD_ERROR, and for one as accurate as one moment pass.

    Unless `resolved`, the second is a lower bound: the check's own samples could not tell one pass from the truth.
    """

    standard_error: float
    passes: int
    same_accuracy: int
    resolved: bool


@dataclass(frozen=True)
class Bench:
    """All that `lbnn bench` found."""

    rows: tuple[Row, ...]
    sampling: Sampling | None
    device: str | None
    layers: tuple[Layer, ...]


def _sum(*parts: int | None) -> int | None:
    return sum(part for part in parts if part is not None) if None not in parts else None


def choose(asked: Sequence[str] | None) -> tuple[list[str], Mapping[str, str]]:
    """The backends to measure and those left out with what they need; one that was asked for must be there."""
    if asked:
        if "c-sanitized" in asked:
            raise LbnnError("c-sanitized is there to find faults, not to be fast; use it in verify")
        return parity.choose(asked)
    lacking = {name: parity.missing(name) for name in DEFAULT_BACKENDS}
    return [name for name, lack in lacking.items() if not lack], {name: lack for name, lack in lacking.items() if lack}


def run(path: Path, names: Sequence[str], asked: bool = True) -> Bench:
    """Measures the model in a file; unless they were asked for, boards that are too small are left out."""
    model = read_model(path)
    inputs, weight_bytes = ordinary_inputs(model), inspect(model).weight_bytes
    device = next((name for name in REFERENCE_DEVICES if not parity.missing(name)), None)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_folder(Path(temporary) / "c", generate(model, COptions(name=NAME)))
        with progress("measuring", ["times", *names, "layers", "Monte Carlo"]) as steps:
            next(steps)
            timed = _times(path, model, inputs, names)
            rows = [_row(name, folder, inputs, timed.get(name), weight_bytes, asked) for name in names if next(steps)]
            next(steps)
            layers = layer_costs(model, folder, device, inputs) if device else ()
            next(steps)
            sampling = sampled_passes(path, inputs)
    return Bench(tuple(row for row in rows if row), sampling, device, layers)


def ordinary_inputs(model: Model) -> Floats:
    """A batch as in training, always the same."""
    centre, spread = parity.input_scale(model.graph)
    shape = (BATCH, *model.graph.input.shape)
    return (centre + spread * np.random.default_rng(0).normal(size=shape)).astype(np.float32)


# ---- times on this host -----------------------------------------------------------------------------------------

Timed = tuple[str, Time, Time]
Binder = Callable[[Floats], tuple[str, Run]]
"""Gives for a batch how it is run, and a function that predicts it."""


def _times(path: Path, model: Model, inputs: Floats, names: Iterable[str]) -> dict[str, Timed]:
    """How each backend that runs here was run, and its times for one sample and in a batch."""
    binders = {name: _binder(name, path, model) for name in names if _runs_here(name)}
    with timing.one_torch_thread():
        single = {name: bind(inputs[:1]) for name, bind in binders.items()}
        one = timing.compare({name: run for name, (_, run) in single.items()}, 1)
        many = timing.compare({name: bind(inputs)[1] for name, bind in binders.items()}, BATCH)
    return {name: (settings, one[name], many[name]) for name, (settings, _) in single.items()}


def _runs_here(name: str) -> bool:
    return name in ("torch", "onnx") or isinstance(DEVICES[name], HostDevice)


def _binder(name: str, path: Path, model: Model) -> Binder:
    if name == "torch":
        network = load(path)
        return lambda inputs: ("eager, 1 thread", timing.bind_torch(network, inputs))
    if name == "onnx":
        return lambda inputs: _onnx(model, inputs)
    compiled = compile(model, flags=HOST_FLAGS, toolchain=_toolchain(name).name)
    return lambda inputs: (" ".join(HOST_FLAGS), compiled.bind(inputs))


def _onnx(model: Model, inputs: Floats) -> tuple[str, Run]:
    threads, run = timing.bind_onnx(model, inputs)
    return f"onnxruntime, IO bound, {threads} thread{'s' if threads > 1 else ''}", run


def _toolchain(name: str) -> Toolchain:
    device = DEVICES[name]
    assert isinstance(device, HostDevice)
    return device.toolchain


# ---- instructions and bytes -------------------------------------------------------------------------------------


def _row(name: str, folder: Path, inputs: Floats, timed: Timed | None, weight_bytes: int, asked: bool) -> Row | None:
    if timed:
        settings, one, batch = timed
        return Row(name, settings, Cost(instructions=_count_here(name, folder, inputs)), one, batch)
    try:
        result = run_model(name, folder, NAME, _few(inputs), flags=DEVICE_FLAGS)
    except CompileError as error:
        if asked or "overflowed" not in error.log:
            raise
        return None
    return Row(name, " ".join((*DEFAULT_FLAGS[1:], *DEVICE_FLAGS)), parity.device_cost(result, weight_bytes))


def _count_here(name: str, folder: Path, inputs: Floats) -> int | None:
    if name not in DEVICES or not callgrind.available():
        return None
    return callgrind.count(_toolchain(name), folder, NAME, _few(inputs), HOST_FLAGS)


def _few(inputs: Floats) -> Floats:
    return inputs[:COUNTED].reshape(COUNTED, -1)


# ---- layers -----------------------------------------------------------------------------------------------------


def layer_costs(model: Model, folder: Path, device: str, inputs: Floats) -> tuple[Layer, ...]:
    """Instructions of each layer on `device`; the last is what predict does itself: checks and the final copy."""
    result = run_model(device, folder, NAME, _few(inputs), flags=DEVICE_FLAGS, profile=True)
    listing = list_calls(model, COptions(name=NAME))
    spent: dict[str, int] = {}
    owners = _owners((folder / f"{NAME}.c").read_text(), [line.layer for line in listing.lines])
    for line, instructions in result.lines.items():
        owner = owners.get(line, "")
        spent[owner] = spent.get(owner, 0) + instructions
    layers = [
        Layer(line.layer, line.op, line.shape, spent[line.layer] // COUNTED, minimum(node, listing.graph))
        for line, node in zip(listing.lines, listing.graph.nodes, strict=True)
        if line.layer in spent
    ]
    numbers = 2 * (listing.size("input") + 4 * listing.size(listing.graph.output))
    return (*layers, Layer("checks", "", "", spent.get("", 0) // COUNTED, numbers))


def _owners(source: str, layers: Sequence[str]) -> dict[int, str]:
    """Line number -> layer: a layer's calls begin on a line that names it in a comment and go on until the next."""
    owners, owner = {}, ""
    for number, text in enumerate(source.splitlines(), start=1):
        named = re.match(r"\s*/\* (\w+) .*\*/", text)
        if named and named[1] in layers:
            owner = named[1]
        elif not text.strip():
            owner = ""
        owners[number] = owner
    return owners


# ---- Monte Carlo ------------------------------------------------------------------------------------------------


def sampled_passes(path: Path, inputs: Floats) -> Sampling | None:
    """What Monte Carlo needs; None for a network without Gaussian weights, which has nothing to draw."""
    network = load(path)
    x = torch.from_numpy(inputs[:16])
    numbers = sum(parameter.numel() for parameter in network.parameters()) // 2 + x.numel()
    samples = min(20_000, max(500, DRAWN_NUMBERS // numbers))
    try:
        check = monte_carlo(network, x, samples, torch.Generator().manual_seed(0))
    except LbnnError:
        return None
    replaced = samples_replaced(check)
    passes = ceil(samples * (check.var_noise / STANDARD_ERROR) ** 2)
    return Sampling(STANDARD_ERROR, passes, round(replaced.passes), replaced.resolved)


# ---- output -----------------------------------------------------------------------------------------------------


def as_plain(bench: Bench, lacking: Mapping[str, str]) -> dict[str, Any]:
    """Everything as plain data."""
    rows = [_plain_row(row) for row in bench.rows]
    layers = [asdict(layer) for layer in bench.layers]
    sampling = asdict(bench.sampling) if bench.sampling else None
    return {
        "backends": rows,
        "monte_carlo": sampling,
        "layers_on": bench.device,
        "layers": layers,
        "missing": dict(lacking),
    }


def _plain_row(row: Row) -> dict[str, Any]:
    times = {"batch_1": row.one, f"batch_{BATCH}": row.batch}
    return {
        "backend": row.backend,
        "settings": row.settings,
        **asdict(row.cost),
        **{key: asdict(time) if time else None for key, time in times.items()},
    }


COLUMNS = ("backend", "instructions", "flash", "RAM", "time, batch 1", f"time, batch {BATCH}", "how")


def show(bench: Bench, lacking: Mapping[str, str], title: str) -> None:
    """The table, what Monte Carlo would need, and what is missing."""
    print_table(COLUMNS, [_cells(row) for row in bench.rows], title)
    print(f"Times are for one prediction, and beside it the ratio to onnxruntime's (batch {BATCH}: on one thread).")
    if bench.sampling:
        print(_sampling_text(bench.sampling))
    for name, how in lacking.items():
        print(f"left out: {name} ({how})")


def _cells(row: Row) -> list[str]:
    sizes = map(kilobytes, (row.flash_bytes, row.ram_bytes))
    return [row.backend, thousands(row.cost.instructions), *sizes, _time(row.one), _time(row.batch), row.settings]


def _time(time: Time | None) -> str:
    if time is None:
        return "-"
    return f"{time.microseconds:.3g} us" + (f" ({time.ratio:.3g}x)" if time.ratio is not None else "")


def _sampling_text(sampling: Sampling) -> str:
    bound = "" if sampling.resolved else "at least "
    return (
        f"Monte Carlo: {sampling.passes} passes give the variance to {sampling.standard_error:.0%} (standard error), "
        f"{bound}{sampling.same_accuracy} as well as this one pass; drawing the weights comes on top."
    )


def show_layers(bench: Bench) -> None:
    """Instructions a layer, the fewest its arithmetic needs, and the ratio."""
    if bench.device is None:
        raise LbnnError("layers are measured on an emulated Cortex-M4: pip install 'lbnn[mcu]'")
    counts = [(layer.instructions, layer.minimum) for layer in bench.layers]
    total = Layer("total", "", "", *(sum(column) for column in zip(*counts, strict=True)))
    rows = [_layer_cells(layer) for layer in (*bench.layers, total)]
    print_table(
        ("layer", "operator", "shape", "instructions", "minimum", "ratio"),
        rows,
        f"instructions a layer, {bench.device}",
    )


def _layer_cells(layer: Layer) -> list[str]:
    counts = thousands(layer.instructions), thousands(layer.minimum), f"{layer.instructions / layer.minimum:.2f}"
    return [layer.layer, layer.op, layer.shape, *counts]
