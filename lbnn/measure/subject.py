"""What is measured: a model, its generated C and the inputs it is measured with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.device.generated import GeneratedModel
from lbnn.exporters.c import footprint
from lbnn.exporters.c.program import Program
from lbnn.graph.passes import prepare
from lbnn.model.file import Model
from lbnn.model.inputs import input_scale

NAME = "model"
TIMED_BATCH = 256
TIMED_VALUES = 80_000_000  # of all layers in a timed batch: above it onnxruntime would take more than 1.5 GB
COUNTED = 2  # inputs over which instructions are averaged; without an FPU they depend on the numbers
MANY_PRODUCTS = (
    1_000_000  # products, from which on one input is an average itself, and two would take minutes without an FPU
)


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
        return counted_inputs(self.inputs, self.program)

    @property
    def batch(self) -> int:
        """How many inputs are timed at once: TIMED_BATCH, or of a large network the half of it, and so on."""
        values = sum(prod(value.shape) for value in self.program.graph.values.values())
        batch = TIMED_BATCH
        while batch > 1 and batch * values > TIMED_VALUES:
            batch //= 2
        return batch


def counted_inputs(inputs: Floats, program: Program) -> Floats:
    """COUNTED of them, or one of a large network, [n, input_len]."""
    count = COUNTED if footprint(program).macs < MANY_PRODUCTS else 1
    return inputs[:count].reshape(count, -1)


def ordinary_inputs(model: Model) -> Floats:
    """A batch as in training, always the same."""
    centre, spread = input_scale(model.graph)
    shape = (TIMED_BATCH, *model.graph.input.shape)
    return (centre + spread * np.random.default_rng(0).normal(size=shape)).astype(np.float32)
