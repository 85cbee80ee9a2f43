"""Hard-swish, by exact moments."""

from __future__ import annotations

from torch import nn

from lbnn.nn.base import Layer


class Hardswish(Layer):
    """0 below -3, x (x + 3) / 6 between, x above 3."""

    op = "hardswish"
    counterpart = nn.Hardswish
