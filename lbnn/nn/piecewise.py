"""Activations that are continuous and piecewise linear, by exact moments: any of them, and those that have names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import nn

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer
from lbnn.ops import Shape
from lbnn.ops.pieces import make_pieces, to_float32


class Piecewise(Layer):
    """The function with `slopes[i]` between `kinks[i - 1]` and `kinks[i]`, and `value` at the first kink.

    Kinks are rounded to float32.
    """

    op = "piecewise"
    counterpart: ClassVar[type[nn.Module] | None] = None

    def __init__(self, kinks: Sequence[float], slopes: Sequence[float], value: float = 0.0) -> None:
        super().__init__()
        self.pieces = make_pieces([float(kink) for kink in kinks], [float(slope) for slope in slopes], float(value))

    @property
    def rises(self) -> bool:
        """No slope is below zero."""
        return self.pieces.rises

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """Kinks, slopes and the value at the first kink."""
        return {"kinks": self.pieces.kinks, "slopes": self.pieces.slopes, "value": self.pieces.value}

    def extra_repr(self) -> str:
        """The arguments, as torch prints its own."""
        return ", ".join(f"{key}={value}" for key, value in self.attrs().items())


class Hardtanh(Piecewise):
    """x between two numbers, and those numbers outside."""

    counterpart = nn.Hardtanh

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        if not min_val < max_val:
            raise LbnnError(f"min_val must be below max_val, got {min_val} and {max_val}")
        super().__init__((min_val, max_val), (0.0, 1.0, 0.0), to_float32(min_val))


class ReLU6(Piecewise):
    """x between 0 and 6."""

    counterpart = nn.ReLU6

    def __init__(self) -> None:
        super().__init__((0.0, 6.0), (0.0, 1.0, 0.0))


class Hardsigmoid(Piecewise):
    """x / 6 + 1/2 between 0 and 1."""

    counterpart = nn.Hardsigmoid

    def __init__(self) -> None:
        super().__init__((-3.0, 3.0), (0.0, 1.0 / 6.0, 0.0))


class PReLU(Piecewise):
    """x above zero and `slope` times x below, with any slope; it is a constant and not trained."""

    counterpart = nn.PReLU

    def __init__(self, slope: float = 0.25) -> None:
        super().__init__((0.0,), (slope, 1.0))

    @classmethod
    def like(cls, module: nn.Module) -> Layer:
        """The slope that torch's layer has learned."""
        assert isinstance(module, nn.PReLU)
        if module.num_parameters != 1:
            raise LbnnError("has a slope for each channel; use PReLU(1), one slope for all, and train again")
        return cls(float(module.weight.detach()))


class Clamp(Piecewise):
    """x, but at least `min` and at most `max`; one of them may be missing."""

    counterpart = nn.Threshold

    def __init__(self, min: float | None = None, max: float | None = None) -> None:
        ends = [end for end in (min, max) if end is not None]
        if not ends or ends != sorted(set(ends)):
            raise LbnnError(f"give a min below a max, or one of them; got {min} and {max}")
        slopes = [1.0] if min is None else [0.0, 1.0]
        super().__init__(ends, slopes if max is None else [*slopes, 0.0], to_float32(ends[0]))

    @classmethod
    def like(cls, module: nn.Module) -> Layer:
        """torch's threshold where it does not jump."""
        assert isinstance(module, nn.Threshold)
        if module.threshold != module.value:
            raise LbnnError("jumps from its value to its threshold; make both the same number and train again")
        return cls(min=module.threshold)
