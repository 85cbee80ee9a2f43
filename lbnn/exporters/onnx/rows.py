"""Rows of a table by numbers that a graph computes."""

from __future__ import annotations

from lbnn.base.arrays import Array
from lbnn.exporters.onnx.symbols import Symbol

INT64 = 7
"""onnx.TensorProto.INT64."""


def gather_rows(x: Symbol, rows: Array) -> tuple[list[Symbol], Symbol]:
    """The columns of row floor(x), or of the nearest there is, and its number; NaN, below nothing, has the last."""
    recorder = x.recorder
    last, floor = recorder.constant(float(len(rows) - 1)), recorder.node("Floor", [x.tensor()])
    below = recorder.node("Where", [recorder.node("Less", [floor, last]), floor, last])
    row = recorder.node("Max", [below, recorder.constant(0.0)])
    at = recorder.node("Cast", [row], to=INT64)
    picked = [recorder.node("Gather", [recorder.constant(column), at], axis=0) for column in rows.T]
    return [Symbol(recorder, name, x.shape) for name in picked], Symbol(recorder, row, x.shape)
