"""What is measured: a model, its generated C and the inputs it is measured with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.device.generated import GeneratedModel
from lbnn.exporters.c.program import Program
from lbnn.graph.passes import prepare
from lbnn.model.file import Model
from lbnn.model.inputs import input_scale

NAME = "model"
TIMED_BATCH = 256
COUNTED = 2  # inputs over which instructions are averaged; without an FPU they depend on the numbers


@dataclass(frozen=True)
class Subject:
    """A model, its file, its generated C and the inputs it is measured with."""

    path: Path
    model: Model
    program: Program
    generated: GeneratedModel
    inputs: Floats

    @property
    def called(self) -> GeneratedModel:
        """The same by what a user calls: of a network with a head NAME_classify."""
        return replace(self.generated, classifies=self.program.graph.head is not None)

    @cached_property
    def onnx(self) -> Any:
        """The exported ONNX model."""
        from lbnn.exporters.onnx import to_onnx

        return to_onnx(prepare(self.model.graph, input_variance=False), self.model.sha256)

    @property
    def few(self) -> Floats:
        """The inputs over which instructions are averaged, [n, input_len]."""
        return self.inputs[:COUNTED].reshape(COUNTED, -1)


def ordinary_inputs(model: Model) -> Floats:
    """A batch as in training, always the same."""
    centre, spread = input_scale(model.graph)
    shape = (TIMED_BATCH, *model.graph.input.shape)
    return (centre + spread * np.random.default_rng(0).normal(size=shape)).astype(np.float32)
