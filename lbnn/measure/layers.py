"""What each layer of a generated model cost on a device, beside the fewest instructions that its arithmetic needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lbnn.device.results import DeviceResult
from lbnn.exporters.c import COptions, list_calls
from lbnn.graph.arithmetic import minimum
from lbnn.model.file import Model


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
        """How many times the minimum."""
        return self.instructions / self.minimum


def layer_costs(model: Model, source: Path, result: DeviceResult) -> tuple[LayerCost, ...]:
    """The layers of the generated file `source` in a profiled run; the last row is predict's own: checks and a copy."""
    listing = list_calls(model, COptions(name=source.stem))
    spent = _by_layer(result.lines, _owners(source.read_text(), [line.layer for line in listing.lines]))
    count = len(result.status)
    layers = [
        LayerCost(line.layer, line.op, line.shape, round(spent[line.layer] / count), minimum(node, listing.graph))
        for line, node in zip(listing.lines, listing.graph.nodes, strict=True)
        if spent[line.layer]
    ]
    checked = 2 * listing.size("input") + 8 * listing.size(listing.graph.output)  # a load and a test; a copy of outputs
    return (*layers, LayerCost("checks", "", "", round(spent[""] / count), checked))


def _by_layer(lines: Mapping[int, int], owners: Mapping[int, str]) -> Counter[str]:
    spent: Counter[str] = Counter()
    for line, instructions in lines.items():
        spent[owners.get(line, "")] += instructions
    return spent


def _owners(source: str, layers: Sequence[str]) -> dict[int, str]:
    """Line number -> layer: its calls begin on a line that names it in a comment and end before an empty line."""
    owners, owner = {}, ""
    for number, text in enumerate(source.splitlines(), start=1):
        named = re.match(r"\s*/\* (\w+) .*\*/", text)
        if named and named[1] in layers:
            owner = named[1]
        elif not text.strip():
            owner = ""
        owners[number] = owner
    return owners


def total(layers: Sequence[LayerCost]) -> LayerCost:
    """All layers together."""
    return LayerCost("total", "", "", sum(x.instructions for x in layers), sum(x.minimum for x in layers))
