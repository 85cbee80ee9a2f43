"""Rows of numbers with names: what data files are read into, and what of a file is to be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.terminal import counted
from lbnn.train.csvfile import CsvFormat
from lbnn.train.listing import short, shortened


@dataclass(frozen=True)
class Column:
    """A column of a CSV as inputs of a model: itself, or an indicator for each of its `levels`."""

    name: str
    levels: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(f"{self.name}={level}" for level in self.levels) or (self.name,)


@dataclass(frozen=True)
class Choice:
    """What to use of a file: these columns, or all but those to `drop`; how rows belong together; how it is written.

    Rows with the same `group` are never split up, those with the latest `time` are the ones to test on; neither is an
    input. With `log_target` the logarithm of the targets is learned. The `task` is "regress" or "classify"; without one
    a target of text is one of classes.
    """

    inputs: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    group: str | None = None
    time: str | None = None
    log_target: bool = False
    form: CsvFormat = field(default_factory=CsvFormat)
    task: str | None = None

    @property
    def aside(self) -> tuple[str, ...]:
        """The columns that are read and are no inputs."""
        return tuple(name for name in (self.group, self.time) if name is not None)


@dataclass(frozen=True)
class Table:
    """Rows of numbers: inputs x [n, *shape], targets y [n, outputs]; `columns` are those of a CSV.

    Of `classes`, where there are any, y holds the number.

    `groups` numbers the group of each row; `ordered` says that rows come in the order of time.
    """

    x: Floats
    y: Floats
    columns: tuple[Column, ...]
    targets: tuple[str, ...]
    notes: tuple[str, ...] = ()
    groups: Any = None
    ordered: bool = False
    classes: tuple[str, ...] = ()

    @property
    def labels(self) -> Any:
        """The number of each row's class [n]."""
        return self.y[:, 0].astype(np.int64)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The name of each input, in order; none for arrays."""
        return tuple(name for column in self.columns for name in column.inputs)

    def rows(self, chosen: Any) -> Table:
        """Some of the rows."""
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, x=self.x[chosen], y=self.y[chosen], groups=groups)

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class NewRows:
    """Some rows to predict: the inputs of those without a missing value, which ones these are, and their targets.

    `y` is NaN where a target is missing, and None if the file has no such columns.
    """

    x: Floats
    whole: Any
    y: Floats | None


def describe(table: Table) -> str:
    """What was read, in a few lines."""
    shape = "x".join(map(str, table.x.shape[1:]))
    kinds = {
        1: counted(table.x.shape[1], "input"),
        2: f"windows of {shape} (channels x length)",
        3: f"images of {shape}",
    }
    names = f": {shortened(table.inputs)}" if table.columns else ""
    lines = [f"{counted(len(table), 'row')}, {kinds[table.x.ndim - 1]}{names}", *categories(table.columns)]
    return "\n".join([*lines, *table.notes, target_line(table.targets, table.classes)])


def target_line(targets: Sequence[str], classes: Sequence[str]) -> str:
    """What is predicted."""
    return f"target: {shortened(targets)}" + (f", {len(classes)} classes: {shortened(classes)}" if classes else "")


def categories(columns: Sequence[Column]) -> list[str]:
    """A line for each category."""
    return [
        f"category {short(column.name)}: {counted(len(column.levels), 'value')}, {shortened(column.levels)}"
        for column in columns
        if column.levels
    ]
