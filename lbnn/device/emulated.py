"""Emulated devices: a single core in Unicorn, and a whole board in QEMU."""

from __future__ import annotations

import importlib.util
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lbnn.base.arrays import Floats
from lbnn.base.resources import targets_folder
from lbnn.device.boards import Board
from lbnn.device.compilers import cross_gcc
from lbnn.device.cores import Core
from lbnn.device.cycles import PIPELINES, Cycles, estimate
from lbnn.device.decoding import decode
from lbnn.device.elf import SourceLines, image_sizes
from lbnn.device.firmware import CROSS_COMPILERS, CrossCompiler, emulator_command, link_for_core
from lbnn.device.generated import GeneratedModel
from lbnn.device.qemu import QemuBoard
from lbnn.device.results import GUARD, DeviceResult, Image, collect, painted_work, run_samples, work_used
from lbnn.device.stack import StackBound, stack_bound
from lbnn.device.unicorn import UnicornMachine


def _missing_packages(*modules: str) -> str:
    return "" if all(importlib.util.find_spec(module) for module in modules) else "pip install 'lbnn[mcu]'"


def _join(*missing: str) -> str:
    return "; ".join(part for part in missing if part)


@dataclass(frozen=True)
class LinkedModel:
    """A model alone, linked for a core: what its size and worst-case stack are taken from."""

    elf: Path
    bound: StackBound | None


def link_model(
    core: Core, compiler: CrossCompiler, model: GeneratedModel, out: Path, flags: Iterable[str]
) -> LinkedModel:
    """Links the model without start-up code and driver."""
    given = (*compiler.stack_flags, *flags)
    elf = link_for_core(core, model.sources, out / "model.elf", [model.predict], given, [model.folder], compiler.name)
    return LinkedModel(elf, stack_bound(out.glob("*.ci"), model.predict) if compiler.stack_flags else None)


@dataclass(frozen=True)
class UnicornDevice:
    """An emulated core, with zig (pip alone) or gcc as the compiler."""

    name: str
    core: Core
    compiler: CrossCompiler

    def missing(self) -> str:
        """See Device."""
        return _join(self.compiler.toolchain(self.core).missing(), _missing_packages("unicorn", "elftools"))

    def available(self) -> bool:
        """See Device."""
        return not self.missing()

    def build(self, model: GeneratedModel, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        return _UnicornImage(self.core, model, link_model(self.core, self.compiler, model, out, flags))


@dataclass(frozen=True)
class _UnicornImage:
    core: Core
    model: GeneratedModel
    linked: LinkedModel

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        machine = UnicornMachine(self.linked.elf, self.core)
        machine.charge_calls_to(self._layered(machine))
        timed = profile and self.core.name in PIPELINES and not _missing_packages("capstone")
        if timed:
            machine.count_constants()
        inputs = [machine.alloc(self.model.input_len) for _ in samples]
        outputs = [machine.alloc(length) for length in (self.model.output_len, self.model.second_len)]
        painted = painted_work(self.model)
        guard = machine.alloc(painted.size, painted.dtype)
        machine.write(guard, painted)
        machine.paint_stack()
        arguments = (*inputs, *outputs, guard + GUARD * painted.itemsize)
        records, instructions = self._predict(machine, samples, arguments)
        return collect(
            self.model,
            records,
            instructions=instructions,
            sizes=image_sizes(self.linked.elf, self.model.weight_pattern),
            stack_bytes=machine.stack_used(),
            stack_bound=self.linked.bound,
            work_used=work_used(self.model, machine.read(guard, painted.size, painted.dtype)),
            functions=machine.profile() if profile else {},
            lines=self._lines(machine) if profile else {},
            cycles=self._cycles(machine, len(records)) if timed else None,
        )

    def _cycles(self, machine: UnicornMachine, samples: int) -> Cycles:
        """Of one sample, in the mean."""
        executed = machine.executed()
        code = decode(machine.segments, executed)
        whole = estimate(PIPELINES[self.core.name], code, executed, machine.taken(), machine.lines)
        return Cycles(*(round(part / samples) for part in astuple(whole)))

    def _predict(
        self, machine: UnicornMachine, samples: Sequence[Floats], arguments: Sequence[int]
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """A record and the instructions of each sample; `arguments` are the addresses that predict takes."""
        model, (*inputs, mean, variance, _) = self.model, arguments
        records = np.zeros(len(samples[0]), model.record)
        instructions = np.zeros(len(records), np.int64)
        for index, record in enumerate(records):
            for buffer, array in zip(inputs, samples, strict=True):
                machine.write(buffer, array[index])
            before = machine.instructions
            record["status"] = machine.call(model.predict, *arguments)
            instructions[index] = machine.instructions - before
            record["mean"] = machine.read(mean, model.output_len)
            record["variance"] = machine.read(variance, model.second_len)
        return records, instructions

    def _layered(self, machine: UnicornMachine) -> str:
        """The function that calls the kernels, or the one that it became a part of."""
        known = {name for _, _, name in machine.symbols.functions}
        return self.model.layered if self.model.layered in known else self.model.predict

    def _lines(self, machine: UnicornMachine) -> dict[int, int]:
        function = self._layered(machine)
        source = SourceLines(self.linked.elf, self.model.source.name, function)
        begin, end = machine.symbols.range_of(function)
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
        here = shutil.which(emulator_command(self.board)[0])
        emulator = "" if here else f"apt install {self.board.core.family.qemu.package}"
        return _join(cross_gcc(self.board.core).missing(), emulator, _missing_packages("elftools"))

    def available(self) -> bool:
        """See Device."""
        return not self.missing()

    def build(self, model: GeneratedModel, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        machine = QemuBoard(self.board)
        sources = [targets_folder() / "run_samples.c", model.source]
        firmware = machine.build(sources, out / "firmware.elf", (*model.driver_flags, *flags), [model.folder])
        return _QemuImage(
            machine, model, firmware, link_model(self.board.core, CROSS_COMPILERS["gcc"], model, out, flags)
        )


@dataclass(frozen=True)
class _QemuImage:
    machine: QemuBoard
    model: GeneratedModel
    firmware: Path
    linked: LinkedModel

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        board = self.machine.board
        done, empty, records = run_samples(
            board.name, self.model, samples, lambda folder: self.machine.run(self.firmware, folder)
        )
        # The empty function has two instructions; the rest of its time is the call's own.
        scale = board.timer.ticks_per_instruction
        overhead = round(empty / scale) - 2
        return collect(
            self.model,
            records,
            instructions=np.rint(records["ticks"] / scale).astype(np.int64) - overhead,
            sizes=image_sizes(self.linked.elf, self.model.weight_pattern),
            stack_bytes=int(records["stack"].max(initial=0)),
            stack_bound=self.linked.bound,
            stderr=done.stderr,
        )
