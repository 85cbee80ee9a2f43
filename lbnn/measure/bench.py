"""`lbnn bench`: what a prediction costs on each backend, and what Monte Carlo would cost for the same.

Instructions are counted, not timed: exactly on emulated cores, by callgrind on this host. Times are ratios to
onnxruntime in the same rounds, all called from Python. Each row says how it was compiled or run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.files import write_folder
from lbnn.base.terminal import kilobytes, print_table, progress, thousands
from lbnn.device import callgrind
from lbnn.device.compilers import DEFAULT_FLAGS, CompileError, Toolchain
from lbnn.device.devices import DEVICES, run_model
from lbnn.device.generated import read_generated
from lbnn.device.hosts import HostDevice
from lbnn.exporters.c import COptions, generate, lower
from lbnn.exporters.compiled import compile
from lbnn.graph.passes import prepare
from lbnn.measure import parity, peers, timing
from lbnn.measure.inspection import inspect
from lbnn.measure.layers import LayerCost, layer_costs, total
from lbnn.measure.parity import Cost
from lbnn.measure.timing import Clock, Time, clock
from lbnn.model.file import Model, load, read_model
from lbnn.train.montecarlo import monte_carlo, samples_replaced

NAME = "model"
DEVICE_FLAGS = ("-std=gnu99",)  # beside the defaults -O2 -fno-math-errno; gnu99 lets gcc fuse multiply and add
FLAGS_TEXT = " ".join((*DEFAULT_FLAGS[1:], *DEVICE_FLAGS))
HOST_FLAGS = ("-O3", "-march=native", "-std=gnu99")
PLAIN_FLAG = "-DLBNN_MEAN_ONLY"  # the same kernels without variances: the plain network
REFERENCE_DEVICES = ("cortex-m4-gcc", "cortex-m4")
DEFAULT_BACKENDS = (
    *("torch", "onnx", "c"),
    *("cortex-m0-gcc", "cortex-m3-gcc", "cortex-m4-gcc", "cortex-m7-gcc", "cortex-m33-gcc", "mps3-an547"),
    *("cortex-m0", "cortex-m4"),
)
PEERS = {"emx-onnx-cgen": peers.emx_missing, "iree": peers.iree_missing, "fastbnns": peers.fastbnns_missing}
"""Other ways to the same moments, and what each of them lacks here."""
BATCH = 256
COUNTED = 2  # inputs over which instructions are averaged; without an FPU they depend on the numbers

STANDARD_ERROR = 0.1
"""The accuracy that Monte Carlo is asked for: one standard error of its variance, relative."""
DRAWN_NUMBERS = 100_000_000
"""About how many weights are drawn in all: some seconds."""


@dataclass(frozen=True)
class Row:
    """One backend; `plain` is the same network without variances, and None is what a backend can't tell."""

    backend: str
    settings: str
    cost: Cost
    plain: Cost | None = None
    one: Time | None = None
    batch: Time | None = None

    @property
    def factor(self) -> float | None:
        """How many times the instructions of the plain network."""
        plain = self.plain.instructions if self.plain else None
        return self.cost.instructions / plain if self.cost.instructions and plain else None

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
        from lbnn.exporters.onnx import to_onnx

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
    settings, *times = timed or (counted.settings,)
    return Row(name, settings, counted.cost, counted.plain, *times)


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
    binders = {name: HERE[name](subject) for name in names if name in HERE}
    inputs = subject.inputs
    with timing.one_torch_thread():
        single = {name: bind(inputs[:1]) for name, bind in binders.items()}
        one = timing.compare({name: clock for name, (_, clock) in single.items()}, 1)
        many = timing.compare({name: bind(inputs)[1] for name, bind in binders.items()}, BATCH)
    return {name: (settings, one[name], many[name]) for name, (settings, _) in single.items()}


def _torch(subject: Subject) -> Binder:
    network = load(subject.path)
    return lambda inputs: ("eager, 1 thread", clock(timing.bind_torch(network, inputs)))


def _onnx(subject: Subject) -> Binder:
    def bind(inputs: Floats) -> tuple[str, Clock]:
        threads, run = timing.bind_onnx(subject.onnx, inputs)
        return f"onnxruntime, IO bound, {threads} thread{'s' if threads > 1 else ''}", clock(run)

    return bind


def _iree(subject: Subject) -> Binder:
    folder = Path(tempfile.mkdtemp(dir=subject.folder.parent))
    return lambda inputs: ("its own benchmark, 1 thread", peers.iree_clock(subject.onnx, len(inputs), folder))


def _fastbnns(subject: Subject) -> Binder:
    graph = prepare(subject.model.graph, input_variance=False)
    return lambda inputs: ("eager, 1 thread", clock(peers.bind_fastbnns(graph, inputs)))


def _compiled(name: str, subject: Subject) -> Binder:
    compiled = compile(subject.model, flags=HOST_FLAGS, toolchain=_toolchain(name).name)
    return lambda inputs: (" ".join(HOST_FLAGS), clock(compiled.bind(inputs)))


HERE: dict[str, Callable[[Subject], Binder]] = {
    "torch": _torch,
    "onnx": _onnx,
    "iree": _iree,
    "fastbnns": _fastbnns,
    **{name: partial(_compiled, name) for name, device in DEVICES.items() if isinstance(device, HostDevice)},
}
"""Backends that run on this host; all others are emulated."""


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
    plain: Cost | None = None
    layers: tuple[LayerCost, ...] = ()


def _count(name: str, subject: Subject, asked: bool) -> Counted | None:
    if name in HERE:
        return _count_here(name, subject)
    if name == "emx-onnx-cgen":
        return Counted(f"cortex-m4-gcc {FLAGS_TEXT}", peers.count_emx(subject.onnx, subject.inputs, DEVICE_FLAGS))
    try:
        return _emulate(name, subject)
    except CompileError as error:
        if asked or "overflowed" not in error.log:
            raise
        return None


def _count_here(name: str, subject: Subject) -> Counted:
    if name not in DEVICES or not callgrind.available():
        return Counted("", Cost())
    count = partial(callgrind.count, _toolchain(name), read_generated(subject.folder, NAME), subject.few)
    return Counted("", Cost(count(HOST_FLAGS)), Cost(count((*HOST_FLAGS, PLAIN_FLAG))))


def _emulate(name: str, subject: Subject) -> Counted:
    profile = name in REFERENCE_DEVICES
    run = partial(run_model, name, read_generated(subject.folder, NAME), subject.few)
    result, plain = run(flags=DEVICE_FLAGS, profile=profile), run(flags=(*DEVICE_FLAGS, PLAIN_FLAG))
    layers = (
        layer_costs(lower(subject.model, COptions(name=NAME)), subject.folder / f"{NAME}.c", result) if profile else ()
    )
    weight_bytes = inspect(subject.model).weight_bytes
    return Counted(
        FLAGS_TEXT,
        parity.device_cost(result, weight_bytes),
        _means_alone(parity.device_cost(plain, weight_bytes)),
        layers,
    )


def _means_alone(cost: Cost) -> Cost:
    """The generated code keeps room for the variances; a plain network needs no more than half of it."""
    halved = {key: (value + 1) // 2 for key in ("weight_bytes", "work_bytes") if (value := getattr(cost, key))}
    return replace(cost, **halved)


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
        "plain": asdict(row.plain) if row.plain else None,
        **{key: asdict(time) if time else None for key, time in times.items()},
    }


COLUMNS = ("backend", "instructions", "plain", "flash", "RAM", "time, batch 1", f"time, batch {BATCH}", "how")


def show(bench: Bench, lacking: Mapping[str, str], title: str) -> None:
    """The table, what Monte Carlo would need, and what is missing."""
    print_table(COLUMNS, [_cells(row) for row in bench.rows], title)
    print("plain: instructions of the same network without variances, by the same kernels")
    print(f"time: of one prediction, and its ratio to onnxruntime's; batches of {BATCH} on one thread")
    if bench.sampling:
        print(_sampling_text(bench, bench.sampling))
    for name, how in lacking.items():
        print(f"left out: {name} ({how})")


def _cells(row: Row) -> list[str]:
    sizes = map(kilobytes, (row.flash_bytes, row.ram_bytes))
    counts = [thousands(cost.instructions if cost else None) for cost in (row.cost, row.plain)]
    return [row.backend, *counts, *sizes, _time(row.one), _time(row.batch), row.settings]


def _time(time: Time | None) -> str:
    if time is None:
        return "-"
    return f"{time.microseconds:.3g} us" + (f" ({time.ratio:.3g}x)" if time.ratio is not None else "")


def _sampling_text(bench: Bench, sampling: Sampling) -> str:
    bound = "" if sampling.resolved else "at least "
    price = f" ({cost:.0f} times the instructions, without drawing weights)" if (cost := sampled_cost(bench)) else ""
    return (
        f"Monte Carlo: {sampling.passes} passes give the variance to {sampling.standard_error:.0%}{price}, "
        f"{bound}{sampling.same_accuracy} passes give it as well as this one pass"
    )


def sampled_cost(bench: Bench) -> float | None:
    """Instructions of the sampled passes, as plain networks on a Cortex-M4F, over those of one moment pass."""
    factors = [row.factor for row in bench.rows if row.backend in REFERENCE_DEVICES and row.factor]
    return bench.sampling.passes / factors[0] if bench.sampling and factors else None


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
