"""Packing of integer layers into the order in which the integer kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn.base.arrays import AnyArray
from lbnn.graph.ints.quantise import LinearInts, Rows, stored_bias

ROW = 7
"""Numbers of 16 bits that are stored of an output; LBNN_INT_ROW in lbnn_int_linear.h."""


def stored_rows(rows: Rows) -> AnyArray:
    """m, m^2, a, c, their shifts with the sign of m, and the bias, its lower half first."""
    shifts = rows.km | rows.ka << 5 | rows.kc << 10 | rows.negative << 15
    bias = stored_bias(rows) & 0xFFFFFFFF
    columns = (rows.m, rows.square, rows.a, rows.c, shifts, bias & 0xFFFF, bias >> 16)
    return np.stack(columns, axis=1).reshape(-1).astype(np.uint16)


def pack_weights8(layer: LinearInts) -> AnyArray:
    """The weights of a layer as `pack_rows8` lays them out."""
    return pack_rows8(layer.weight)


def pack_rows8(rows: AnyArray, kind: type[np.integer[Any]] = np.int8) -> AnyArray:
    """Pairs of rows, the last of an odd number alone; inputs are filled up to an even number."""
    weight = _even(rows).astype(kind)
    pairs = len(weight) // 2
    joined = weight[: 2 * pairs].reshape(pairs, 2, weight.shape[1]).transpose(0, 2, 1)
    return np.concatenate([joined.reshape(-1), weight[2 * pairs :].reshape(-1)])


def pack_weights16(layer: LinearInts) -> AnyArray:
    """The weights of a layer as `pack_rows16` lays them out."""
    return pack_rows16(layer.weight)


def pack_rows16(rows: AnyArray) -> AnyArray:
    """Row after row; inputs are filled up to an even number."""
    return _even(rows).astype(np.int16).reshape(-1)


def pack_columns(layer: LinearInts, groups: int = 1) -> AnyArray:
    """A number for each column; factors of a group's inputs are filled up to an even number."""
    columns = layer.columns.astype(np.uint16)
    return _even(columns.reshape(groups, -1)).reshape(-1) if layer.form == "factors" else columns


def _even(weight: AnyArray) -> AnyArray:
    return np.pad(weight, ((0, 0), (0, weight.shape[1] % 2)))


@dataclass(frozen=True)
class LayerStruct:
    """The members of lbnn_int_layer; arrays by name, 0 where there is none."""

    weight8: str
    weight16: str
    free: str
    columns: str
    rows: str
    in_len: int
    out_len: int
    free_bits: int
    column_exponent: int
    scale_exponent: int
    spread_exponent: int
    bias_exponent: int
    noise_exponent: int

    @property
    def largest(self) -> int:
        """The largest number that C computes of it as an int."""
        return 4 * (self.in_len + 1) * (self.out_len + 1) + ROW * self.out_len


def struct_exponents(rows: Rows) -> tuple[Any, ...]:
    """The last members of the struct."""
    return (rows.scale_exponent, rows.spread_exponent, rows.bias_exponent, rows.noise_exponent)
