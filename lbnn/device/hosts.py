"""This host as a device: a model as a shared library, or as a program under the sanitizers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.resources import targets_folder
from lbnn.device.compilers import SANITIZE_FLAGS, Toolchain
from lbnn.device.generated import GeneratedModel
from lbnn.device.results import GUARD, DeviceResult, Image, collect, painted_work, run_samples, work_used
from lbnn.device.runs import run_program


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

    def build(self, model: GeneratedModel, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        library = self.toolchain.compile_shared(model.sources, out / "model.so", flags, [model.folder])
        return _HostImage(model, library)


@dataclass(frozen=True)
class _HostImage:
    model: GeneratedModel
    library: Path

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        predict: Callable[..., int] = getattr(ctypes.CDLL(str(self.library)), self.model.predict)
        records = np.zeros(len(samples[0]), self.model.record)
        mean, variance = (np.zeros(n, np.float32) for n in (self.model.output_len, self.model.second_len))
        painted = painted_work(self.model)
        for index, record in enumerate(records):
            buffers = (*(array[index] for array in samples), mean, variance, painted[GUARD:])
            record["status"] = predict(*(ctypes.c_void_p(buffer.ctypes.data) for buffer in buffers))
            record["mean"], record["variance"] = mean, variance
        return collect(self.model, records, work_used=work_used(self.model, painted))


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

    def build(self, model: GeneratedModel, out: Path, flags: Iterable[str] = ()) -> Image:
        """See Device."""
        return _SanitizedImage(
            self.name, model, build_program(self.toolchain, model, out / "model", (*SANITIZE_FLAGS, *flags))
        )


@dataclass(frozen=True)
class _SanitizedImage:
    name: str
    model: GeneratedModel
    program: Path

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        command = (str(self.program.resolve()),)
        done, _, records = run_samples(
            self.name, self.model, samples, lambda folder: run_program(self.name, command, folder)
        )
        return collect(self.model, records, stderr=done.stderr)


def build_program(toolchain: Toolchain, model: GeneratedModel, out: Path, flags: Iterable[str]) -> Path:
    """A host program that predicts the samples of inputs.bin into outputs.bin."""
    targets = targets_folder()
    sources = [targets / "host_io.c", targets / "run_samples.c", *model.sources]
    return toolchain.compile(sources, out, (*model.driver_flags, *flags, "-lm"), [targets, model.folder])
