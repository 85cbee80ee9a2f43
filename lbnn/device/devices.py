"""Devices that run a generated model: this host, an emulated core, an emulated board.

`run_model(device, folder, name, inputs)` is the whole interface for those who want numbers and what they cost; DEVICES
lists what there is. Numbers travel as float32 bit patterns, never as text.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.device.elf import Sizes, SourceLines, StackBound, image_sizes, stack_bound
from lbnn.device.machines import IMAGE_MEMORY, EmulationFault, ProgramRun, QemuBoard, UnicornMachine, run_program
from lbnn.device.toolchains import (
    BOARDS,
    CORES,
    SANITIZE_FLAGS,
    STACK_FLAGS,
    TOOLCHAINS,
    Board,
    Core,
    Toolchain,
    compile_gcc,
    compile_zig,
    cross_gcc,
    emulator_command,
    linker_script,
    model_flags,
    targets_folder,
)

__all__ = [
    "DEVICES",
    "Device",
    "DeviceResult",
    "EmulationFault",
    "Image",
    "Model",
    "QemuBoard",
    "QemuDevice",
    "UnicornDevice",
    "UnicornMachine",
    "find_device",
    "link_for_core",
    "read_model",
    "run_model",
]


@dataclass(frozen=True)
class DeviceResult:
    """Outputs of a model for n samples and what they cost; None where a device cannot say.

    Sizes are those of the model alone, without start-up code. `work_used` is what was written of the `work_bytes`, up
    to the last byte; a write outside of them is a fault. `functions` and `lines` are instructions over all samples, by
    function and by line of NAME.c, where a line includes the functions that it calls.
    """

    mean: Floats
    variance: Floats
    status: NDArray[np.int32]
    work_bytes: int
    instructions: NDArray[np.int64] | None = None
    sizes: Sizes | None = None
    stack_bytes: int | None = None
    stack_bound: StackBound | None = None
    work_used: int | None = None
    functions: Mapping[str, int] = field(default_factory=dict)
    lines: Mapping[int, int] = field(default_factory=dict)
    stderr: str = ""


@dataclass(frozen=True)
class Model:
    """A generated model in a folder: NAME.c, NAME.h, and the lengths its header defines."""

    folder: Path
    name: str
    input_len: int
    output_len: int
    work_len: int
    input_variance: bool

    @property
    def source(self) -> Path:
        """The one translation unit of the model."""
        return self.folder / f"{self.name}.c"

    @property
    def sources(self) -> list[Path]:
        """What is compiled: the translation unit, and the weights where they are a file of their own."""
        weights = self.folder / f"{self.name}_weights.S"
        return [self.source, *([weights] if weights.exists() else [])]

    @property
    def predict(self) -> str:
        """The C function that predicts."""
        return f"{self.name}_predict"

    @property
    def weight_pattern(self) -> str:
        """Names of the weight arrays: those of the model, not those of the runtime's tables."""
        return f"(?i){re.escape(self.name)}_"

    @property
    def record(self) -> np.dtype[np.void]:
        """What c_runtime/targets/run_samples.c writes for a sample."""
        words = [("status", "<i4"), ("ticks", "<u4"), ("stack", "<u4")]
        return np.dtype([*words, ("mean", "<f4", (self.output_len,)), ("variance", "<f4", (self.output_len,))])


def read_model(folder: Path, name: str, input_variance: bool = False) -> Model:
    """The model called `name` in a folder of generated C."""
    header = (folder / f"{name}.h").read_text()
    found = dict(re.findall(rf"#define\s+{name.upper()}_(INPUT|OUTPUT|WORK)_LEN\s+\(?(\d+)", header))
    if set(found) != {"INPUT", "OUTPUT", "WORK"}:
        raise LbnnError(f"{folder / name}.h does not define the lengths of model {name}; export it again")
    return Model(folder, name, int(found["INPUT"]), int(found["OUTPUT"]), int(found["WORK"]), input_variance)


class Image(Protocol):
    """A model built for a device."""

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        """Predicts; `samples` are the inputs [n, input_len] and, for a model that takes them, their variances."""


class Device(Protocol):
    """A compiler and a place to run what it makes."""

    @property
    def name(self) -> str:
        """As in DEVICES."""

    def missing(self) -> str:
        """What to install to use it; nothing where it is ready."""

    def available(self) -> bool:
        """Whether it is ready."""

    def build(self, model: Model, out: Path, flags: Iterable[str] = ()) -> Image:
        """Compiles a model, with files of its own in the folder `out`."""


def _result(model: Model, records: NDArray[np.void], **costs: Any) -> DeviceResult:
    mean, variance, status = (records[name].copy() for name in ("mean", "variance", "status"))
    return DeviceResult(mean, variance, status, work_bytes=4 * model.work_len, **costs)


_GUARD, _PAINT = 16, 0xA5A5A5A5  # words on either side of the work memory, and what they and it hold beforehand


def _painted_work(model: Model) -> NDArray[np.uint32]:
    """Memory for a model's work between two guards."""
    return np.full(_GUARD + max(model.work_len, 1) + _GUARD, _PAINT, np.uint32)


def _work_used(model: Model, words: NDArray[np.uint32]) -> int:
    """Bytes of painted work memory up to the last that was written."""
    touched = np.flatnonzero(words != _PAINT) - _GUARD
    outside = touched[(touched < 0) | (touched >= model.work_len)]
    if outside.size:
        raise EmulationFault(f"{model.predict} writes work[{outside[0]}], but it has {model.work_len} floats")
    return 4 * (int(touched[-1]) + 1) if touched.size else 0


def _run_samples(
    name: str, model: Model, samples: Sequence[Floats], run: Callable[[Path], ProgramRun]
) -> tuple[ProgramRun, int, NDArray[np.void]]:
    """Runs a program built from run_samples.c: what it said, the ticks of an empty call, a record for each sample."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "inputs.bin").write_bytes(np.concatenate(samples, axis=1).astype("<f4").tobytes())
        done = run(folder)
        if done.status != 0:
            raise EmulationFault(f"{name}: the program ended with status {done.status}: {_cause(done.stderr)}")
        output = (folder / "outputs.bin").read_bytes()
    records = np.frombuffer(output[4:], model.record)
    if len(records) != len(samples[0]):
        raise EmulationFault(f"{name}: {len(records)} results for {len(samples[0])} samples")
    return done, int.from_bytes(output[:4], "little"), records


def _cause(stderr: str) -> str:
    """A sanitizer's finding, which is followed by much else, or the last thing said."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["no message"]
    return next((line for line in lines if "runtime error" in line or "ERROR:" in line), lines[-1])


@dataclass(frozen=True)
class HostDevice:
    """The model as a shared library in this process."""

    name: str
    toolchain: Toolchain

    def missing(self) -> str:
        """See Device."""
        return self.toolchain.missing()

    def available(self) -> bool:
        """See Device."""
        return self.toolchain.available()

    def build(self, model: Model, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        library = self.toolchain.compile_shared(model.sources, out / "model.so", flags, [model.folder])
        return _HostImage(model, library)


@dataclass(frozen=True)
class _HostImage:
    model: Model
    library: Path

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        predict: Callable[..., int] = getattr(ctypes.CDLL(str(self.library)), self.model.predict)
        records = np.zeros(len(samples[0]), self.model.record)
        mean, variance = np.zeros((2, self.model.output_len), np.float32)
        painted = _painted_work(self.model)
        for index, record in enumerate(records):
            buffers = (*(array[index] for array in samples), mean, variance, painted[_GUARD:])
            record["status"] = predict(*(ctypes.c_void_p(buffer.ctypes.data) for buffer in buffers))
            record["mean"], record["variance"] = mean, variance
        return _result(self.model, records, work_used=_work_used(self.model, painted))


@dataclass(frozen=True)
class SanitizedDevice:
    """The model as a host program that stops at the first undefined behaviour or wrong memory access."""

    name: str
    toolchain: Toolchain

    def missing(self) -> str:
        """See Device."""
        return self.toolchain.missing()

    def available(self) -> bool:
        """See Device."""
        return self.toolchain.available()

    def build(self, model: Model, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        targets = targets_folder()
        sources = [targets / "host_io.c", targets / "run_samples.c", model.source]
        given = (*SANITIZE_FLAGS, *model_flags(model.name, model.input_variance), *flags, "-lm")
        program = self.toolchain.compile(sources, out / "model", given, [targets, model.folder])
        return _SanitizedImage(self.name, model, program)


@dataclass(frozen=True)
class _SanitizedImage:
    name: str
    model: Model
    program: Path

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        command = (str(self.program.resolve()),)
        done, _, records = _run_samples(
            self.name, self.model, samples, lambda folder: run_program(self.name, command, folder)
        )
        return _result(self.model, records, stderr=done.stderr)


def _missing_packages(*modules: str) -> str:
    return "" if all(importlib.util.find_spec(module) for module in modules) else "pip install 'lbnn[mcu]'"


def _join(*missing: str) -> str:
    return "; ".join(part for part in missing if part)


def link_for_core(
    core: Core,
    sources: Sequence[Path],
    out: Path,
    keep: Sequence[str],
    flags: Iterable[str] = (),
    include: Sequence[Path] = (),
    compiler: str = "zig",
) -> Path:
    """An image for UnicornMachine that holds the functions `keep` and what they call; `compiler` is zig or gcc."""
    script = out.with_suffix(".ld")
    script.write_text(linker_script(core.name, IMAGE_MEMORY, keep[0]))
    roots = (f"-Wl,-e,{keep[0]}", *(f"-Wl,-u,{name}" for name in keep))
    link = compile_zig if compiler == "zig" else compile_gcc
    return link(core, sources, out, script, ("-g", *roots, *flags), include)


@dataclass(frozen=True)
class UnicornDevice:
    """An emulated core, with zig (pip alone) or gcc as the compiler."""

    name: str
    core: Core
    toolchain: Toolchain

    def missing(self) -> str:
        """See Device."""
        return _join(self.toolchain.missing(), _missing_packages("unicorn", "elftools"))

    def available(self) -> bool:
        """See Device."""
        return not self.missing()

    def build(self, model: Model, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        gcc = self.toolchain.name != "zig"
        given = (*STACK_FLAGS, *flags) if gcc else tuple(flags)
        compiler = "gcc" if gcc else "zig"
        elf = link_for_core(
            self.core, model.sources, out / "model.elf", [model.predict], given, [model.folder], compiler
        )
        bound = stack_bound(out.glob("*.ci"), model.predict) if gcc else None
        return _UnicornImage(self.core, model, elf, bound)


@dataclass(frozen=True)
class _UnicornImage:
    core: Core
    model: Model
    elf: Path
    bound: StackBound | None

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        model, machine = self.model, UnicornMachine(self.elf, self.core)
        machine.charge_calls_to(model.predict)
        inputs = [machine.alloc(model.input_len) for _ in samples]
        mean, variance = (machine.alloc(model.output_len) for _ in range(2))
        painted = _painted_work(model)
        guard = machine.alloc(painted.size)
        machine.write(guard, painted)
        records = np.zeros(len(samples[0]), model.record)
        instructions = np.zeros(len(records), np.int64)
        machine.paint_stack()
        for index, record in enumerate(records):
            for buffer, array in zip(inputs, samples, strict=True):
                machine.write(buffer, array[index])
            before = machine.instructions
            record["status"] = machine.call(model.predict, *inputs, mean, variance, guard + 4 * _GUARD)
            instructions[index] = machine.instructions - before
            record["mean"] = machine.read(mean, model.output_len)
            record["variance"] = machine.read(variance, model.output_len)
        return _result(
            model,
            records,
            instructions=instructions,
            sizes=image_sizes(self.elf, model.weight_pattern),
            stack_bytes=machine.stack_used(),
            stack_bound=self.bound,
            work_used=_work_used(model, machine.read(guard, painted.size, np.uint32)),
            functions=machine.profile() if profile else {},
            lines=self._lines(machine) if profile else {},
        )

    def _lines(self, machine: UnicornMachine) -> dict[int, int]:
        source = SourceLines(self.elf, self.model.source.name, self.model.predict)
        begin, end = machine.symbols.range_of(self.model.predict)
        costs: Counter[int] = Counter()
        for counts in (machine.executed(), machine.charged()):
            for address, count in counts.items():
                if begin <= address < end:
                    costs[source.line_at(address) or 0] += count
        return dict(sorted(costs.items()))


@dataclass(frozen=True)
class QemuDevice:
    """An emulated board: a whole firmware image, compiled by gcc."""

    board: Board

    @property
    def name(self) -> str:
        """See Device."""
        return self.board.name

    def missing(self) -> str:
        """See Device."""
        machine = QemuBoard(self.board)
        here = shutil.which(emulator_command(self.board)[0])
        emulator = "" if here else f"apt install {machine.emulator_package}"
        return _join(cross_gcc(machine.core).missing(), emulator, _missing_packages("elftools"))

    def available(self) -> bool:
        """See Device."""
        return not self.missing()

    def build(self, model: Model, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        machine = QemuBoard(self.board)
        sources = [targets_folder() / "run_samples.c", model.source]
        given = (*model_flags(model.name, model.input_variance), *flags)
        firmware = machine.build(sources, out / "firmware.elf", given, [model.folder])
        alone = UnicornDevice(self.name, machine.core, cross_gcc(machine.core)).build(model, out, flags)
        assert isinstance(alone, _UnicornImage)
        return _QemuImage(machine, model, firmware, alone)


@dataclass(frozen=True)
class _QemuImage:
    machine: QemuBoard
    model: Model
    firmware: Path
    alone: _UnicornImage  # the model without start-up code and driver, for its size and stack

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        board = self.machine.board
        done, empty, records = _run_samples(
            board.name, self.model, samples, lambda folder: self.machine.run(self.firmware, folder)
        )
        # The empty function has two instructions; the rest of its time is the call's own.
        scale = board.timer.ticks_per_instruction
        overhead = round(empty / scale) - 2
        return _result(
            self.model,
            records,
            instructions=np.rint(records["ticks"] / scale).astype(np.int64) - overhead,
            sizes=image_sizes(self.alone.elf, self.model.weight_pattern),
            stack_bytes=int(records["stack"].max(initial=0)),
            stack_bound=self.alone.bound,
            stderr=done.stderr,
        )


def _devices() -> Iterable[Device]:
    yield HostDevice("c", TOOLCHAINS["host"])
    yield from (HostDevice(f"c-{name}", TOOLCHAINS[name]) for name in ("gcc", "clang", "zig"))
    yield SanitizedDevice("c-sanitized", TOOLCHAINS["host"])
    emulated = [core for core in CORES.values() if core.unicorn]
    yield from (UnicornDevice(core.name, core, TOOLCHAINS["zig"]) for core in emulated)
    yield from (UnicornDevice(f"{core.name}-gcc", core, cross_gcc(core)) for core in emulated)
    yield from (QemuDevice(board) for board in BOARDS.values())


DEVICES: Mapping[str, Device] = {device.name: device for device in _devices()}


def find_device(name: str) -> Device:
    """The device called `name`, which must be ready for use."""
    if name not in DEVICES:
        raise LbnnError(f"unknown device '{name}'; known are {', '.join(DEVICES)}")
    if missing := DEVICES[name].missing():
        raise LbnnError(f"device '{name}' needs: {missing}")
    return DEVICES[name]


def run_model(
    device: str | Device,
    folder: Path,
    name: str,
    inputs: Floats,
    input_variance: Floats | None = None,
    flags: Iterable[str] = (),
    profile: bool = False,
) -> DeviceResult:
    """Compiles the generated model NAME in `folder` for `device` and predicts `inputs` [n, input_len] there."""
    chosen = find_device(device) if isinstance(device, str) else device
    model = read_model(folder.resolve(), name, input_variance is not None)
    samples = [np.ascontiguousarray(x, np.float32) for x in (inputs, input_variance) if x is not None]
    for array in samples:
        if array.shape != (len(inputs), model.input_len):
            raise LbnnError(f"inputs have shape {array.shape}, but {name} wants ({len(inputs)}, {model.input_len})")
    with tempfile.TemporaryDirectory() as temporary:
        return chosen.build(model, Path(temporary), tuple(flags)).run(samples, profile)
