"""Packing of float weights into the order in which the C kernels read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lbnn.base.arrays import AnyArray, Floats
from lbnn.base.moments import Moments
from lbnn.exporters.c import literals

PACK = 8
"""Outputs that share a row of packed weights; LBNN_PACK in lbnn_sums.h."""

PAD = PACK - 1
"""Unused floats at the end of a packed layer."""


class PackedLayer(NamedTuple):
    """The numbers of a layer, and how they stand in lines: (numbers in all, numbers a line) for each block of lines."""

    values: AnyArray
    lines: tuple[tuple[int, int], ...]


def pack_floats(weight: Moments[Any], bias: Moments[Any], groups: int, pad: int, what: str) -> PackedLayer:
    """A layer as floats, a line for each packed row; `what` is the layer in an error."""
    weight_mean, weight_var, bias_mean, bias_var = (literals.float32(part, what) for part in (*weight, *bias))
    rows = 1 + weight.mean[0].size
    widths = [2 * (block.stop - block.start) for block in packed_blocks(len(weight.mean), groups)]
    packed = pack_weights(weight_mean, weight_var, bias_mean, bias_var, groups, pad)
    return PackedLayer(packed, tuple((width * rows, width) for width in widths))


def pack_weights(
    weight_mean: Floats,
    weight_var: Floats,
    bias_mean: Floats | None = None,
    bias_var: Floats | None = None,
    groups: int = 1,
    pad: int = PAD,
) -> Floats:
    """Packs a layer in PyTorch's layout (out, in / groups, *kernel) for lbnn_linear* and lbnn_conv2d*.

    Group after group, blocks of PACK outputs; a block is a row for the bias and one for each input, a
    row is the block's means and then its variances. A missing bias is zero. `pad` zeros at the end let a
    kernel load a whole block where a narrower one is left.
    """
    mean = _with_bias(weight_mean, bias_mean)
    var = _with_bias(weight_var, bias_var)
    blocks = [np.concatenate([mean[rows], var[rows]]).T.reshape(-1) for rows in packed_blocks(len(mean), groups)]
    return np.concatenate([*blocks, np.zeros(pad, np.float32)])


def packed_length(out_len: int, inputs_per_output: int) -> int:
    """Floats in a packed layer: a mean and a variance for each weight and each bias, 8 bytes, and the PAD."""
    return 2 * out_len * (inputs_per_output + 1) + PAD


def least_pad(out_len: int, groups: int = 1) -> int:
    """Floats behind the last row that are read where it is loaded as a whole block: what it lacks of PACK outputs."""
    return -(out_len // groups) % PACK


def _with_bias(weight: Floats, bias: Floats | None) -> Floats:
    """(out, 1 + inputs): the bias is the weight of an input that is always 1."""
    rows = np.asarray(weight, dtype=np.float32).reshape(len(weight), -1)
    first = np.zeros(len(rows), np.float32) if bias is None else np.asarray(bias, np.float32)
    return np.concatenate([first[:, None], rows], axis=1)


def packed_blocks(out_len: int, groups: int) -> list[slice]:
    """Rows of each block: at most PACK, never across a group."""
    step = out_len // groups
    return [
        slice(start, min(start + PACK, group + step))
        for group in range(0, out_len, step)
        for start in range(group, group + step, PACK)
    ]
