"""Transposed convolutions for the C kernels: shapes at every border, and what torch makes of them in float64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from lbnn.exporters.c.pack import pack_weights
from lbnn.exporters.c.shapes import TransposedShape
from lbnn.exporters.c.transposed import gathered
from lbnn.ops.conv_transposed import swap_channels


@dataclass(frozen=True)
class Transposed:
    """One transposed convolution of height and width."""

    inputs: tuple[int, int, int]
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    output_padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def sizes(self) -> list[int]:
        """Height and width of the result, by torch's own formula."""
        axes = zip(
            self.inputs[1:], self.kernel, self.stride, self.padding, self.output_padding, self.dilation, strict=True
        )
        return [(n - 1) * s - 2 * p + d * (k - 1) + more + 1 for n, k, s, p, more, d in axes]

    @property
    def shape(self) -> TransposedShape:
        """As the kernels take it."""
        geometry = (*self.kernel, *self.stride, *self.padding, *self.dilation, self.groups)
        return TransposedShape(*self.inputs, self.outputs, *self.sizes, *geometry)

    def __str__(self) -> str:
        return "-".join(map(str, vars(self).values())).replace(" ", "")


TRANSPOSED = (
    Transposed((8, 4, 5), 8, (4, 4), (2, 2), (1, 1)),
    Transposed((3, 3, 4), 5, (3, 3), (2, 2), (1, 1), (1, 1)),
    Transposed((2, 3, 3), 9, (2, 2), (2, 2)),
    Transposed((2, 2, 3), 3, (2, 1), (3, 4), (0, 0), (2, 0)),  # outputs that no tap reaches
    Transposed((4, 3, 5), 6, (3, 2), (2, 3), (2, 1), groups=2),
    Transposed((3, 4, 3), 3, (3, 3), (2, 2), (1, 1), groups=3),
    Transposed((2, 4, 5), 17, (3, 4), (1, 1), (1, 2)),  # stride 1
    Transposed((2, 4, 6), 4, (1, 1), (1, 1), (1, 2)),  # more cut off than the kernel adds
    Transposed((2, 3, 7), 4, (3, 4), (2, 3), (2, 4), (2, 1), (3, 2)),
    Transposed((1, 4, 4), 2, (3, 3), (4, 2), (3, 0), (3, 1), (2, 4)),  # stride and dilation with a common divisor
    Transposed((5, 1, 9), 4, (1, 5), (1, 3), (0, 2), (0, 2)),
    Transposed((1, 1, 1), 1, (1, 1)),
    Transposed((37, 2, 3), 10, (4, 3), (2, 2), (1, 1)),  # sums of several parts
    Transposed((150, 1, 2), 2, (1, 2), (1, 2)),  # parts that begin within a tap
)


@dataclass(frozen=True)
class TransposedCase:
    """Inputs and packed weights, and what float64 gives for moments and for points."""

    mean: np.ndarray
    var: np.ndarray
    packed: np.ndarray
    true_mean: np.ndarray
    true_var: np.ndarray
    point_var: np.ndarray


@cache
def transposed_case(case: Transposed) -> TransposedCase:
    """Random numbers, always the same."""
    rng = np.random.default_rng(17)
    weights = (case.inputs[0], case.outputs // case.groups, *case.kernel)
    e, mu, bias = (rng.normal(size=shape).astype(np.float32) for shape in (case.inputs, weights, case.outputs))
    v, var, bias_var = (rng.exponential(size=array.shape).astype(np.float32) for array in (e, mu, bias))

    def conv(x: Any, w: Any, b: Any = None) -> np.ndarray:
        x, w = (torch.from_numpy(array.astype(np.float64)) for array in (x, w))
        geometry = (case.stride, case.padding, case.output_padding, case.groups, case.dilation)
        out = F.conv_transpose2d(x[None], w, None if b is None else torch.from_numpy(b).double(), *geometry)
        return out[0].numpy()

    e64, v64, mu64 = (array.astype(np.float64) for array in (e, v, mu))
    rows = [gathered(swap_channels(part, case.groups)) for part in (mu, var)]
    return TransposedCase(
        e,
        v,
        pack_weights(*rows, bias, bias_var, case.groups),
        conv(e, mu, bias),
        conv(v64 + e64**2, var, bias_var) + conv(v64, mu64**2),
        conv(e64**2, var, bias_var),
    )
