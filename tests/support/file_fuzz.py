"""Properties of the readers of strangers' files, for the tests and for `make fuzz-files`.

Each property has a strategy that makes a file and a check that reads it. A check returns how the file was received
("read" or "refused") and fails on anything but an LbnnError of one line, and on numbers that are not in the file.
"""

from __future__ import annotations

import copy
import io
import math
import re
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

import lbnn
from c_models import STRICT, Zoo, series
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.base.files import write_folder
from lbnn.exporters.c import COptions, generate
from lbnn.model.file import serialise
from lbnn.train.csvfile import MISSING
from lbnn.train.datafile import read_table
from lbnn.train.table import Table
from places import need

Check = Callable[[Any, Path], str]


@dataclass(frozen=True)
class Property:
    """Files, and what holds for each."""

    files: st.SearchStrategy[Any]
    check: Check


def one_line(error: LbnnError, path: Path) -> str:
    message = str(error)
    assert message.startswith(str(path)) and "\n" not in message and len(message) < 1500, message
    return "refused"


# Bytes


@st.composite
def edited(draw: Any, good: bytes) -> bytes:
    """A good file with up to four pieces changed, removed, repeated or cut off."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 12))
        piece = draw(
            st.binary(max_size=8) | st.sampled_from([b'"', b"\0", b"\xff", b",", b"\r", b"\xed\xa0\x80", b"1_0"])
        )
        kind = draw(st.sampled_from(["replace", "insert", "repeat", "cut"]))
        start, stop = {"replace": (at, at + length), "insert": (at, at), "repeat": (at, at), "cut": (at, len(data))}[
            kind
        ]
        data[start:stop] = data[max(0, at - 40) : at] if kind == "repeat" else piece
    return bytes(data)


# CSV


GOOD_CSV = b"a,b,y\n1,roof,3.5\n4,yard,-6e2\n2,roof,0.125\n,yard,1\n7,roof,NA\n"
# fmt: off
CELLS = ["1", "2.5", "-3e2", "+.5", "1e309", "-1e-400", "inf", "nan", "-nan", "NA", "?", "", " ", "1_000", "١٢", "0x10",
         "1,5", "a", "b", "y", "é", "\ufeff", "\0", "x" * 50, "\u202e", "\x1b[31m", "1e5\0", "1 2", "½", "−1"]
# fmt: on
SIGNS = [",", ",", ",", ";", "\t", "\n", "\n", "\r\n", "\r", '"', '""', '"\n"', "\\", "'", "\x0b", "\x85", "\u2028"]


@st.composite
def tables(draw: Any) -> bytes:
    """A header and rows of odd cells, quoted or not, in any of the usual ways to write a CSV."""
    delimiter = draw(st.sampled_from([",", ";", "\t"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    width = draw(st.integers(2, 5))
    numbers = st.integers(-9, 9).map(str) | st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    texts = st.one_of(*[numbers] * draw(st.sampled_from([1, 9, 40])), st.sampled_from(CELLS), st.text(max_size=4))
    cell = st.tuples(texts, st.booleans())
    rows = draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=8))
    quoted = lambda text: '"' + text.replace('"', '""') + '"'
    lines = [delimiter.join(quoted(text) if marks else text for text, marks in row) for row in rows]
    header = delimiter.join([*(f"c{i}" for i in range(width - 1)), "y"])
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + end.join([header, *lines]) + draw(st.sampled_from(["", end]))).encode(errors="surrogatepass")


@st.composite
def spoiled(draw: Any) -> bytes:
    """A table of numbers with up to three odd cells, delimiters, quotes or newlines put anywhere."""
    numbers = draw(st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=2, max_size=6))
    text = "a,y\n" + "".join(f"{a},{b}\n" for a, b in numbers)
    for piece in draw(st.lists(st.sampled_from(CELLS + SIGNS), min_size=1, max_size=3)):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + piece + text[at:]
    return text.encode()


def check_csv(data: bytes, folder: Path) -> str:
    path = folder / "data.csv"
    path.write_bytes(data)
    try:
        table = read_table(path, "y")
    except LbnnError as error:
        return one_line(error, path)
    expected_x, expected_y = by_hand(data.decode("utf-8-sig"), table)
    np.testing.assert_array_equal(table.x, expected_x)
    np.testing.assert_array_equal(table.y, expected_y)
    return "read"


def by_hand(text: str, table: Table) -> tuple[Any, Any]:
    """The numbers of a table read in another way: character by character, and decimals by a grammar."""
    delimiter = max(",;\t", key=text.split("\n")[0].count)
    header, *rows = records(text, delimiter)
    names = [name.strip() for name in header]
    columns = {name: [row[i].strip() for row in rows] for i, name in enumerate(names)}
    filled = [name for name in names if name == "y" or not all(cell.lower() in MISSING for cell in columns[name])]
    whole = [i for i in range(len(rows)) if all(columns[name][i].lower() not in MISSING for name in filled)]
    inputs = [
        [float(columns[c.name][i] == level) for i in whole] if level else [decimal(columns[c.name][i]) for i in whole]
        for c in table.columns
        for level in (c.levels or ("",))
    ]
    value = table.classes.index if table.classes else decimal  # a target of words has classes
    return np.array(inputs, np.float32).T, np.array([[value(columns["y"][i])] for i in whole], np.float32)


def decimal(cell: str) -> float:
    assert re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", cell), f"{cell!r} is no number"
    return float(cell)


def records(text: str, delimiter: str) -> list[list[str]]:
    """The cells of a CSV: a quote opens at the start of a cell, two stand for one, any kind of newline ends a row."""
    rows: list[list[str]] = []
    row: list[str] = []
    cell, quoted, i = "", False, 0
    started = False  # the row has something in it
    fresh = True  # the cell has nothing in it, not even a quote
    text = re.sub("\r\n|\r|\n", "\n", text) if '"' not in text else text
    while i < len(text):
        c = text[i]
        if quoted and c == '"' and text[i + 1 : i + 2] == '"':
            cell, i = cell + '"', i + 1
        elif quoted and c == '"':
            quoted = False
        elif quoted:
            cell += c
        elif c == '"' and fresh:
            quoted, fresh, started = True, False, True
        elif c == delimiter:
            row, cell, fresh, started = [*row, cell], "", True, True
        elif c in "\r\n":
            i += text[i : i + 2] == "\r\n"
            if started:
                rows.append([*row, cell])
            row, cell, fresh, started = [], "", True, False
        else:
            cell, fresh, started = cell + c, False, True
        i += 1
    return [*rows, [*row, cell]] if started else rows


# Arrays


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def npz(save: Any = np.savez, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


GOOD_NPZ = npz(x=np.arange(6.0).reshape(3, 2), y=np.array([1.0, np.nan, 3.0]))
COMPRESSED_NPZ = npz(np.savez_compressed, x=np.arange(24).reshape(2, 3, 4), y=np.eye(2))
TYPES = ["'<f8'", "'<f4'", "'>f2'", "'<f16'", "'|b1'", "'<i8'", "'>u2'", "'|O'", "'<c8'", "'<U2'", "'|V8'", "'|S0'",
         "'<M8[s]'", "[('a','<f8')]", "'f8,O'", "8", "None", "'é'", "'<f8' * 9"]  # fmt: skip
SHAPES = ["(3,)", "(1, 3)", "(0,)", "(0, 5)", "()", "(-3,)", "(-1, -3)", "(1099511627776,)", "(3, 9223372036854775807)",
          "(3, 1, 1)", "(True, 3)", "[3]", "3", "(3.0,)", "(1,) * 40", "(1, 1, 1, 1, 1, 3)",
          "(((((3,)))))", "(18446744073709551617, 0)"]  # fmt: skip


WHOLE = [("'<f8'", 24), ("'<f4'", 12), ("'>f2'", 6), ("'|b1'", 3), ("'<i8'", 24), ("'>u2'", 6)]
"""Types with the bytes of three numbers."""


@st.composite
def forged_arrays(draw: Any) -> bytes:
    """Archives with right checksums whose headers claim anything."""
    members = {}
    for name in ("x.npy", "y.npy"):
        kind, size = draw(
            st.sampled_from(WHOLE) | st.tuples(st.sampled_from(TYPES), st.sampled_from([24, 6, 3, 48, 0]))
        )
        shape = draw(st.sampled_from(["(3,)", "(3, 1)"]) | st.sampled_from(SHAPES))
        order = draw(st.sampled_from(["False", "True", "False", "True", "0", "None"]))
        version = draw(st.sampled_from([b"\1\0"] * 6 + [b"\2\0"] * 2 + [b"\3\0", b"\4\0"]))
        header = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
        length = len(header).to_bytes(2 if version == b"\1\0" else 4, "little")
        members[name] = b"\x93NUMPY" + version + length + header + bytes(range(1, size + 1))
    kind = draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
    return archive(members, kind)


def check_npz(data: bytes, folder: Path) -> str:
    path = folder / "data.npz"
    path.write_bytes(data)
    try:
        table = read_table(path, None)
    except LbnnError as error:
        return one_line(error, path)
    x, y = _loaded(path)
    good = np.isfinite(x).all(axis=tuple(range(1, x.ndim))) & np.isfinite(y).all(axis=1)
    np.testing.assert_array_equal(table.x, x[good])
    np.testing.assert_array_equal(table.y, y[good])
    return "read"


def _loaded(path: Path) -> list[Any]:
    """What numpy itself reads; only files that were accepted come here."""
    with np.lib.npyio.NpzFile(path, allow_pickle=False) as arrays, np.errstate(over="ignore"):
        both = [np.asarray(arrays[name], np.float32) for name in ("x", "y")]
    return [array[:, None] if array.ndim == 1 else array for array in both]


# Models


def contents(model: Any, shape: tuple[int, ...]) -> Any:
    torch.manual_seed(0)
    return torch.load(io.BytesIO(serialise(model(), shape, metadata={"inputs": ["a", "b"]})), weights_only=True)


def normed() -> Any:
    layers = (bnn.Conv1d(1, 2, 3), bnn.BatchNorm(2), bnn.LeakyReLU(0.1), bnn.Flatten(), bnn.Linear(6, 2))
    return bnn.Sequential(*layers, bnn.VarianceHead())


BASES = [contents(normed, (1, 5)), contents(series, (2, 10)), contents(Zoo, (2, 8, 8))]
NUMBERS = [0, 1, 2, 3, -1, 7, 64, 10**6, 2**31 - 1, 2**31, 2**63, 0.0, 0.5, -0.0, 1e-300, 1e300, math.inf, math.nan]
OPERATORS = ["linear", "linear_point", "conv", "avg_pool", "flatten", "add", "concat", "pad", "affine", "leaky_relu",
             "batch_norm", "variance_head", "gelu", "leaky_relu_point", "add_point"]  # fmt: skip
LISTS = [
    [],
    [0],
    [1],
    [2, 2],
    [3, 3],
    [1, 1, 1],
    [[0, 1]],
    [[1, 1], [2, 0]],
    [[0, 10**6]],
    [2**20, 2**20],
    {},
    {"mu": "x", "rho": "x"},
]
TEXTS = [
    "",
    "0",
    "1",
    "2",
    "input",
    "3",
    "4",
    "stem",
    "out",
    "../x",
    "\0",
    "\ud800",
    "*/",
    "x" * 1001,
    None,
    True,
    False,
]
VALUES: list[Any] = [*NUMBERS, *OPERATORS, *LISTS, *TEXTS]
TENSORS: list[Callable[[Any], Any]] = [
    lambda t: t.reshape(-1),
    lambda t: t.reshape(*t.shape, 1),
    lambda t: t[None],
    lambda t: t.flatten()[:1].clone(),
    lambda t: torch.zeros(0),
    lambda t: t.flatten()[0].clone(),
    lambda t: t.mT if t.ndim > 1 else t.expand(3, *t.shape),
    lambda t: t.expand(2**20, *t.shape),
    lambda t: t.double(),
    lambda t: t.half(),
    lambda t: t.to(torch.complex64),
    lambda t: t.bool(),
    lambda t: t.to_sparse(),
    lambda t: t.clone().requires_grad_(),
    lambda t: t * math.nan,
    lambda t: t * 0.0,
    lambda t: t * 1e38,
    lambda t: t * 1e-40,
    lambda t: -t - 100.0,
    lambda t: torch.full_like(t, 3e38),
    lambda t: torch.full_like(t, -3e38),
    lambda t: torch.cat([t, t]) if t.ndim else t,
]


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every container in the data with each of its keys or indices."""
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else []
    return [(data, key) for key in keys] + [place for key in keys for place in places(data[key])]


KINDS = ["like", "like", "like", "set", "move", "delete", "repeat", "tensor", "tensor"]
EDITS = st.tuples(st.integers(0, 2**16), st.sampled_from(KINDS), st.integers(0, 2**16))
CHANGED = st.tuples(st.integers(0, len(BASES) - 1), st.lists(EDITS, min_size=1, max_size=3))


def changed(base: int, edits: list[tuple[int, str, int]]) -> Any:
    """The contents of a good model file with a few places changed; the file around them is as torch writes it."""
    data = copy.deepcopy(BASES[base])
    for where, kind, what in edits:
        every = places(data)
        holder, key = every[where % len(every)]
        if kind == "tensor":
            tensors = [place for place in every if isinstance(place[0][place[1]], torch.Tensor)] or every
            holder, key = tensors[where % len(tensors)]
        _change(holder, key, kind, what, every)
    return data


def _change(holder: Any, key: Any, kind: str, what: int, every: list[tuple[Any, Any]]) -> None:
    other, other_key = every[what % len(every)]
    if kind == "delete":
        del holder[key]
    elif kind == "repeat" and isinstance(holder, list):
        holder.insert(what % (len(holder) + 1), copy.deepcopy(holder[key]))
    elif kind == "move" and other_key in (other if isinstance(other, dict) else range(len(other))):
        holder[key] = copy.deepcopy(other[other_key])
    elif kind == "tensor" and isinstance(holder[key], torch.Tensor):
        holder[key] = TENSORS[what % len(TENSORS)](holder[key])
    else:
        values = [value for value in VALUES if kind != "like" or type(value) is type(holder[key])] or VALUES
        holder[key] = copy.deepcopy(values[what % len(values)])


def check_model(case: tuple[int, list[tuple[int, str, int]]], folder: Path) -> str:
    path = folder / "model.pt"
    torch.save(changed(*case), path)
    try:
        model = lbnn.read_model(path)
    except LbnnError as error:
        one_line(error, path)
        _refused_too(path)
        return "refused"
    size = sum(math.prod(value.shape) for value in model.graph.values.values())
    if size > LARGE:
        return "read, too large to run here"
    _check_prediction(path, model)
    return _check_export(model, folder)


LARGE = 10**6
"""Elements of all values; a larger network is read, but running it takes the memory that it says."""


def _refused_too(path: Path) -> None:
    """The other reader agrees."""
    try:
        lbnn.load(path)
    except LbnnError as error:
        one_line(error, path)
        return
    raise AssertionError("load takes what read_model refuses")


def _check_prediction(path: Path, model: Any) -> None:
    out = lbnn.load(path)(torch.zeros(2, *model.graph.input.shape))
    mean = out.mean if isinstance(out, lbnn.Moments) else out  # a network without weights keeps what is known known
    assert tuple(mean.shape) == (2, *model.graph.values[model.graph.output].shape)


def _check_export(model: Any, folder: Path) -> str:
    try:
        files = generate(model, COptions(name="model"))
    except LbnnError as error:
        assert "\n" not in str(error)
        return "read, not for C"
    out = write_folder(folder / "c", files, force=True)
    done = subprocess.run([need("gcc"), *STRICT, "-fsyntax-only", out / "model.c"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return "read, C compiles"


PROPERTIES = {
    "csv: any bytes": Property(st.binary(max_size=300), check_csv),
    "csv: a good file, edited": Property(edited(GOOD_CSV), check_csv),
    "csv: odd cells": Property(tables(), check_csv),
    "csv: pieces put anywhere": Property(spoiled(), check_csv),
    "npz: any bytes": Property(st.binary(max_size=300), check_npz),
    "npz: a good file, edited": Property(edited(GOOD_NPZ), check_npz),
    "npz: a compressed file, edited": Property(edited(COMPRESSED_NPZ), check_npz),
    "npz: forged headers": Property(forged_arrays(), check_npz),
    "model: changed fields and tensors": Property(CHANGED, check_model),
}
