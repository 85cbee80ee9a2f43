"""What a report tells of a training: what the model file says of it, as lines of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lbnn.base.terminal import counted, thousands
from lbnn.train.record import KEY_OF_DATA, KEY_OF_TRAINING

LONGEST_VALUE = 200
MOST_LINES = 40
"""A file of others may hold anything; a page has room for so much of it."""

WORDS = {
    "hidden": "hidden layers",
    "batch": "rows in a batch",
    "lr": "learning rate at the start",
    "kl_weight": "weight of the KL (1: the ELBO's)",
    "head": "head for the noise",
    "variance": "variances of weights",
}
"""Names of settings where the page has others."""


def training_lines(metadata: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(what, value) of all that the model file says; empty if that is nothing."""
    given = metadata.get(KEY_OF_TRAINING)
    record: Mapping[str, Any] = given if isinstance(given, dict) else {}
    digest = metadata.get(KEY_OF_DATA)
    lines = [
        ("data", record.get("data")),
        ("sha256 of the data", digest),
        ("rows", _rows(record)),
        *((WORDS.get(name, name), value) for name, value in _items(record.get("settings"))),
        ("epochs done", record.get("epochs")),
        ("libraries", ", ".join(f"{name} {_text(version)}" for name, version in _items(record.get("versions")))),
    ]
    return tuple((_text(name), _text(value)) for name, value in lines[:MOST_LINES] if _text(value))


def _items(given: Any) -> list[tuple[str, Any]]:
    return [(str(name), value) for name, value in given.items()] if isinstance(given, dict) else []


def _rows(record: Mapping[str, Any]) -> str:
    """Such as: 240 fitted of 300; 60 for the test; drawn by seed 0."""
    counts = {name: value for name, value in _items(record.get("rows")) if type(value) is int and value > 0}
    whole, fitted = counts.pop("in all", None), counts.pop("fitted", None)
    if whole is None or fitted is None:
        return ""
    if whole == fitted:
        return f"all {counted(whole, 'row')} of it were fitted"
    rest = [f"{thousands(number)} {name}" for name, number in counts.items()]
    chosen = [_text(record["chosen"])] if "chosen" in record else []
    return "; ".join([f"{thousands(fitted)} of {thousands(whole)} were fitted", *rest, *chosen])


def _text(value: Any) -> str:
    """Plain data for people, cut where it is long."""
    if value is None or value is False:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_text, value))[:LONGEST_VALUE]
    text = f"{value:g}" if isinstance(value, float) else "yes" if value is True else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
