"""What the templates see of a head: NAME_classify and its part of the self-test, as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn.exporters.c import literals
from lbnn.exporters.c.heads import HEAD_KERNELS
from lbnn.exporters.c.program import Program
from lbnn.exporters.c.selftest import Golden
from lbnn.graph.reference import classify
from lbnn.model.file import Model
from lbnn.model.inputs import unsure_entropy

CLASS_TOLERANCE = 1e-4
"""Of the self-test's probabilities, beside what the logits may be off by."""


@dataclass(frozen=True)
class HeadView:
    """What NAME_classify says: its kernel, where the logits lie in `work`, the class, and when it is unsure."""

    kernel: str
    what: str
    logits: int
    label: str
    label_is: str
    limit: str
    probability: str
    room: str


def head_view(vectors: Golden, program: Program, model: Model) -> HeadView | None:
    """The view of a program's head, if it has one."""
    found = classify(program.graph, vectors.result)
    if found is None or program.graph.head is None:
        return None
    one, limit = program.output_len == 1, unsure_entropy(model.metadata)
    return HeadView(
        kernel=HEAD_KERNELS[program.graph.head].name,
        what="labels" if program.graph.head == "sigmoid" else "classes",
        logits=program.work_len - 2 * program.output_len,
        label="probability[0] >= 0.5f" if one else f"lbnn_largest(probability, {program.name.upper()}_OUTPUT_LEN)",
        label_is="1 if the label holds, else 0" if one else "the index of the largest probability",
        limit="" if limit is None else literals.scalar(limit),
        probability=literals.nested(found.probability),
        room=", ".join(map(literals.scalar, _class_room(vectors))),
    )


def _class_room(vectors: Golden) -> list[float]:
    """How far each vector's probabilities may be off: no more than the largest logit, of which they are a function."""
    mean, var = vectors.result
    logits = (np.abs(mean) + np.sqrt(var)).max(axis=1)
    return [float(room) for room in CLASS_TOLERANCE + vectors.tolerance * logits]
