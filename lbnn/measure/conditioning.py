"""Why a model can't be held to the tolerance in float32: how much it may miss, and the node that costs most of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn import ops
from lbnn.base.moments import Moments
from lbnn.graph import Graph, Node
from lbnn.graph.reference import NUMPY, evaluate
from lbnn.graph.rounding import costliest
from lbnn.graph.rounding_rules import sum_of_sizes
from lbnn.graph.rounding_tails import TAIL_FITTED
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
    node, reason = _reason(costliest(model.graph, values, part, element), model.graph, values, element)
    return Conditioning(bound, f"#{number} {sample.kinds[0]}", node.name, reason)


def _reason(costly: Node, graph: Graph, values: dict[str, Any], element: int) -> tuple[Node, str]:
    """Units in the far tail, else the sum that cancels most, else the node that rounds most."""
    if (far := _farthest(costly, values)) > TAIL_FITTED:
        return costly, f"{_named(costly)} passes on the variance of units up to {far:.0f} sigma from zero"
    layers = [node for node in graph.nodes if ops.find(node.op).channel_axis]
    times, node = max(
        ((_cancels(layer, graph, values, element), layer) for layer in layers),
        key=lambda pair: pair[0],
        default=(0.0, costly),
    )
    if times > 10.0:
        return node, f"the terms of a sum in {_named(node)} are {times:,.0f} times its |mean| + sd"
    return costly, f"many roundings add up, most of them in {_named(costly)}"


def _named(node: Node) -> str:
    return f"{node.name} ({ops.find(node.op).general})"


def _farthest(node: Node, values: dict[str, Any]) -> float:
    """How many sigma an activation's input lies from its kink."""
    x = values[node.inputs[0]] if node.inputs else None
    if not isinstance(x, Moments) or ops.find(node.op).kind != "pointwise":
        return 0.0
    return float(NUMPY.ratio(np.abs(x.mean), np.sqrt(x.var)).max())


def _cancels(node: Node, graph: Graph, values: dict[str, Any], element: int) -> float:
    """The largest sum of sizes over |mean| + sd; of the output that of the element in question."""
    out = values[node.name]
    scale = np.abs(out.mean) + np.sqrt(out.var)
    times = np.divide(sum_of_sizes(node, values[node.inputs[0]]), scale, out=np.zeros_like(scale), where=scale > 0)
    return float(times.flat[element] if node.name == graph.output else times.max())
