"""Hard-swish, by exact moments."""

from __future__ import annotations

from torch import nn

from lbnn.nn.base import Layer, ignore_inplace


class Hardswish(Layer):
    """0 below -3, x (x + 3) / 6 between, x above 3."""

    op = "hardswish"
    counterpart = nn.Hardswish

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        ignore_inplace(self, inplace)
