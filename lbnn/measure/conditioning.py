"""Why a model can't be held to the tolerance in float32: how much it may miss, and the node that costs most of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY, evaluate
from lbnn.graph.rounding import TAIL_FITTED, costliest, sum_of_sizes
from lbnn.measure.parity import NO_DIGIT, Expected
from lbnn.measure.samples import Samples
from lbnn.model.file import Model


@dataclass(frozen=True)
class Conditioning:
    """The largest bound over all samples and outputs, the node behind it, and what happens there."""

    bound: float
    sample: str
    node: str
    reason: str

    def __str__(self) -> str:
        lost = f"float32 may be off by {self.bound:.1e}" if self.bound <= NO_DIGIT else "float32 has no sure digit"
        return f"{lost} at {self.sample}: {self.reason}"


def explain_bound(model: Model, samples: Samples, expected: Expected, tolerance: float) -> Conditioning | None:
    """Nothing, if float32 is sure to keep the tolerance on all samples."""
    both = np.stack([expected.mean_bound, expected.var_bound])
    part, number, element = (int(i) for i in np.unravel_index(int(both.argmax()), both.shape))
    bound = float(both[part, number, element])
    if bound <= tolerance:
        return None
    sample = samples[number]
    values = evaluate(model.graph, sample.mean, sample.var)
    node = costliest(model.graph, values, part, element)
    return Conditioning(bound, f"#{number} {sample.kinds[0]}", node.name, _reason(node, values))


def _reason(node: Node, values: dict[str, Any]) -> str:
    where, out = f"{node.name} ({node.op})", values[node.name]
    if "weight" in node.params and ops.find(node.op).gaussian:
        times = float((sum_of_sizes(node, values[node.inputs[0]]) / (np.abs(out.mean) + np.sqrt(out.var))).max())
        return f"in {where} the terms of a sum are up to {times:,.0f} times its |mean| + sd"
    if isinstance(out, Moments) and ops.find(node.op).general in ("leaky_relu", "abs"):
        x = values[node.inputs[0]]
        far = float(NUMPY.ratio(np.abs(x.mean), np.sqrt(x.var)).max())
        if far > TAIL_FITTED:
            return f"{where} passes on the variance of units up to {far:.0f} sigma from zero"
    return f"{where} magnifies what is rounded before it"
