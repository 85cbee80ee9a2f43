"""Classes in data files: when a target holds some, how they are named and numbered, and what is refused in a line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lbnn.base.errors import LbnnError
from lbnn.train import chunks, packing
from lbnn.train.csvfile import CsvFormat
from lbnn.train.datafile import read_table
from lbnn.train.labels import MOST_CLASSES, check_class_sizes, class_names, class_numbers
from lbnn.train.packing import Shares
from lbnn.train.splits import folds, held_out, others
from lbnn.train.survey import survey
from lbnn.train.table import Choice, Table, describe

CLASSIFY, REGRESS = Choice(task="classify"), Choice(task="regress")


def rows_of(*targets):
    return "a,y\n" + "".join(f"{i},{target}\n" for i, target in enumerate(targets))


def read(tmp_path, text, choice=None, stream=False):
    """The table as (classes, y), by one pass in memory or two over the disk."""
    path = tmp_path / "d.csv"
    path.write_text(text)
    if not stream:
        table = read_table(path, "y", choice=choice or Choice())
        return table.classes, table.y
    every = lambda: chunks.csv_chunks(path, CsvFormat())
    found = survey(every, ("y",), choice or Choice())
    done = packing.pack_rows(every(), found, ("y",), choice or Choice(), Shares(0.0, 0.0), 0, tmp_path)
    assert not found.classes or done.of_class.sum() == found.whole
    return found.classes, done.files["fit"].read(0, 99)[:, 1:]


@pytest.fixture(params=[False, True], ids=["memory", "disk"])
def stream(request, monkeypatch):
    monkeypatch.setattr(chunks, "CELLS_AT_ONCE", 4)
    return request.param


@pytest.mark.parametrize(
    ("targets", "choice", "classes", "numbers"),
    [
        (["warm", "cold", "warm"], None, ("cold", "warm"), [1, 0, 1]),
        (["b", "", "a", "NA", "b"], None, ("a", "b"), [1, 0, 1]),
        (["10", "9", "10"], CLASSIFY, ("9", "10"), [1, 0, 1]),
        (["1", "1.0", "2", "1e0"], CLASSIFY, ("1", "2"), [0, 0, 1, 0]),
        (["1", "x", "2"], CLASSIFY, ("1", "2", "x"), [0, 2, 1]),
        (["-1", "0.5", "16777217", "16777216"], CLASSIFY, ("-1", "0.5", "16777216", "16777217"), [0, 1, 3, 2]),
        (["1", "2", "1"], None, (), [1, 2, 1]),
        (["1", "2", "1"], REGRESS, (), [1, 2, 1]),
    ],
)
def test_texts_are_classes_and_numbers_on_request(tmp_path, stream, targets, choice, classes, numbers):
    found, y = read(tmp_path, rows_of(*targets), choice, stream)
    assert found == classes and y[:, 0].tolist() == numbers


@pytest.mark.parametrize(
    ("targets", "choice", "told"),
    [(["0", "1"] * 10, None, True), (["0", "1"] * 10, REGRESS, False), (["0", "1"] * 9, None, False),
     (["0.5", "1"] * 10, None, False), ([str(i) for i in range(20)], None, False)],
)  # fmt: skip
def test_few_whole_numbers_are_pointed_at(tmp_path, stream, targets, choice, told):
    path = tmp_path / "d.csv"
    path.write_text("a,y\n" + "".join(f"{i * i},{target}\n" for i, target in enumerate(targets)))
    if stream:
        notes = survey(lambda: chunks.csv_chunks(path, CsvFormat()), ("y",), choice or Choice()).notes
    else:
        notes = read_table(path, "y", choice=choice or Choice()).notes
    advice = "target y: 2 different whole numbers; if they are classes, add --task classify"
    assert notes == ((advice,) if told else ())


MANY = [f"id{i:05}" for i in range(MOST_CLASSES + 1)]


@pytest.mark.parametrize(
    ("text", "choice", "message"),
    [
        (rows_of("1", "2", "warm"), None, "must hold numbers, not 'warm'; if its values are classes, add --task"),
        (rows_of("warm", "cold"), REGRESS, "must hold numbers, not"),
        (rows_of("warm", "cold"), Choice(log_target=True), "must hold numbers, not"),
        (rows_of("warm", "cold"), Choice(task="classify", log_target=True), "classes have no logarithm"),
        (rows_of("warm", "warm"), None, "the target 'y' is 'warm' in every row"),
        (rows_of("1", "1.0"), CLASSIFY, "the target 'y' is '1' in every row"),
        (rows_of(*MANY), None, "more than 1000 different values, such as 'id00000'"),
        (rows_of(*map(str, range(MOST_CLASSES + 1))), CLASSIFY, "more than 1000 different values"),
        (rows_of("2026-01-01", "2026-01-02"), None, "must hold numbers, not '2026-01-0[12]'$"),
        ('a;y\n1;"1,5"\n2;"2,5"\n', None, "add --decimal comma"),
        ("a,b,y\n1,u,u\n2,v,v\n3,w,w\n", None, "the input 'b' equals the target"),
        (rows_of("", "?"), CLASSIFY, "no row has a value in every column"),
        (rows_of("a", "b"), Choice(task="guess"), "the task is regress or classify, not 'guess'"),
    ],
)  # fmt: skip
def test_what_can_not_be_classes_is_refused_in_a_line(tmp_path, stream, text, choice, message):
    with pytest.raises(LbnnError, match=message) as refused:
        read(tmp_path, text, choice, stream)
    assert "\n" not in str(refused.value)


def test_classes_are_one_column(tmp_path):
    (tmp_path / "d.csv").write_text("a,y,z\n1,u,v\n2,w,u\n")
    with pytest.raises(LbnnError, match="classes are one column, got 2 targets"):
        read_table(tmp_path / "d.csv", ("y", "z"), choice=CLASSIFY)


def test_parquet_has_the_classes_of_the_csv(tmp_path):
    columns = {"a": [1.0, 2.0, 3.0, 4.0], "kind": [2, 0, 2, None], "name": ["v", "u", "v", None]}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    numbered = read_table(tmp_path / "d.parquet", "kind", choice=Choice(task="classify", drop=("name",)))
    named = read_table(tmp_path / "d.parquet", "name", choice=Choice(drop=("kind",)))
    assert numbered.classes == ("0", "2") and named.classes == ("u", "v")
    assert numbered.labels.tolist() == named.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("y", "classes", "labels"),
    [
        (np.array(["u", "v", " u"]), ("u", "v"), [0, 1, 0]),
        (np.array([b"u", b"v", b"u"]), ("u", "v"), [0, 1, 0]),
        (np.array([[7], [2], [7]]), ("2", "7"), [1, 0, 1]),
        (np.array([True, False, True]), ("0", "1"), [1, 0, 1]),
        (np.array([2**40, 2**40 + 1, 2**40]), ("1099511627776", "1099511627777"), [0, 1, 0]),
    ],
)
def test_an_npz_holds_classes_as_text_or_numbers(tmp_path, y, classes, labels):
    np.savez(tmp_path / "d.npz", x=np.eye(3), y=y)
    table = read_table(tmp_path / "d.npz", None, choice=None if y.dtype.kind in "US" else CLASSIFY)
    assert (table.classes, table.labels.tolist(), table.targets) == (classes, labels, ("y",))


def test_rows_of_an_npz_without_a_class_are_left_out_and_counted(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.array([[1.0], [2.0], [np.nan], [4.0]]), y=np.array([1.0, np.nan, 2.0, 2.0]))
    table = read_table(tmp_path / "d.npz", None, choice=CLASSIFY)
    assert table.x.tolist() == [[1], [4]] and table.labels.tolist() == [0, 1] and "2 rows" in table.notes[0]


@pytest.mark.parametrize(
    ("y", "choice", "message"),
    [
        (np.eye(3), CLASSIFY, r"y \(3, 3\) must be \[n\]"),
        (np.array(["a", "b"]), None, "the class of each row, got 2"),
        (np.array([1j, 2, 3]), CLASSIFY, "text or real numbers, not complex128"),
        (np.array([b"\xff", b"a", b"b"]), None, "UnicodeDecodeError"),
        (np.array(["a", "a", "a"]), None, "is 'a' in every row"),
        (np.array(["a", "b", "c"]), REGRESS, "real numbers"),
        (np.array(["", "", ""]), None, "NaN or an infinity|no row"),
    ],
)  # fmt: skip
def test_an_npz_that_holds_no_classes_is_refused(tmp_path, y, choice, message):
    np.savez(tmp_path / "d.npz", x=np.eye(3), y=y)
    with pytest.raises(LbnnError, match=message):
        read_table(tmp_path / "d.npz", None, choice=choice)


def test_classes_that_are_known_are_the_only_ones(tmp_path):
    (tmp_path / "d.csv").write_text(rows_of("2", "1.0", "2"))
    assert read_table(tmp_path / "d.csv", "y", classes=("1", "2", "3")).labels.tolist() == [1, 0, 1]
    with pytest.raises(LbnnError, match="the target 'y' holds '2', which is none of 1, 3"):
        read_table(tmp_path / "d.csv", "y", classes=("1", "3"))
    assert np.isnan(class_numbers(["x", "1"], ("1", "3"), CsvFormat())).tolist() == [True, False]


def test_numbers_that_a_model_names_otherwise_are_found():
    assert class_numbers(["2", "1e0", "x"], ("1.0", "2.0"), CsvFormat())[:2].tolist() == [1, 0]


def test_names_are_those_of_a_decimal_comma_too():
    form = CsvFormat("comma")
    assert class_names("y", ["1,5", "0,5"], form) == ("0.5", "1.5")
    assert class_numbers(["1,50", "0,5"], ("0.5", "1.5"), form).tolist() == [1, 0]


def test_a_class_of_too_few_rows_is_named():
    with pytest.raises(LbnnError, match=r"each class needs at least 3 rows: rare \(2\), never \(0\); gather"):
        check_class_sizes(("usual", "rare", "never"), (30, 2, 0))
    check_class_sizes(("a", "b"), (3, 3))


def table_of(counts, **more):
    labels = np.repeat(np.arange(len(counts)), counts)
    x = np.arange(len(labels), dtype=np.float32)[:, None]
    return Table(x, labels[:, None].astype(np.float32), (), ("y",), classes=tuple("abcdef"[: len(counts)]), **more)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("counts", [(3, 3), (100, 5, 3), (7, 8, 9, 10)])
def test_every_fold_has_its_share_of_each_class(counts, seed):
    table = table_of(counts)
    parts = folds(table, 3, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(sum(counts)))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    held = np.array([np.bincount(table.labels[part], minlength=len(counts)) for part in parts])
    assert (held.max(axis=0) - held.min(axis=0)).max() <= 1
    assert not np.array_equal(np.concatenate(parts), np.concatenate(folds(table, 3, seed + 1)))


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("counts", [(3, 3), (100, 5, 3), (1, 1, 50)])
def test_a_share_is_one_of_each_class_and_leaves_some_of_each(counts, share):
    table = table_of(counts)
    part = held_out(table, share, 4)
    taken, left = (np.bincount(table.labels[rows], minlength=len(counts)) for rows in (part, others(table, part)))
    assert len(part) >= 1 and (left >= 1).all()
    expected = np.minimum(share * np.array(counts), np.array(counts) - 1)
    assert (np.abs(taken - expected) <= 2).all()


def test_the_description_names_the_classes():
    assert describe(table_of((3, 4))).splitlines()[-1] == "target: y, 2 classes: a, b"
