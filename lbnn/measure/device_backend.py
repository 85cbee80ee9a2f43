"""The exported C, compiled for a device and run there."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import AnyArray
from lbnn.base.temporary import temporary_folder
from lbnn.device.devices import run_model
from lbnn.device.results import DeviceResult
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.cost import Cost
from lbnn.measure.parity import Answers, Outcome
from lbnn.measure.samples import Samples
from lbnn.model.file import Model


def run_device(
    device: str,
    model: Model,
    samples: Samples,
    runtime: Path | None = None,
    weights: str = "source",
    optimize: str = "speed",
    stream: bool = False,
    dtype: str = "float32",
) -> Outcome:
    """The exported C, compiled for a device and run there; `runtime` replaces the C runtime's headers.

    With `stream` every input is pushed sample by sample.
    """
    spread = samples.var is not None
    options = COptions(
        name="model", input_variance=spread, weights=weights, optimize=optimize, stream=stream, dtype=dtype
    )
    program = lower(model, options)
    inputs = samples.mean.reshape(len(samples), -1)
    variance = None if samples.var is None else samples.var.reshape(len(samples), -1)
    with temporary_folder() as folder:
        written = replace(write_program(program, model, options, folder / "c"), replays=stream)
        if runtime is not None:
            for header in written.folder.glob("lbnn*.h"):
                shutil.copy(runtime / header.name, header)
        result = run_model(device, written, inputs, variance)
        decided = None
        if program.graph.head is not None:
            decided = run_model(device, replace(written, classifies=True), inputs, variance)
    cost = device_cost(decided or result, footprint(program).weight_bytes)
    return Outcome(*_answered(result), cost, None if decided is None else _decisions(decided))


def _answered(result: DeviceResult) -> tuple[AnyArray, AnyArray]:
    """Both results of every sample, NaN where the model refused it."""
    mean, var = (np.where(result.status[:, None] >= 0, part, np.nan) for part in (result.mean, result.variance))
    return mean, var


def _decisions(result: DeviceResult) -> Answers:
    """What NAME_classify gave: a decision is the words label, entropy, mutual information, unsure."""
    probability, words = _answered(result)
    return Answers(probability, words[:, 1], words[:, 2])


def device_cost(result: Any, weight_bytes: int) -> Cost:
    """Whatever flash holds besides the weights counts as code, also constants that the compiler moved there."""
    return Cost(
        None if result.instructions is None else int(np.mean(result.instructions)),
        None if result.sizes is None else result.sizes.flash - weight_bytes,
        None if result.sizes is None else weight_bytes,
        result.work_bytes,
        result.stack_bytes if result.stack_bytes is not None else getattr(result.stack_bound, "bytes", None),
        result.cycles,
        None if result.counted_cycles is None else int(np.mean(result.counted_cycles)),
    )
