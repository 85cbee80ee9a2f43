"""Names, ranges and scores, which a model file may hold or not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lbnn.base.errors import LbnnError, one_line
from lbnn.model.file import Model
from lbnn.model.inputs import input_scale, trained_range
from lbnn.train.about import trained_classes
from lbnn.train.table import Table


def _size(value: Any) -> int:
    return math.prod(value.shape)


def output_size(model: Model) -> int:
    """Numbers that a model gives for a row."""
    return _size(model.graph.values[model.graph.output])


def input_names(model: Model) -> tuple[str, ...]:
    """The name of each input, or x0, x1, ... where the file does not name them."""
    return _names(model, "inputs", _size(model.graph.input))


def target_names(model: Model) -> tuple[str, ...]:
    """The name of each output, or y0, y1, ... where the file does not name them."""
    return _names(model, "targets", output_size(model))


def _names(model: Model, key: str, count: int) -> tuple[str, ...]:
    given = model.metadata.get(key)
    if isinstance(given, list) and len(given) == count and all(isinstance(name, str) for name in given):
        return tuple(given)
    letter = {"inputs": "x", "targets": "y"}[key]
    return (letter,) if count == 1 else tuple(f"{letter}{i}" for i in range(count))


def input_range(model: Model, table: Table | None) -> list[tuple[float, float]]:
    """Where the training inputs were: of the model file, else of the data, else what the first layer standardises."""
    shape = model.graph.input.shape
    given = trained_range(model.metadata, shape[0])
    if given is not None and (given[0] < given[1]).all():
        low, high = (np.repeat(part, _size(model.graph.input) // len(part)) for part in given)
        return list(zip(low.tolist(), high.tolist(), strict=True))
    if table is not None:
        flat = table.x.reshape(len(table), -1)
        return list(zip(flat.min(axis=0).tolist(), flat.max(axis=0).tolist(), strict=True))
    centre, spread = (np.broadcast_to(a, shape).ravel() for a in input_scale(model.graph))
    return [(float(c - 2 * s), float(c + 2 * s)) for c, s in zip(centre, spread, strict=True)]


LONGEST_HOW = 80
CROSSED = "cross-validation"


def trained_how(metadata: Mapping[str, Any]) -> str:
    """What the scores of the file are of: rows that the network was not fitted to, or others of its kind were not."""
    how = _test_of(metadata).get("how")
    if not isinstance(how, str) or CROSSED not in how:
        return "rows that were kept out of training"
    return f"{one_line(how)[:LONGEST_HOW]}, each predicted by a network that had not seen it"


def _test_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    test = metadata.get("test")
    return test if isinstance(test, dict) else {}


def trained_scores(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What the file says of its test rows, as far as it is numbers."""
    test = _test_of(metadata)
    coverage = test.get("coverage")
    coverage = coverage if isinstance(coverage, dict) else {}
    rows = "rows" if CROSSED in str(test.get("how")) else "test rows"
    keys = {rows: "rows", "accuracy": "accuracy", "NLL": "nll", "RMSE": "rmse", "Brier": "brier", "ECE": "ece"}
    scores = {name: test.get(key) for name, key in keys.items()}
    shown = {name: f"{value:.4g}" for name, value in scores.items() if isinstance(value, (int, float))}
    covered = {f"{k} interval covers": percent(v) for k, v in coverage.items() if isinstance(v, (int, float))}
    return {**shown, **covered}


def percent(share: float) -> str:
    """A share of one, for people."""
    return f"{100 * share:.1f} %"


def class_names_of(model: Model) -> tuple[str, ...]:
    """The name of each class or label of a network with a head; a single label tells two classes apart."""
    return trained_classes(model.metadata, max(2, output_size(model)))


def tells_one_class(model: Model) -> bool:
    """Whether a row is of one class: of several labels any may hold."""
    return model.graph.head != "sigmoid" or output_size(model) == 1


def refuse_labels(model: Model, command: str) -> None:
    """Refuses a network whose rows may have several labels, which a column of a file does not hold."""
    if not tells_one_class(model):
        raise LbnnError(f"{model.name} gives labels of which several may hold; lbnn {command} knows one class a row")
