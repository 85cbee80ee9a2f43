"""What each layer of a generated model cost on a device, beside the fewest instructions that its arithmetic needs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lbnn.device.results import DeviceResult
from lbnn.exporters.c.program import Program
from lbnn.exporters.c.view import layer_lines
from lbnn.graph.arithmetic import minimum

FEWEST = "fewest near kinks"
"""What the minimum is called: activations take less of units whose Gaussian lies on one side of their kink."""


@dataclass(frozen=True)
class LayerCost:
    """Instructions for one prediction, and the fewest that its arithmetic needs."""

    layer: str
    op: str
    shape: str
    instructions: int
    minimum: int

    @property
    def ratio(self) -> float:
        """How many times the minimum; not a number where none is known, as of a head and of integers."""
        return self.instructions / self.minimum if self.minimum else math.nan


def layer_costs(program: Program, source: Path, result: DeviceResult) -> tuple[LayerCost, ...]:
    """The layers of a program's NAME.c in a profiled run; the last row is predict's own: checks and a copy."""
    spent = _by_layer(result.lines, layer_lines(program, source.read_text()))
    count, whole = len(result.status), program.dtype.is_integer
    layers = [
        LayerCost(each.layer, each.node.op, each.shape, round(spent[each.layer] / count), 0 if whole else least)
        for each in program.layers
        if spent[each.layer] and (least := minimum(each.node, program.graph))
    ]
    if whole:  # what is known of the least is of floats
        return (*layers, LayerCost("checks", "", "", _rest(result, layers), 0))
    checked = 2 * program.input_len + 8 * program.output_len  # a load and a test; a copy of outputs
    return (*layers, LayerCost("checks", "", "", round(spent[""] / count), checked))


def _rest(result: DeviceResult, layers: Sequence[LayerCost]) -> int:
    """What no layer took: checks, and floats taken apart and put together."""
    assert result.instructions is not None
    return round(float(np.mean(result.instructions))) - sum(layer.instructions for layer in layers)


def head_cost(program: Program, predicted: DeviceResult, classified: DeviceResult) -> tuple[LayerCost, ...]:
    """What NAME_classify costs more than NAME_predict on the same inputs; nothing without a head."""
    if program.graph.head is None or classified.instructions is None or predicted.instructions is None:
        return ()
    more = round(float(np.mean(classified.instructions)) - float(np.mean(predicted.instructions)))
    return (LayerCost("head", program.graph.head, f"{program.output_len}", more, 0),)


def _by_layer(lines: Mapping[int, int], owners: Mapping[int, str]) -> Counter[str]:
    spent: Counter[str] = Counter()
    for line, instructions in lines.items():
        spent[owners.get(line, "")] += instructions
    return spent


def total(layers: Sequence[LayerCost]) -> LayerCost:
    """All layers together; without a minimum where that of one is not known."""
    least = sum(x.minimum for x in layers) if all(x.minimum for x in layers) else 0
    return LayerCost("total", "", "", sum(x.instructions for x in layers), least)
