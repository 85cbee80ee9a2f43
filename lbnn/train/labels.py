"""Classes as data files write them: whether a target holds some, their names and numbers, and what they can't be.

The names of classes are the different texts of the target, in the order of the alphabet. Where all of them are numbers
they are in the order of these, and 1, 1.0 and 1e0 are the same class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.train.csvfile import Cells, CsvFormat, as_number, holds_dates, holds_decimals, present
from lbnn.train.listing import short, shortened
from lbnn.train.table import Choice

MOST_CLASSES = 1000
FEWEST_OF_A_CLASS = 3
"""One for each part of the cross-validation, so that every network has seen every class."""
FEW_VALUES, ROWS_OF_A_VALUE = 10, 10
"""Whole numbers of at most so many values, each in so many rows on average, may be classes."""
TASKS = ("regress", "classify")


def holds_classes(targets: Sequence[str], cells: Mapping[str, Cells], choice: Choice) -> bool:
    """Whether the target is one of classes: as asked, else where it is a single column without any number."""
    if choice.task not in (None, *TASKS):
        raise LbnnError(f"the task is {' or '.join(TASKS)}, not {choice.task!r:.40}")
    if choice.task == "classify":
        check_class_choice(targets, choice)
    if choice.task is not None:
        return choice.task == "classify"
    if len(targets) != 1 or choice.log_target:
        return False
    seen = [cell for cell in set(cells[targets[0]]) if present(cell)]
    return bool(seen) and not any(_is_number(cell, choice.form) or _is_value([cell]) for cell in seen)


def check_class_choice(targets: Sequence[str], choice: Choice) -> None:
    """Refuses what can't be asked of classes."""
    if choice.log_target:
        raise LbnnError("classes have no logarithm; leave out --log-target or --task classify")
    if len(targets) > 1:
        raise LbnnError(f"classes are one column, got {len(targets)} targets; give one as --target")


def _is_value(cells: Cells) -> bool:
    """What is a number to people, or a date, and no name of a class."""
    return holds_decimals(cells) or holds_dates(cells)


def class_advice(target: str, cells: Iterable[str], rows: int, choice: Choice) -> list[str]:
    """A note where numbers look like those of classes: few and whole, each in many rows, and nobody was asked."""
    seen = {*cells}
    few = choice.task is None and len(seen) <= min(FEW_VALUES, rows // ROWS_OF_A_VALUE)
    if not few or not all(_is_number(cell, choice.form) and as_number(cell, choice.form).is_integer() for cell in seen):
        return []
    return [f"target {short(target)}: {len(seen)} different whole numbers; if they are classes, add --task classify"]


def class_names(target: str, cells: Iterable[str], form: CsvFormat) -> tuple[str, ...]:
    """The classes that a target holds: two at least."""
    seen = {*cells}
    names = tuple(sorted(seen))
    if all(_is_number(cell, form) for cell in seen):
        names = tuple(number_name(value) for value in sorted({as_number(cell, form) for cell in seen}))
    if len(names) < 2:
        raise LbnnError(f"the target {target!r:.60} is {short(names[0])!r} in every row; there is nothing to learn")
    if len(names) > MOST_CLASSES:
        what = f"the target {target!r:.60} has more than {MOST_CLASSES} different values, such as {short(names[0])!r}"
        raise LbnnError(f"{what}; that is too many for classes: choose another column, or --task regress for numbers")
    return names


def class_numbers(cells: Cells, names: Sequence[str], form: CsvFormat) -> Floats:
    """The number of each cell's class, NaN where it is none of these."""
    if all(_is_number(name, CsvFormat()) for name in names):
        names, cells = [_plain(name, CsvFormat()) for name in names], [_plain(cell, form) for cell in cells]
    places = {name: place for place, name in enumerate(names)}
    return np.array([places.get(cell, np.nan) for cell in cells], np.float32)


def _plain(cell: str, form: CsvFormat) -> str:
    """A number in the one way that all its spellings have; text as it is."""
    return number_name(as_number(cell, form)) if _is_number(cell, form) else cell


def number_name(value: float) -> str:
    """A number as the name of a class."""
    return str(int(value)) if value.is_integer() and abs(value) < 2.0**53 else repr(value)


def _is_number(cell: str, form: CsvFormat) -> bool:
    try:
        return bool(np.isfinite(as_number(cell, form)))
    except ValueError:
        return False


def check_class_sizes(names: Sequence[str], counts: Sequence[int]) -> None:
    """Refuses classes of too few rows."""
    few = [f"{short(name)} ({count})" for name, count in zip(names, counts, strict=True) if count < FEWEST_OF_A_CLASS]
    if few:
        raise LbnnError(
            f"each class needs at least {FEWEST_OF_A_CLASS} rows: {shortened(few, 6)}; gather more of them, or leave "
            "these rows out"
        )


def check_class_options(classes: Sequence[str], recipe: Mapping[str, Any]) -> None:
    """Refuses what a network for classes does not have."""
    if classes and recipe.get("head"):
        raise LbnnError("--variance-head learns the noise of numbers; classes have none: leave it out")
