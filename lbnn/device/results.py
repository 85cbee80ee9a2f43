"""What a device gives back for a model's samples: the outputs, what they cost, and whether memory was kept.

Numbers travel as float32 bit patterns, never as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.temporary import temporary_folder
from lbnn.device.cycles import Cycles
from lbnn.device.elf import Sizes
from lbnn.device.generated import GeneratedModel
from lbnn.device.runs import NO_MEMORY, EmulationFault, OutOfMemory, ProgramRun
from lbnn.device.stack import StackBound


@dataclass(frozen=True)
class DeviceResult:
    """Outputs of a model for n samples and what they cost; None where a device cannot say.

    Sizes are those of the model alone, without start-up code. `work_used` is what was written of the `work_bytes`, up
    to the last byte; a write outside of them is a fault. `functions` and `lines` are instructions over all samples, by
    function and by line of NAME.c, where a line includes the functions that it calls. `cycles` are estimated, of a
    profiled sample in the mean, for cores in PIPELINES; `counted_cycles` those of a device that counts them.
    """

    mean: Floats
    variance: Floats
    status: NDArray[np.int32]
    work_bytes: int
    instructions: NDArray[np.int64] | None = None
    counted_cycles: NDArray[np.int64] | None = None
    sizes: Sizes | None = None
    stack_bytes: int | None = None
    stack_bound: StackBound | None = None
    work_used: int | None = None
    functions: Mapping[str, int] = field(default_factory=dict)
    lines: Mapping[int, int] = field(default_factory=dict)
    cycles: Cycles | None = None
    stderr: str = ""


class Image(Protocol):
    """A model built for a device."""

    def run(self, samples: Sequence[Floats], profile: bool) -> DeviceResult:
        """Predicts; `samples` are the inputs [n, input_len] and, for a model that takes them, their variances."""


def collect(model: GeneratedModel, records: NDArray[np.void], **costs: Any) -> DeviceResult:
    """The result that a model's records hold, with what is known of its costs."""
    mean, variance, status = (records[name].copy() for name in ("mean", "variance", "status"))
    return DeviceResult(mean, variance, status, work_bytes=model.work_bytes, **costs)


# ---- work memory between two guards --------------------------------------------------------------------------

GUARD = 16
"""Elements on either side of the work memory that nobody may write."""
_PAINT = 0xA5  # what each byte of it and of its guards holds beforehand


def _painted(model: GeneratedModel, count: int) -> NDArray[Any]:
    return np.full(count * model.element.itemsize, _PAINT, np.uint8).view(f"<u{model.element.itemsize}")


def painted_work(model: GeneratedModel) -> NDArray[Any]:
    """Memory for a model's work between two guards."""
    return _painted(model, GUARD + max(model.work_len, 1) + GUARD)


def work_used(model: GeneratedModel, memory: NDArray[Any]) -> int:
    """Bytes of painted work memory up to the last element that was written."""
    touched = np.flatnonzero(memory != _painted(model, 1)) - GUARD
    outside = touched[(touched < 0) | (touched >= model.work_len)]
    if outside.size:
        raise EmulationFault(f"{model.predict} writes work[{outside[0]}], but it has {model.work_len} elements")
    return model.element.itemsize * (int(touched[-1]) + 1) if touched.size else 0


# ---- programs made of run_samples.c --------------------------------------------------------------------------


def run_samples(
    name: str,
    model: GeneratedModel,
    samples: Sequence[Floats],
    run: Callable[[Path], ProgramRun],
    byte_order: str = "<",
) -> tuple[ProgramRun, int, NDArray[np.void]]:
    """Runs a program built from run_samples.c: what it said, the ticks of an empty call, a record for each sample.

    Its files are in the machine's own byte order.
    """
    with temporary_folder() as folder:
        (folder / "inputs.bin").write_bytes(np.concatenate(samples, axis=1).astype(f"{byte_order}f4").tobytes())
        done = run(folder)
        if done.status != 0:
            raise _failure(name, done)
        output = (folder / "outputs.bin").read_bytes()
    records = np.frombuffer(output[4:], model.record.newbyteorder(byte_order)).astype(model.record)  # type: ignore[arg-type]
    if len(records) != len(samples[0]):
        raise EmulationFault(f"{name}: {len(records)} results for {len(samples[0])} samples")
    return done, int(np.frombuffer(output[:4], f"{byte_order}u4")[0]), records


def _failure(name: str, done: ProgramRun) -> LbnnError:
    cause = _cause(done.stderr)
    if NO_MEMORY.search(cause):
        return OutOfMemory(name)
    return EmulationFault(f"{name}: the program ended with status {done.status}: {cause}")


def _cause(stderr: str) -> str:
    """A sanitizer's finding, which is followed by much else, or the last thing said."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["no message"]
    return next((line for line in lines if "runtime error" in line or "ERROR:" in line), lines[-1])
