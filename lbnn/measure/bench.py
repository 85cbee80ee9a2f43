"""`lbnn bench`: what a prediction costs on each backend, and what Monte Carlo would cost for the same.

Instructions are counted, not timed: exactly on emulated cores, by callgrind on this host. Times are ratios to
onnxruntime in the same rounds, all called from Python. Each row says how it was compiled or run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.base.temporary import temporary_folder
from lbnn.base.terminal import kilobytes, print_table, progress, thousands
from lbnn.device.cycles import MULTIPLY_ADD_CYCLES, Cycles
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.exporters.c.program import Program
from lbnn.measure.backends import choose_backends
from lbnn.measure.cost import Cost
from lbnn.measure.counting import REFERENCE_DEVICES, Counted, count_backend, too_slow
from lbnn.measure.host_times import Timed, host_times
from lbnn.measure.layers import FEWEST, LayerCost, total
from lbnn.measure.peers import PEERS, fastbnns_lacks
from lbnn.measure.sampling import Sampling, sampled_passes
from lbnn.measure.subject import NAME, TIMED_BATCH, Subject, ordinary_inputs
from lbnn.measure.timing import Time
from lbnn.model.file import read_model


@dataclass(frozen=True)
class Measurement:
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
class Bench:
    """All that `lbnn bench` found; `layers` are those on a Cortex-M4F, `batch` is the timed one.

    `left_out` says why backends that were not asked for have no row.
    """

    rows: tuple[Measurement, ...]
    layers: tuple[LayerCost, ...]
    sampling: Sampling | None
    batch: int = TIMED_BATCH
    left_out: Mapping[str, str] = field(default_factory=dict)


def _sum(*parts: int | None) -> int | None:
    return None if None in parts else sum(part for part in parts if part is not None)


def choose_measured(asked: Sequence[str] | None) -> tuple[list[str], Mapping[str, str]]:
    """The backends to measure and those left out with what they need; one that was asked for must be there."""
    if asked:
        return _checked(asked), {}
    here, lacking = choose_backends(None, "bench")
    return here + [name for name, missing in PEERS.items() if not missing()], lacking


def _checked(asked: Sequence[str]) -> list[str]:
    if "c-sanitized" in asked:
        raise LbnnError("c-sanitized is there to find faults, not to be fast; use it in verify")
    for name in asked:
        if name in PEERS and (lack := PEERS[name]()):
            raise LbnnError(f"backend {name!r} is not available here: {lack}")
    choose_backends([name for name in asked if name not in PEERS], "bench")
    return list(asked)


def measure_backends(
    path: Path, names: Sequence[str], asked: bool = True, dtype: str = "float32", weights: str = "source"
) -> Bench:
    """Measures the model in a file; unless asked for, boards too small and cores too slow for it are left out.

    `dtype` is the arithmetic of the generated C, and `weights` how it stores them; other backends have float32.
    """
    model, options = read_model(path), COptions(name=NAME, dtype=dtype, weights=weights)
    program = lower(model, options)
    lost = {} if asked else {name: lack for name in names if (lack := _lacks(name, program))}
    names = [name for name in names if name not in lost]
    with temporary_folder() as folder:
        generated = write_program(program, model, options, folder / "c")
        subject = Subject(path, model, program, generated, ordinary_inputs(model))
        work: dict[str, Callable[[], Any]] = {
            "times": lambda: host_times(subject, names),
            **{name: partial(count_backend, name, subject, asked) for name in names},
            "Monte Carlo": lambda: sampled_passes(path, subject.inputs),
        }
        with progress("measuring", list(work)) as steps:
            done = {step: work[step]() for step in steps}
    lost |= {name: done[name] for name in names if isinstance(done[name], str)}
    found = {name: done[name] for name in names if name not in lost}
    rows = [_row(name, done["times"].get(name), counted) for name, counted in found.items()]
    layers = next((counted.layers for counted in found.values() if counted.layers), ())
    return Bench(tuple(rows), layers, done["Monte Carlo"], subject.batch, lost)


def _lacks(name: str, program: Program) -> str:
    """Why a row is not worth its time, or can't be; nothing of one that is measured."""
    return fastbnns_lacks(program.graph) if name == "fastbnns" else too_slow(name, program)


def _row(name: str, timed: Timed | None, counted: Counted) -> Measurement:
    settings, *times = timed or (counted.settings,)
    return Measurement(name, settings, counted.cost, counted.plain, *times)


def plain_bench(bench: Bench, lacking: Mapping[str, str]) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "backends": [_plain_row(row, bench.batch) for row in bench.rows],
        "layers": [asdict(layer) for layer in bench.layers],
        "monte_carlo": asdict(bench.sampling) if bench.sampling else None,
        "missing": {**lacking, **bench.left_out},
    }


def _plain_row(row: Measurement, batch: int) -> dict[str, Any]:
    times = {"batch_1": row.one, f"batch_{batch}": row.batch}
    return {
        "backend": row.backend,
        "settings": row.settings,
        **asdict(row.cost),
        "plain": asdict(row.plain) if row.plain else None,
        **{key: asdict(time) if time else None for key, time in times.items()},
    }


BENCH_COLUMNS = ("backend", "instructions", "plain", "cycles, about", "flash", "RAM", "time, batch 1")


BUILT_SIZES = (
    "flash: weights and code as built here, RAM: work buffer and the deepest stack; lbnn inspect and footprint.json "
    "state the same weights and work buffer, and for code and stack the most of all Cortex-M"
)


def show_bench(bench: Bench, lacking: Mapping[str, str], title: str) -> None:
    """The table, what Monte Carlo would need, and what is missing."""
    columns = (*BENCH_COLUMNS, f"time, batch {bench.batch}", "how")
    print_table(columns, [_cells(row) for row in bench.rows], title)
    if any(row.plain for row in bench.rows):
        print("plain: instructions of the same network without variances and head, by the same kernels")
    for row in bench.rows:
        if row.cost.cycles:
            print(_cycles_text(row.backend, row.cost.cycles))
    if any(row.flash_bytes for row in bench.rows):
        print(BUILT_SIZES)
    print(f"time: of one prediction, and its ratio to onnxruntime's; batches of {bench.batch} on one thread")
    if bench.sampling:
        print(_sampling_text(bench, bench.sampling))
    for name, how in {**lacking, **bench.left_out}.items():
        print(f"left out: {name} ({how})")


def _cells(row: Measurement) -> list[str]:
    sizes = map(kilobytes, (row.flash_bytes, row.ram_bytes))
    counts = [cost.counted if cost else "-" for cost in (row.cost, row.plain)]
    return [row.backend, *counts, _cycles(row.cost.cycles), *sizes, _time(row.one), _time(row.batch), row.settings]


def _cycles(cycles: Cycles | None) -> str:
    return "-" if cycles is None else f"{thousands(cycles.low)} to {thousands(cycles.high)}"


def _cycles_text(backend: str, cycles: Cycles) -> str:
    return (
        f"cycles of {backend}: by a model, if VFMA takes {MULTIPLY_ADD_CYCLES[0]} to {MULTIPLY_ADD_CYCLES[1]}; each "
        f"wait state of the flash adds up to {thousands(cycles.wait_state)}"
    )


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


def _least(row: LayerCost) -> tuple[str, str]:
    return (thousands(row.minimum), f"{row.ratio:.2f}") if row.minimum else ("-", "-")


def show_layers(bench: Bench) -> None:
    """Instructions a layer, the fewest its arithmetic needs, and the ratio."""
    if not bench.layers:
        raise LbnnError(f"layers are counted on a Cortex-M4F: --backends {' or '.join(REFERENCE_DEVICES)}")
    rows = [
        [row.layer, row.op, row.shape, thousands(row.instructions), *_least(row)]
        for row in (*bench.layers, total(bench.layers))
    ]
    columns = ("layer", "operator", "shape", "instructions", FEWEST, "ratio")
    print_table(columns, rows, "instructions a layer, Cortex-M4F")
