"""`lbnn bench`: what a prediction costs on each backend, and what Monte Carlo would cost for the same.

Instructions are counted, not timed: exactly on emulated cores, by callgrind on this host. Times are ratios to
onnxruntime in the same rounds, all called from Python. Each row says how it was compiled or run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn import callgrind, parity, peers, timing
from lbnn.backends.c import COptions, generate
from lbnn.checkpoint import Model, load, read_model
from lbnn.compiler import compile
from lbnn.emulators import DEVICES, HostDevice, run_model
from lbnn.errors import LbnnError
from lbnn.files import write_folder
from lbnn.inspection import inspect
from lbnn.layercosts import LayerCost, layer_costs, total
from lbnn.montecarlo import monte_carlo, samples_replaced
from lbnn.parity import Cost
from lbnn.passes import prepare
from lbnn.terminal import kilobytes, print_table, progress, thousands
from lbnn.timing import Clock, Floats, Time, clock
from lbnn.toolchains import DEFAULT_FLAGS, CompileError, Toolchain

NAME = "model"
DEVICE_FLAGS = ("-std=gnu99",)  # beside the defaults -O2 -fno-math-errno; gnu99 lets gcc fuse multiply and add
FLAGS_TEXT = " ".join((*DEFAULT_FLAGS[1:], *DEVICE_FLAGS))
HOST_FLAGS = ("-O3", "-march=native", "-std=gnu99")
REFERENCE_DEVICES = ("cortex-m4-gcc", "cortex-m4")
DEFAULT_BACKENDS = (
    *("torch", "onnx", "c"),
    *("cortex-m0-gcc", "cortex-m3-gcc", "cortex-m4-gcc", "cortex-m7-gcc", "cortex-m33-gcc", "mps3-an547"),
    *("cortex-m0", "cortex-m4"),
)
PEERS = {"emx-onnx-cgen": peers.emx_missing, "iree": peers.iree_missing}
"""Other compilers of the exported ONNX file, and what each of them lacks here."""
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
    """All that `lbnn bench` found; `layers` are those on a Cortex-M4F."""

    rows: tuple[Row, ...]
    layers: tuple[LayerCost, ...]
    sampling: Sampling | None


@dataclass(frozen=True)
class Subject:
    """A model, its file, its generated C and the inputs it is measured with."""

    path: Path
    model: Model
    folder: Path
    inputs: Floats

    @cached_property
    def onnx(self) -> Any:
        """The exported ONNX model."""
        from lbnn.backends.onnx import to_onnx

        return to_onnx(prepare(self.model.graph, input_variance=False), self.model.sha256)

    @property
    def few(self) -> Floats:
        """The inputs over which instructions are averaged, [n, input_len]."""
        return self.inputs[:COUNTED].reshape(COUNTED, -1)


def _sum(*parts: int | None) -> int | None:
    return None if None in parts else sum(part for part in parts if part is not None)


def choose(asked: Sequence[str] | None) -> tuple[list[str], Mapping[str, str]]:
    """The backends to measure and those left out with what they need; one that was asked for must be there."""
    if asked:
        return _checked(asked), {}
    lacking = {name: parity.missing(name) for name in DEFAULT_BACKENDS}
    peers_here = [name for name, missing in PEERS.items() if not missing()]
    here = [name for name, lack in lacking.items() if not lack]
    return here + peers_here, {name: lack for name, lack in lacking.items() if lack}


def _checked(asked: Sequence[str]) -> list[str]:
    if "c-sanitized" in asked:
        raise LbnnError("c-sanitized is there to find faults, not to be fast; use it in verify")
    for name in asked:
        if name in PEERS and (lack := PEERS[name]()):
            raise LbnnError(f"backend {name!r} is not available here: {lack}")
    parity.choose([name for name in asked if name not in PEERS])
    return list(asked)


def run(path: Path, names: Sequence[str], asked: bool = True) -> Bench:
    """Measures the model in a file; unless they were asked for, boards that are too small are left out."""
    model = read_model(path)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_folder(Path(temporary) / "c", generate(model, COptions(name=NAME)))
        subject = Subject(path, model, folder, ordinary_inputs(model))
        work: dict[str, Callable[[], Any]] = {
            "times": lambda: _times(subject, names),
            **{name: partial(_count, name, subject, asked) for name in names},
            "Monte Carlo": lambda: sampled_passes(path, subject.inputs),
        }
        with progress("measuring", list(work)) as steps:
            done = {step: work[step]() for step in steps}
    rows = [_row(name, done["times"].get(name), done[name]) for name in names if done[name]]
    layers = next((done[name].layers for name in names if done[name] and done[name].layers), ())
    return Bench(tuple(rows), layers, done["Monte Carlo"])


def _row(name: str, timed: Timed | None, counted: Counted) -> Row:
    return Row(name, counted.settings, counted.cost) if timed is None else Row(name, timed[0], counted.cost, *timed[1:])


def ordinary_inputs(model: Model) -> Floats:
    """A batch as in training, always the same."""
    centre, spread = parity.input_scale(model.graph)
    shape = (BATCH, *model.graph.input.shape)
    return (centre + spread * np.random.default_rng(0).normal(size=shape)).astype(np.float32)


# ---- times on this host -----------------------------------------------------------------------------------------

Timed = tuple[str, Time, Time]
Binder = Callable[[Floats], tuple[str, Clock]]
"""Gives for a batch how it is run, and the clock of it."""


def _times(subject: Subject, names: Iterable[str]) -> dict[str, Timed]:
    """How each backend that runs here was run, and its times for one sample and in a batch."""
    binders = {name: _binder(name, subject) for name in names if _runs_here(name)}
    inputs = subject.inputs
    with timing.one_torch_thread():
        single = {name: bind(inputs[:1]) for name, bind in binders.items()}
        one = timing.compare({name: clock for name, (_, clock) in single.items()}, 1)
        many = timing.compare({name: bind(inputs)[1] for name, bind in binders.items()}, BATCH)
    return {name: (settings, one[name], many[name]) for name, (settings, _) in single.items()}


def _runs_here(name: str) -> bool:
    return name in ("torch", "onnx", "iree") or isinstance(DEVICES.get(name), HostDevice)


def _binder(name: str, subject: Subject) -> Binder:
    if name == "torch":
        network = load(subject.path)
        return lambda inputs: ("eager, 1 thread", clock(timing.bind_torch(network, inputs)))
    if name == "onnx":
        return lambda inputs: _onnx(subject, inputs)
    if name == "iree":
        folder = Path(tempfile.mkdtemp(dir=subject.folder.parent))
        return lambda inputs: ("its own benchmark, 1 thread", peers.iree_clock(subject.onnx, len(inputs), folder))
    compiled = compile(subject.model, flags=HOST_FLAGS, toolchain=_toolchain(name).name)
    return lambda inputs: (" ".join(HOST_FLAGS), clock(compiled.bind(inputs)))


def _onnx(subject: Subject, inputs: Floats) -> tuple[str, Clock]:
    threads, run = timing.bind_onnx(subject.onnx, inputs)
    return f"onnxruntime, IO bound, {threads} thread{'s' if threads > 1 else ''}", clock(run)


def _toolchain(name: str) -> Toolchain:
    device = DEVICES[name]
    assert isinstance(device, HostDevice)
    return device.toolchain


# ---- instructions and bytes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """What was counted on a backend."""

    settings: str
    cost: Cost
    layers: tuple[LayerCost, ...] = ()


def _count(name: str, subject: Subject, asked: bool) -> Counted | None:
    if _runs_here(name):
        return Counted("", Cost(instructions=_count_here(name, subject)))
    if name == "emx-onnx-cgen":
        return Counted(f"cortex-m4-gcc {FLAGS_TEXT}", peers.count_emx(subject.onnx, subject.inputs, DEVICE_FLAGS))
    try:
        return _emulate(name, subject)
    except CompileError as error:
        if asked or "overflowed" not in error.log:
            raise
        return None


def _count_here(name: str, subject: Subject) -> int | None:
    if name not in DEVICES or not callgrind.available():
        return None
    return callgrind.count(_toolchain(name), subject.folder, NAME, subject.few, HOST_FLAGS)


def _emulate(name: str, subject: Subject) -> Counted:
    profile = name in REFERENCE_DEVICES
    result = run_model(name, subject.folder, NAME, subject.few, flags=DEVICE_FLAGS, profile=profile)
    layers = layer_costs(subject.model, subject.folder / f"{NAME}.c", result) if profile else ()
    cost = parity.device_cost(result, inspect(subject.model).weight_bytes)
    return Counted(FLAGS_TEXT, cost, layers)


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
    return {
        "backends": [_plain_row(row) for row in bench.rows],
        "layers": [asdict(layer) for layer in bench.layers],
        "monte_carlo": asdict(bench.sampling) if bench.sampling else None,
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
    if not bench.layers:
        raise LbnnError(f"layers are counted on a Cortex-M4F: --backends {' or '.join(REFERENCE_DEVICES)}")
    rows = [
        [row.layer, row.op, row.shape, thousands(row.instructions), thousands(row.minimum), f"{row.ratio:.2f}"]
        for row in (*bench.layers, total(bench.layers))
    ]
    columns = ("layer", "operator", "shape", "instructions", "minimum", "ratio")
    print_table(columns, rows, "instructions a layer, Cortex-M4F")
