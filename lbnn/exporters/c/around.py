"""What the templates say around a prediction: the range of training, the calibrated interval, classes, an example."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn.exporters.c import literals
from lbnn.exporters.c.heads import HEAD_KERNELS, stack_len
from lbnn.exporters.c.names import c_string
from lbnn.exporters.c.program import Program
from lbnn.exporters.c.selftest import Golden
from lbnn.graph.reference import classify
from lbnn.model.file import Model
from lbnn.model.inputs import trained_range, unsure_entropy, usual_inputs
from lbnn.train.about import given_classes
from lbnn.train.calibration import read_calibration
from lbnn.train.class_calibration import read_class_calibration

LONGEST_EXAMPLE = 64
CLASS_TOLERANCE = 1e-4
"""Of the self-test's probabilities, beside what the logits may be off by."""


@dataclass(frozen=True)
class RangeView:
    """The range of the training inputs as text: `count` numbers, of which `index` is that of input i."""

    count: int
    how: str
    index: str
    low: str
    high: str


@dataclass(frozen=True)
class CalibrationView:
    """The constants of a calibration as text; `limit` is of variances."""

    rows: int
    percent: str
    alarms: str
    factor: str
    limit: str


@dataclass(frozen=True)
class SetView:
    """The constants of calibrated classes as text."""

    rows: int
    percent: str
    threshold: str
    temperature: str


@dataclass(frozen=True)
class HeadView:
    """What NAME_classify says: its kernel, where the logits lie in `work`, the class, and when it is unsure.

    `memory` is that of the kernel, of `scratch` floats; in integers they take `stack_bytes` of stack, with the logits.
    `names` are those of the classes as C strings, where the model file has them.
    """

    kernel: str
    what: str
    memory: str
    scratch: int
    stack_bytes: int
    logits: int
    label: str
    label_is: str
    limit: str
    probability: str
    room: str
    names: tuple[str, ...]
    set: SetView | None


def head_view(vectors: Golden, program: Program, model: Model) -> HeadView | None:
    """Of a network with a head, with the probabilities that the self-test expects."""
    found = classify(program.graph, vectors.result)
    if found is None or program.graph.head is None:
        return None
    one, limit, kernel = program.output_len == 1, unsure_entropy(model.metadata), HEAD_KERNELS[program.graph.head]
    return HeadView(
        kernel=kernel.name,
        what="labels" if program.graph.head == "sigmoid" else "classes",
        memory="scratch" if program.dtype.is_integer else "work",
        scratch=kernel.scratch * program.output_len,
        stack_bytes=4 * stack_len(program.graph.head, program.output_len),
        logits=program.work_len - 2 * program.output_len,
        label="probability[0] >= 0.5f" if one else f"lbnn_largest(probability, {program.name.upper()}_OUTPUT_LEN)",
        label_is="1 if the label holds, else 0" if one else "the index of the largest probability",
        limit="" if limit is None else literals.scalar(limit),
        probability=literals.nested(found.probability),
        room=", ".join(map(literals.scalar, _class_room(vectors))),
        names=tuple(map(c_string, given_classes(model.metadata, max(2, program.output_len)))),
        set=_set_view(model) if not one else None,
    )


def _set_view(model: Model) -> SetView | None:
    """Of a model that was calibrated."""
    found = read_class_calibration(model.metadata)
    if found is None:
        return None
    percent, temperature = f"{100 * found.level:.4g}", f"{found.temperature:.4g}"
    return SetView(found.rows, percent, literals.scalar(found.threshold), temperature)


def _class_room(vectors: Golden) -> list[float]:
    """How far each vector's probabilities may be off: no more than the largest logit, of which they are a function."""
    mean, var = vectors.result
    logits = (np.abs(mean) + np.sqrt(var)).max(axis=1)
    return [float(room) for room in CLASS_TOLERANCE + vectors.tolerance * logits]


def example_text(program: Program, model: Model) -> str:
    """A usual input, unless that is zeros or too long to read."""
    usual = usual_inputs(model, np.zeros(program.graph.input.shape))
    return (
        literals.listed(usual).replace("        ", "    ")
        if program.input_len <= LONGEST_EXAMPLE and usual.any()
        else ""
    )


def range_view(program: Program, model: Model) -> RangeView | None:
    """Of a model whose file knows what it was trained on."""
    count = program.graph.input.shape[0]
    given = trained_range(model.metadata, count)
    if given is None:
        return None
    each = program.input_len // count
    how, index = (", channel by channel", f"i / {each}") if each > 1 else ("", "i")
    return RangeView(count, how, index, *map(literals.listed, given))


def calibration_view(program: Program, model: Model) -> CalibrationView | None:
    """Of a model that was calibrated."""
    found = read_calibration(model.metadata, program.output_len)
    if found is None:
        return None
    limits = np.square(np.array(found.unsure_sd))
    return CalibrationView(
        found.rows,
        f"{100 * found.level:.4g}",
        f"{100 * found.false_alarms:.4g}",
        literals.listed(found.factor),
        literals.listed(limits),
    )
