"""The model inside the page: WebAssembly, and what the page's script needs to run it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lbnn.exporters import wasm
from lbnn.measure.labels import input_range
from lbnn.model.file import Model
from lbnn.train.about import trained_columns
from lbnn.train.table import Table

MOST_LIVE_INPUTS = 16
"""A slice for each input is drawn; more would not be looked at."""
MOST_POINTS = 400
BEYOND = 0.4
"""How far the interactive plot goes beyond the training range, as a share of it."""


def live_data(model: Model, inputs: Sequence[str], targets: Sequence[str], table: Table | None) -> str:
    """What the script needs, as JSON that can stand inside an HTML element: no < > &."""
    choices = find_choices(model, inputs)
    chosen = indicators(choices)
    ranges = enumerate(zip(inputs, input_range(model, table), strict=True))
    data = {
        "wasm": base64.b64encode(wasm.compile_wasm(model)).decode(),
        "count": len(inputs),
        "inputs": [_live_input(i, name, *ends) for i, (name, ends) in ranges if i not in chosen],
        "choices": choices,
        "outputs": list(targets),
        "points": _points(table) if table is not None and len(inputs) == 1 and model.graph.head is None else [],
        "head": model.graph.head,
    }
    return re.sub(r"[<>&]", lambda m: f"\\u{ord(m[0]):04x}", json.dumps(data))


def _live_input(index: int, name: str, low: float, high: float) -> dict[str, Any]:
    """A number that can be dragged, some way beyond its range too."""
    beyond = BEYOND * (high - low)
    return {"index": index, "name": name, "low": low, "high": high, "from": low - beyond, "to": high + beyond}


def find_choices(model: Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
    """The categories: where the indicators of each begin among the inputs."""
    choices, first = [], 0
    for column in trained_columns(model.metadata):
        if column.levels:
            choices.append({"first": first, "name": column.name, "levels": list(column.levels)})
        first += len(column.inputs)
    return choices if first == len(inputs) else []


def indicators(choices: Sequence[Mapping[str, Any]]) -> set[int]:
    """The inputs that are 0 or 1, one for each category."""
    return {choice["first"] + i for choice in choices for i in range(len(choice["levels"]))}


def _points(table: Table) -> list[list[float]]:
    """Some rows of the data to draw, (x, y of each output)."""
    few = np.linspace(0, len(table) - 1, min(len(table), MOST_POINTS)).astype(int)
    return np.concatenate([table.x.reshape(len(table), -1), table.y], axis=1)[few].tolist()  # type: ignore[no-any-return]
