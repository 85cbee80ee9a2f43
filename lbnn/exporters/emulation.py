"""`lbnn.emulate`: the generated C on an emulated core or board, as a function of numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn.base.arrays import AnyArray, Floats
from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.base.temporary import temporary_folder
from lbnn.device.devices import find_device, run_model
from lbnn.device.results import DeviceResult
from lbnn.exporters.c import COptions
from lbnn.exporters.c.folder import write_program
from lbnn.exporters.c.lower import lower
from lbnn.exporters.c.program import Program
from lbnn.model.file import Model, read_model

if TYPE_CHECKING:
    from torch import nn


@dataclass
class Emulation:
    """A model on a device: `mean, var = chip(x)` and `chip.classify(x)` for x of shape (N, *input_shape), float32.

    `instructions` is what each sample of the last call took, or None where the device does not count; of an AVR
    there are `counted_cycles` instead. Each call compiles the model anew.
    """

    device: str
    model: Model
    program: Program
    options: COptions
    instructions: AnyArray | None = field(default=None, init=False)
    counted_cycles: AnyArray | None = field(default=None, init=False)

    def __call__(self, x: Any, var: Any = None) -> Moments[Floats]:
        """Predicts each sample there; `var` is the input's variance, of a model emulated with input_variance."""
        found = self._run(x, var, classifies=False)
        shape = (-1, *self.program.graph.values[self.program.graph.output].shape)
        return Moments(found.mean.reshape(shape), found.variance.reshape(shape))

    def classify(self, x: Any, var: Any = None) -> Classes[Floats]:
        """What NAME_classify gives there for each sample, of a model that ends in a head."""
        if self.program.graph.head is None:
            raise LbnnError("this model has no head; let it end in lbnn.nn.SoftmaxHead() to classify")
        logits, found = self(x, var), self._run(x, var, classifies=True)
        _, entropy, information, _ = found.variance.T
        return Classes(found.mean, entropy, entropy - information, information, logits)

    def _run(self, x: Any, var: Any, classifies: bool) -> DeviceResult:
        inputs, spread = self._rows(x), None if var is None else self._rows(var)
        with temporary_folder() as folder:
            written = write_program(self.program, self.model, self.options, folder / "c")
            found = run_model(self.device, replace(written, classifies=classifies), inputs, spread)
        if (found.status < 0).any():
            sample = int(np.flatnonzero(found.status < 0)[0])
            raise LbnnError(f"sample {sample} is refused with status {found.status[sample]}; is it finite?")
        self.instructions, self.counted_cycles = found.instructions, found.counted_cycles
        return found

    def _rows(self, x: Any) -> Floats:
        array, shape = np.ascontiguousarray(x, dtype=np.float32), self.program.graph.input.shape
        if array.shape[1:] != shape or array.ndim == 0:
            raise LbnnError(f"input of shape {array.shape} given; this model takes (N, *{shape})")
        return array.reshape(len(array), -1)


def emulate(
    model: str | Path | nn.Module | Model,
    device: str = "cortex-m4",
    input_shape: Sequence[int] | None = None,
    *,
    input_variance: bool = False,
    dtype: str = "float32",
) -> Emulation:
    """A model or its file on an emulated core or board of docs/devices.md.

    A module needs `input_shape` (without the batch axis) unless it came from `lbnn.load`.
    """
    find_device(device)  # an error now, if it is not ready
    read = model if isinstance(model, Model) else read_model(model, input_shape)
    options = COptions(name="model", input_variance=input_variance, dtype=dtype)
    return Emulation(device, read, lower(read, options), options)
