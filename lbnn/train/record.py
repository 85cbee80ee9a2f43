"""What a model file says of its own training: which rows were fitted, the settings, the versions of libraries."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn.base.version import __version__
from lbnn.train.datafile import file_sha256
from lbnn.train.recipe import Recipe
from lbnn.train.table import Choice

KEY_OF_TRAINING = "training"
KEY_OF_DATA = "data_sha256"


def training_record(recipe: Recipe, rows: Mapping[str, int], seed: int, chosen: str = "") -> dict[str, Any]:
    """As plain data; `rows` counts those that were fitted and those that were not, `chosen` says how they were told."""
    given = {field.name: getattr(recipe, field.name) for field in fields(recipe)}
    settings = {name: _plain(value) for name, value in given.items()}
    return {
        "rows": dict(rows),
        **({"chosen": chosen} if chosen else {}),
        "settings": settings | {"seed": seed},
        "versions": library_versions(),
    }


def library_versions() -> dict[str, str]:
    """Of what computes here."""
    versions = {"lbnn": __version__, "torch": str(torch.__version__), "numpy": np.__version__}
    return {**versions, "python": platform.python_version()}


def _plain(value: Any) -> Any:
    """Numbers that may be numpy's as Python's own; a prior in words that are the same each time."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    return repr(value) if is_dataclass(value) else type(value).__name__


def how_chosen(choice: Choice, seed: int) -> str:
    """How rows that are fitted were told from those that are not."""
    if choice.time is not None:
        return f"the latest by {choice.time} are not fitted"
    return f"whole groups of {choice.group}, by seed {seed}" if choice.group is not None else f"drawn by seed {seed}"


def is_training_data(metadata: Mapping[str, Any], data: Path) -> bool:
    """Whether a file is the one that a model comes from."""
    trained = metadata.get(KEY_OF_DATA)
    return trained is not None and trained == file_sha256(data)
