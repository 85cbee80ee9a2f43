"""Which rows are tried: every row once, groups as a whole, the later by the earlier."""

import numpy as np
import pytest

from lbnn.base.errors import LbnnError
from lbnn.train.splits import folds, held_out, others
from lbnn.train.table import Column, Table


def table(rows, groups=None, ordered=False):
    x = np.arange(rows, dtype=np.float32)[:, None]
    return Table(x, x, (Column("a"),), ("y",), groups=None if groups is None else np.array(groups), ordered=ordered)


@pytest.mark.parametrize("rows", [10, 11, 100])
def test_every_row_is_in_one_fold_and_folds_are_of_one_size(rows):
    parts = folds(table(rows), 3, seed=3)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert sorted(np.concatenate(parts)) == list(range(rows))
    assert all(set(others(table(rows), part)) == set(range(rows)) - set(part) for part in parts)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_is_never_cut(seed):
    rng = np.random.default_rng(seed)
    given = table(200, rng.integers(0, 12, 200))
    parts = folds(given, 3, seed)
    homes = [set(given.groups[part]) for part in parts]
    assert sorted(np.concatenate(parts)) == list(range(200))
    assert not (homes[0] & homes[1] or homes[0] & homes[2] or homes[1] & homes[2])
    assert max(map(len, parts)) <= 1.5 * min(map(len, parts))
    part = held_out(given, 0.25, seed)
    assert not set(given.groups[part]) & set(given.groups[others(given, part)]) and 50 <= len(part) < 100


def test_the_later_rows_are_tried_by_the_earlier():
    given = table(40, ordered=True)
    assert held_out(given, 0.25, 0).tolist() == list(range(30, 40))
    parts = folds(given, 3, 0)
    assert [part.tolist() for part in parts] == [list(range(i, i + 10)) for i in (10, 20, 30)]
    assert [others(given, part).tolist() for part in parts] == [list(range(i)) for i in (10, 20, 30)]


@pytest.mark.parametrize(("rows", "share", "count"), [(100, 0.2, 20), (10, 0.01, 1), (10, 0.99, 9)])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_share_leaves_something_on_both_sides(rows, share, count, ordered):
    assert len(held_out(table(rows, ordered=ordered), share, 0)) == count


def test_the_seed_decides():
    assert held_out(table(100), 0.2, 1).tolist() == held_out(table(100), 0.2, 1).tolist()
    assert held_out(table(100), 0.2, 1).tolist() != held_out(table(100), 0.2, 2).tolist()


def test_too_few_groups_are_told():
    with pytest.raises(LbnnError, match="1 group can't be cut into 3 parts"):
        folds(table(4, [5] * 4), 3, 0)
    with pytest.raises(LbnnError, match="2 groups can't be cut into 3 parts"):
        folds(table(4, [0, 0, 1, 1]), 3, 0)
    with pytest.raises(LbnnError, match="one group"):
        held_out(table(4, [7] * 4), 0.5, 0)
    assert held_out(table(4, [0, 0, 1, 1]), 0.9, 0).size == 2
