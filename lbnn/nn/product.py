"""The product of two values that a network computes."""

from __future__ import annotations

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.base import Layer, Signal


class Multiply(Layer):
    """The product of two independent values; one may have a single value for each channel, as gates do."""

    op = "multiply"

    def forward(self, *inputs: Signal) -> Signal:
        """Refuses the square of a random value, whose factors are not independent."""
        if len(inputs) == 2 and inputs[0] is inputs[1] and isinstance(inputs[0], Moments):
            raise LbnnError("a random value times itself is not a product of independent values; use another layer")
        return super().forward(*inputs)
