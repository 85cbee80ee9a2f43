"""Which rows a network is fitted to and which it is tried on: by chance, group by group, or by time."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn.base.errors import LbnnError
from lbnn.base.terminal import counted
from lbnn.train.table import Table

Ints = np.ndarray[Any, np.dtype[np.int64]]


def folds(table: Table, count: int, seed: int) -> list[Ints]:
    """Parts to try networks on, each fitted to what `others` gives.

    Rows of one group stay in one part. Rows in the order of time are cut into blocks, and the first block is never
    tried: nothing comes before it. Otherwise every part has its share of each class.
    """
    if table.ordered:
        return np.array_split(np.arange(len(table)), count + 1)[1:]
    if table.groups is None and table.classes:
        return _by_class(table.labels, count, seed)
    if table.groups is None:
        return np.array_split(np.random.default_rng(seed).permutation(len(table)), count)
    return _by_group(table.groups, count, seed)


def held_out(table: Table, share: float, seed: int) -> Ints:
    """A share of the rows to test on: at least one, and at least one remains. Of ordered rows the last ones.

    Of classes about the share of each, and at least one row of each remains if any can be taken at all.
    """
    if not 0.0 < share < 1.0:
        raise LbnnError(f"the share of test rows must be between 0 and 1, got {share}")
    count = min(len(table) - 1, max(1, round(share * len(table))))
    if table.ordered:
        return np.arange(len(table) - count, len(table))
    if table.groups is None and table.classes:
        return _of_each_class(table.labels, count, seed)
    if table.groups is None:
        return np.random.default_rng(seed).permutation(len(table))[:count]
    return _whole_groups(table.groups, count, seed)


def others(table: Table, part: Ints) -> Ints:
    """The rows that may be fitted where `part` is to be tried: all others, of ordered rows only the earlier ones."""
    return np.arange(part.min()) if table.ordered else np.setdiff1d(np.arange(len(table)), part)


def _by_class(labels: Ints, count: int, seed: int) -> list[Ints]:
    """The rows of each class, dealt out like cards."""
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return [order[first::count] for first in range(count)]


def _of_each_class(labels: Ints, count: int, seed: int) -> Ints:
    """The first of all rows, if those of each class are spread evenly; its last one stays behind them all."""
    rng = np.random.default_rng(seed)
    place = np.empty(len(labels))
    for name in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == name))
        place[rows] = (np.arange(len(rows)) + rng.uniform()) / len(rows)
        place[rows[-1]] = np.inf
    return np.argsort(place, kind="stable")[: max(1, min(count, int(np.isfinite(place).sum())))]


def _by_group(groups: Ints, count: int, seed: int) -> list[Ints]:
    """Whole groups, the largest first, each into the part with the fewest rows; ties by the seed."""
    names, sizes = _shuffled(groups, seed)
    if len(names) < count:
        found = counted(len(names), "group")
        raise LbnnError(f"{found} can't be cut into {count} parts; use another column, or a --test-share")
    totals, home = np.zeros(count), {}
    for at in np.argsort(-sizes, kind="stable"):
        home[int(names[at])] = int(totals.argmin())
        totals[totals.argmin()] += sizes[at]
    where = np.array([home[int(group)] for group in groups])
    return [np.flatnonzero(where == number) for number in range(count)]


def _whole_groups(groups: Ints, count: int, seed: int) -> Ints:
    """Groups by the seed until they have so many rows; at least one remains."""
    names, sizes = _shuffled(groups, seed)
    if len(names) < 2:
        raise LbnnError("all rows are of one group; use another column for --group")
    taken = min(len(names) - 1, int(np.searchsorted(np.cumsum(sizes), count)) + 1)
    return np.flatnonzero(np.isin(groups, names[:taken]))


def _shuffled(groups: Ints, seed: int) -> tuple[Ints, Ints]:
    """The groups in an order by the seed, and how many rows each has."""
    names, sizes = np.unique(groups, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(names))
    return names[order], sizes[order]
