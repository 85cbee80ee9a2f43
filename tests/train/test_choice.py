"""What of a CSV is used, and what is said of columns that can't be: dates, copies of the target, an index, a comma."""

import numpy as np
import pytest

from lbnn.base.errors import LbnnError
from lbnn.train.csvfile import CsvFormat
from lbnn.train.datafile import read_table
from lbnn.train.newrows import RowReader
from lbnn.train.table import Choice, Column


def csv_file(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode(encoding))
    return path


PLAIN = "a,b,c,y\n1,2,9,3\n4,5,7,6\n7,7,8,5\n"


def test_inputs_are_taken_in_the_order_asked_for(tmp_path):
    table = read_table(csv_file(tmp_path, PLAIN), "y", choice=Choice(inputs=("c", "a")))
    assert table.inputs == ("c", "a") and table.x.tolist() == [[9, 1], [7, 4], [8, 7]] and table.notes == ()


def test_dropped_columns_are_left_out_and_cost_no_row(tmp_path):
    path = csv_file(tmp_path, PLAIN.replace("4,5,7", "4,,7"))
    table = read_table(path, "y", choice=Choice(drop=("b",)))
    assert table.inputs == ("a", "c") and len(table) == 3


def test_several_targets(tmp_path):
    table = read_table(csv_file(tmp_path, PLAIN), ("y", "b"))
    assert table.inputs == ("a", "c") and table.y.tolist() == [[3, 2], [6, 5], [5, 7]]


def test_groups_are_numbered_and_are_no_input(tmp_path):
    path = csv_file(tmp_path, "a,who,y\n1,eva,3\n2,ann,4\n3,eva,6\n")
    table = read_table(path, "y", choice=Choice(group="who"))
    assert table.inputs == ("a",) and table.groups.tolist() == [1, 0, 1]
    assert table.rows([0, 2]).groups.tolist() == [1, 1]


@pytest.mark.parametrize(
    "times",
    [
        ["3", "1.5", "20"],
        ["2026-03-01", "2025-12-31", "2026-10-01"],
        ["2026-03-01T12:00:01+00:00", "2026-03-01T12:00:00+00:00", "2026-03-02T00:00:00+00:00"],
        ["1700000001.5", "1700000000.5", "1700000002.5"],
    ],
)
def test_rows_come_in_the_order_of_time(tmp_path, times):
    rows = "".join(f"{a},{time},{y}\n" for a, time, y in zip((1, 2, 4), times, (7, 8, 9), strict=True))
    table = read_table(csv_file(tmp_path, f"a,when,y\n{rows}"), "y", choice=Choice(time="when"))
    assert table.ordered and table.inputs == ("a",) and table.y[:, 0].tolist() == [8, 7, 9]


def test_the_logarithm_of_a_target_says_so(tmp_path):
    table = read_table(csv_file(tmp_path, PLAIN), "y", choice=Choice(log_target=True))
    assert table.targets == ("log(y)",) and np.allclose(table.y[:, 0], np.log([3, 6, 5]))


def test_a_decimal_comma_and_another_encoding(tmp_path):
    path = csv_file(tmp_path, "Größe;y\n1,5;-2,25\n2;3,5e1\n", "latin-1")
    table = read_table(path, "y", choice=Choice(form=CsvFormat("comma", "latin-1")))
    assert table.inputs == ("Größe",) and table.x.tolist() == [[1.5], [2.0]] and table.y.tolist() == [[-2.25], [35.0]]


def test_a_first_column_without_a_name_is_an_index(tmp_path):
    table = read_table(csv_file(tmp_path, ",a,y\n0,5,2\n1,6,4\n"), "y")
    assert table.inputs == ("a",) and "left out as an index" in table.notes[0]


@pytest.mark.parametrize(
    "when", ["2026-03-01", "2026-03-01 12:00", "1.3.2026", "3/1/26", "2026/03/01", "12:30", "12:30:59"]
)
def test_dates_are_refused_with_advice(tmp_path, when):
    path = csv_file(tmp_path, f"when,a,y\n{when},1,2\n{when[:-1]}7,2,4\n")
    with pytest.raises(LbnnError, match=r"holds dates.*--drop or --time"):
        read_table(path, "y")
    assert read_table(path, "y", choice=Choice(drop=("when",))).inputs == ("a",)


@pytest.mark.parametrize(
    ("text", "target", "choice", "message"),
    [
        ("1,2\n3,4\n", "1", Choice(), "first line holds numbers"),
        ("a,y\n1,3\n2,3\n", "y", Choice(), "'y' is 3 in every row"),
        ("a,b,y\n1,5,1\n2,6,2\n", "y", Choice(), "'a' equals the target"),
        ('a,y\n"1,5",2\n"2,5",3\n', "y", Choice(), "add --decimal comma"),
        ("a,y\n1,-2\n2,3\n", "y", Choice(log_target=True), "above zero; the lowest is -2"),
        ("a,t,y\n1,soon,2\n2,later,3\n", "y", Choice(time="t"), "numbers or dates such as"),
        (PLAIN, "y", Choice(inputs=("a", "y")), "'y' is an input and something else"),
        (PLAIN, "y", Choice(inputs=("z",)), "no column 'z'"),
        (PLAIN, "y", Choice(drop=("z",)), "no column 'z'"),
        (PLAIN, "y", Choice(group="z"), "no column 'z'"),
        ("a;y\n1.5;2\n2,5;3\n", "y", Choice(form=CsvFormat("comma")), "'1.5'"),
    ],
)
def test_what_cant_be_used_is_one_line(tmp_path, text, target, choice, message):
    with pytest.raises(LbnnError) as caught:
        read_table(csv_file(tmp_path, text), target, choice=choice)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_columns_of_an_npz_cant_be_chosen(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.ones((3, 2)), y=np.arange(3))
    with pytest.raises(LbnnError, match="no columns to choose from"):
        read_table(tmp_path / "d.npz", None, choice=Choice(drop=("a",)))


def test_new_rows_keep_their_place_and_may_lack_the_target(tmp_path):
    columns = (Column("b"), Column("site", ("roof", "yard")))
    path = csv_file(tmp_path, "site,b,y\nroof,1,2\nyard,,3\nattic,4,\n")
    reader = RowReader(path, columns, ("y",), CsvFormat())
    (rows,) = reader
    assert rows.whole.tolist() == [True, False, True] and rows.x.tolist() == [[1, 1, 0], [4, 0, 0]]
    assert rows.y[0, 0] == 2 and np.isnan(rows.y[1, 0]) and any("attic" in note for note in reader.notes)
    assert [rows.y for rows in RowReader(path, columns, ("z",), CsvFormat())] == [None]


def test_without_columns_of_its_own_a_model_takes_those_of_the_file(tmp_path):
    (rows,) = RowReader(csv_file(tmp_path, PLAIN), (), ("y",), CsvFormat())
    assert rows.x.tolist() == [[1, 2, 9], [4, 5, 7], [7, 7, 8]] and rows.y[:, 0].tolist() == [3, 6, 5]
