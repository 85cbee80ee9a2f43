"""Dropout that is part of the model, not of its training alone."""

from __future__ import annotations

from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer, ignore_inplace
from lbnn.ops import Shape


class Dropout(Layer):
    """Noise that stays on: each element is 0 with probability `p`, else divided by 1 - p; by its moments, not drawn."""

    op = "dropout"

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        ignore_inplace(self, inplace)
        if not 1e-6 <= p <= 0.999:
            raise LbnnError(f"p must be from 1e-6 to 0.999, got {p}; leave the layer out where nothing is dropped")
        self.p = float(p)

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The probability."""
        return {"p": self.p}

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return f"p={self.p}"
