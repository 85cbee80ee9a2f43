"""What a model file says of the table that it was trained on, and what is read from there again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lbnn.model.inputs import KEY_OF_RANGE
from lbnn.train.table import Column

KEY_OF_CLASSES = "classes"


def described(
    columns: Sequence[Column],
    targets: Sequence[str],
    classes: Sequence[str],
    rows: int,
    input_range: list[list[float]],
) -> dict[str, Any]:
    """What a model file says of its table: inputs in order with their ranges, targets, and the names of classes."""
    about = {
        "inputs": [name for column in columns for name in column.inputs],
        "columns": [{"name": column.name, "categories": list(column.levels)} for column in columns],
        "targets": list(targets),
        "rows": rows,
        KEY_OF_RANGE: input_range,
    }
    return about | ({KEY_OF_CLASSES: list(classes)} if classes else {})


def trained_columns(metadata: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns that a model was trained on; none if its file does not say so."""
    try:
        return tuple(Column(str(c["name"]), tuple(map(str, c["categories"]))) for c in metadata.get("columns", ()))
    except (KeyError, TypeError):
        return ()


def trained_targets(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns that a model predicts, or the logarithms of; none if its file does not say so."""
    return _names(metadata.get("target_columns", metadata.get("targets")))


def given_classes(metadata: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """The name of each of so many classes; none if the model file does not say so."""
    given = _names(metadata.get(KEY_OF_CLASSES))
    return given if len(given) == count == len(set(given)) else ()


def trained_classes(metadata: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """The same, or their numbers."""
    return given_classes(metadata, count) or tuple(map(str, range(count)))


def _names(given: Any) -> tuple[str, ...]:
    return tuple(given) if isinstance(given, list) and all(isinstance(name, str) for name in given) else ()
