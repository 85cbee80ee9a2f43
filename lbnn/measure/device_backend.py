"""The exported C, compiled for a device and run there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.temporary import temporary_folder
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.cost import Cost
from lbnn.measure.parity import Outcome
from lbnn.measure.samples import Samples
from lbnn.model.file import Model


def run_device(
    device: str,
    model: Model,
    samples: Samples,
    runtime: Path | None = None,
    weights: str = "source",
    optimize: str = "speed",
) -> Outcome:
    """The exported C, compiled for a device and run there; `runtime` replaces the C runtime's headers."""
    options = COptions(name="model", input_variance=samples.var is not None, weights=weights, optimize=optimize)
    program = lower(model, options)
    inputs = samples.mean.reshape(len(samples), -1)
    spread = None if samples.var is None else samples.var.reshape(len(samples), -1)
    with temporary_folder() as folder:
        written = write_program(program, model, options, folder / "c")
        if runtime is not None:
            for header in written.folder.glob("lbnn*.h"):
                shutil.copy(runtime / header.name, header)
        result = run_model(device, written, inputs, spread)
    mean, var = (np.where(result.status[:, None] == 0, part, np.nan) for part in (result.mean, result.variance))
    return Outcome(mean, var, device_cost(result, footprint(program).weight_bytes))


def device_cost(result: Any, weight_bytes: int) -> Cost:
    """Whatever flash holds besides the weights counts as code, also constants that the compiler moved there."""
    return Cost(
        None if result.instructions is None else int(np.mean(result.instructions)),
        None if result.sizes is None else result.sizes.flash - weight_bytes,
        None if result.sizes is None else weight_bytes,
        result.work_bytes,
        result.stack_bytes if result.stack_bytes is not None else getattr(result.stack_bound, "bytes", None),
    )
