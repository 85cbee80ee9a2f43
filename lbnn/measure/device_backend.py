"""The exported C, compiled for a device and run there."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.files import write_folder
from lbnn.device.devices import run_model
from lbnn.device.generated import read_generated
from lbnn.exporters.c import COptions, footprint, generate, lower
from lbnn.measure.cost import Cost
from lbnn.measure.parity import Outcome
from lbnn.measure.samples import Samples
from lbnn.model.file import Model


def run_device(
    device: str, model: Model, samples: Samples, runtime: Path | None = None, weights: str = "source"
) -> Outcome:
    """The exported C, compiled for a device and run there; `runtime` replaces the C runtime's headers."""
    options = COptions(name="model", input_variance=samples.var is not None, weights=weights)
    files: dict[str, Any] = dict(generate(model, options))
    if runtime is not None:
        files |= {path.name: path.read_bytes() for path in runtime.glob("*.h") if path.name in files}
    inputs = samples.mean.reshape(len(samples), -1)
    spread = None if samples.var is None else samples.var.reshape(len(samples), -1)
    with tempfile.TemporaryDirectory() as folder:
        written = read_generated(write_folder(Path(folder) / "c", files), "model", options.input_variance)
        result = run_model(device, written, inputs, spread)
    mean, var = (np.where(result.status[:, None] == 0, part, np.nan) for part in (result.mean, result.variance))
    return Outcome(mean, var, device_cost(result, footprint(lower(model, options)).weight_bytes))


def device_cost(result: Any, weight_bytes: int) -> Cost:
    """Whatever flash holds besides the weights counts as code, also constants that the compiler moved there."""
    return Cost(
        None if result.instructions is None else int(np.mean(result.instructions)),
        None if result.sizes is None else result.sizes.flash - weight_bytes,
        None if result.sizes is None else weight_bytes,
        result.work_bytes,
        result.stack_bytes if result.stack_bytes is not None else getattr(result.stack_bound, "bytes", None),
    )
