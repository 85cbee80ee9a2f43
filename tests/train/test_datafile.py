"""Data files: what is read is what the file says, what is left out is told, and what can't be used is one line."""

import numpy as np
import pytest

import lbnn
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.train.chunks import csv_chunks
from lbnn.train.csvfile import CsvFormat
from lbnn.train.datafile import read_table
from lbnn.train.table import Choice, Column, describe


def csv_file(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def npz_file(tmp_path, **arrays):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    return path


PLAIN = "a,b,y\n1,2,3\n4,5,6\n"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + PLAIN.encode(),
        ' a , b ,"y"\n1,2,3\n\n4,"5", 6\n\n',
    ],
    ids=["comma", "semicolon", "tab", "windows", "byte order mark", "spaces, quotes and empty lines"],
)
def test_the_usual_ways_to_write_a_csv(tmp_path, text):
    table = read_table(csv_file(tmp_path, text), "y")
    assert table.inputs == ("a", "b") and table.targets == ("y",)
    assert table.x.tolist() == [[1, 2], [4, 5]] and table.y.tolist() == [[3], [6]]
    assert table.x.dtype == table.y.dtype == np.float32


def test_text_columns_become_one_indicator_a_value(tmp_path):
    table = read_table(csv_file(tmp_path, "y,site,t\n1,roof,5\n2,yard,6\n3,roof,7\n"), "y")
    assert table.inputs == ("site=roof", "site=yard", "t")
    assert table.x.tolist() == [[1, 0, 5], [0, 1, 6], [1, 0, 7]]
    assert "category site: 2 values, roof, yard" in describe(table)


def test_rows_with_missing_values_are_left_out_and_counted(tmp_path):
    table = read_table(csv_file(tmp_path, "a,b,y\n1,2,3\n,5,6\n7,NA,9\n8,9,?\n1,4,5\n"), "y")
    assert table.inputs == ("b",) and table.x.tolist() == [[2], [4]]
    assert table.y.tolist() == [[3], [5]]
    assert "column b: 1 value missing" in table.notes
    assert "3 of 5 rows left out for missing values" in table.notes
    assert "column a: does not vary, left out" in table.notes


@pytest.mark.parametrize("cell", ["", " ", "NA", "n/a", "nan", "NaN", "null", "None", "?"])
def test_what_stands_for_a_missing_value_is_no_number_and_no_category(tmp_path, cell):
    table = read_table(csv_file(tmp_path, f"a,y\n1,2\n{cell},3\n4,5\n"), "y")
    assert table.inputs == ("a",) and table.x.tolist() == [[1], [4]]


def test_a_category_has_at_most_32_values(tmp_path):
    table = read_table(csv_file(tmp_path, "a,y\n" + "".join(f"id{i},{i}\n" for i in range(32))), "y")
    assert len(table.inputs) == 32


def test_an_empty_column_does_not_cost_all_rows(tmp_path):
    table = read_table(csv_file(tmp_path, "a,b,y\n1,,3\n2,,4\n"), "y")
    assert table.inputs == ("a",) and len(table) == 2
    assert "column b: empty, left out" in table.notes


def test_a_column_that_float32_blurs_is_told(tmp_path):
    rows = "".join(f"{1.7e9 + 60 * i:.0f},{i},{2 * i}\n" for i in range(9))
    notes = read_table(csv_file(tmp_path, f"when,b,y\n{rows}"), "y").notes
    assert len(notes) == 1 and "column when" in notes[0] and "subtract an offset" in notes[0]


def test_a_trained_models_columns_are_read_in_its_order(tmp_path):
    path = csv_file(tmp_path, "extra,y,site,t\nx,1,yard,5\n,2,cellar,6\n")
    table = read_table(path, "y", (Column("t"), Column("site", ("roof", "yard"))))
    assert table.x.tolist() == [[5, 0, 1], [6, 0, 0]]
    assert table.notes == ("column site: unknown to the model: cellar",)
    with pytest.raises(LbnnError, match="no column 'wind'"):
        read_table(path, "y", (Column("wind"),))


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("", "y", "first line"),
        ("y\n1\n", "y", "at least two columns"),
        ("a,y\n", "y", "no rows"),
        ("a,a\n1,2\n", "a", "name of its own"),
        ("a,,y\n1,2,3\n", "y", "name of its own"),
        ("a,y\n1,2\n1,2,3\n", "y", "line 3 has 3 cells"),
        ("a,y\n\n\n1\n", "y", "line 4 has 1 cell where"),
        ("a,y\n1,2\n", None, "add --target, one of a, y"),
        ("a,y\n1,2\n", "z", "no column 'z'; it has a, y"),
        ("a,y\n1,2\n2,warm\n", "y", "must hold numbers, not 'warm'"),
        ("a,y\n1,2\n2,inf\n", "y", "must hold numbers, not 'inf'"),
        ("a,y\n1,2\n2,1e300\n", "y", "must hold numbers, not '1e300'"),
        ("a,y\n1,2\n1,3\n", "y", "nothing to predict from"),
        ("a,y\n1,\n2,?\n", "y", "no row has a value in every column"),
        ("a,y\n" + "".join(f"id{i},1\n" for i in range(33)), "y", "more than 32 different values"),
        ("a,y\n" + "x" * 200_000 + ",1\n", "y", "field larger than field limit"),
        (b"a,y\n\xff\xfe,1\n", "y", "is not text in UTF-8"),
        (b"\x08\x08\x12\x04lbnn\x1a", "y", "is an ONNX file, not a table; give a CSV"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "y", "is a picture, not a table; give a CSV"),
        (b"\x1f\x8b\x08\0", "y", "is a compressed file, not a table"),
        (b"PK\x03\x04" + 26 * b"\0" + b"xl/sheet1.xml", "y", "is a zip archive, as spreadsheets are, not a table"),
        (",".join(f"c{i}" for i in range(500)) + "\n" + "1," * 499 + "1\n", "y", "500 in all"),
    ],
)
def test_a_csv_that_cant_be_used_is_one_short_line(tmp_path, text, target, message):
    with pytest.raises(LbnnError) as caught:
        read_table(csv_file(tmp_path, text), target)
    assert message in str(caught.value) and "data.csv" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((5,), "1 input"), ((5, 3), "3 inputs"), ((5, 2, 8), "windows of 2x8"), ((5, 1, 4, 4), "images of 1x4x4")],
)
def test_arrays_of_features_windows_and_images(tmp_path, shape, kind):
    table = read_table(npz_file(tmp_path, x=np.ones(shape), y=np.arange(5)), None)
    assert table.y.tolist() == [[0], [1], [2], [3], [4]]
    assert kind in describe(table)


def test_array_rows_that_are_not_finite_are_left_out(tmp_path):
    x = np.array([[1.0], [np.nan], [1e300], [4.0]])
    table = read_table(npz_file(tmp_path, x=x, y=[[1, 2]] * 4), None)
    assert table.x.tolist() == [[1], [4]] and table.targets == ("y", "y1")
    assert table.notes == ("2 rows with missing values left out",)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (dict(x=np.ones(3)), "named x and y"),
        (dict(x=np.ones((3, 2)), y=np.ones(4)), "must be [n, inputs]"),
        (dict(x=np.ones((3, 2, 2, 2, 2)), y=np.ones(3)), "must be [n, inputs]"),
        (dict(x=np.ones((0, 2)), y=np.ones(0)), "must be [n, inputs]"),
        (dict(x=np.array(["a", "b"]), y=np.ones(2)), "real numbers"),
        (dict(x=np.ones(2), y=np.ones(2) * 1j), "real numbers"),
        (dict(x=np.array([{}, []], dtype=object), y=np.ones(2)), "real numbers, not object"),
    ],
)
def test_arrays_that_cant_be_used_are_one_line(tmp_path, arrays, message):
    with pytest.raises(LbnnError) as caught:
        read_table(npz_file(tmp_path, **arrays), None)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"no archive", b"PK\x03\x04 cut short"])
def test_a_file_that_is_no_archive_is_one_line(tmp_path, data):
    path = tmp_path / "data.npz"
    path.write_bytes(data)
    with pytest.raises(LbnnError, match=r"no \.npz file"):
        read_table(path, None)


def test_a_lone_array_is_no_archive(tmp_path):
    np.save(tmp_path / "data.npy", np.ones(3))
    (tmp_path / "data.npy").rename(tmp_path / "data.npz")
    with pytest.raises(LbnnError, match=r"is no \.npz file with numeric arrays x and y"):
        read_table(tmp_path / "data.npz", None)


@pytest.mark.parametrize("name", ["nowhere.csv", "."])
def test_a_missing_file_is_told(tmp_path, name):
    with pytest.raises(LbnnError, match="no such file"):
        read_table(tmp_path / name, "y")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_a_model_given_as_data_is_called_one_whatever_the_encoding(tmp_path, encoding):
    """Latin-1 takes any bytes for text."""
    model = lbnn.save(bnn.Sequential(bnn.Linear(2, 1)), tmp_path / "m.pt", (2,))
    form = CsvFormat(encoding=encoding)
    for read in (lambda: read_table(model, "y", choice=Choice(form=form)), lambda: next(csv_chunks(model, form))):
        with pytest.raises(LbnnError, match="is a model file, not a table; give a CSV"):
            read()
