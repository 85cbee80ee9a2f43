"""Activations that are continuous and piecewise linear, by exact moments: any of them, and those that have names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.base import Layer, Signal, apply, ignore_inplace
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

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """A line for x > 0 with another slope below is PReLU, for a file holds the slope that it has learned."""
        slope = attrs["slopes"][0]
        is_prelu = attrs == {"kinks": (0.0,), "slopes": (slope, 1.0), "value": 0.0} and slope != 0.0
        return PReLU(init=slope) if is_prelu else cls(**attrs)

    def extra_repr(self) -> str:
        """The arguments, as torch prints its own."""
        return ", ".join(f"{key}={value}" for key, value in self.attrs().items())


class Hardtanh(Piecewise):
    """x between two numbers, and those numbers outside."""

    counterpart = nn.Hardtanh

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        if not min_val < max_val:
            raise LbnnError(f"min_val must be below max_val, got {min_val} and {max_val}")
        super().__init__((min_val, max_val), (0.0, 1.0, 0.0), to_float32(min_val))
        ignore_inplace(self, inplace)


class ReLU6(Piecewise):
    """x between 0 and 6."""

    counterpart = nn.ReLU6

    def __init__(self, inplace: bool = False) -> None:
        super().__init__((0.0, 6.0), (0.0, 1.0, 0.0))
        ignore_inplace(self, inplace)


class Hardsigmoid(Piecewise):
    """x / 6 + 1/2 between 0 and 1."""

    counterpart = nn.Hardsigmoid

    def __init__(self, inplace: bool = False) -> None:
        super().__init__((-3.0, 3.0), (0.0, 1.0 / 6.0, 0.0))
        ignore_inplace(self, inplace)


class PReLU(Layer):
    """x above zero and a learned slope times x below, one for all channels; any slope.

    With p = max(x, 0) and q = max(-x, 0) it is p - a q, and since one of both is 0, Cov(p, q) = -E[p] E[q]:

        E' = E[p] - a E[q]          V' = V[p] + a^2 V[q] + 2 a E[p] E[q]

    In a file and everywhere else it is the operator of `Piecewise`, with the slope as a number.
    """

    op = "piecewise"
    loads: ClassVar[tuple[str, ...]] = ()
    counterpart = nn.PReLU
    weight: nn.Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        if num_parameters != 1:
            raise LbnnError(
                f"PReLU: num_parameters must be 1, one learned slope for all channels, got {num_parameters}; "
                "the number that it begins with is init=0.25"
            )
        make_pieces((0.0,), (float(init), 1.0), 0.0)
        self.num_parameters, self.init = 1, float(init)
        self.weight = nn.Parameter(torch.full((1,), float(init), device=device, dtype=dtype))

    @property
    def rises(self) -> bool:
        """The slope is not below zero."""
        return float(self.weight.detach()) >= 0.0

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The pieces, with the slope as it is now."""
        return {"kinks": (0.0,), "slopes": (float(self.weight.detach()), 1.0), "value": 0.0}

    def accept(self, x: Tensor) -> None:
        """Numbers of the slope's own dtype, except where torch converts them by itself."""
        self.accept_dtype(x, self.weight.dtype)

    def run(self, *inputs: Signal) -> Signal:
        """By the moments of both sides, through which gradients reach the slope."""
        (x,) = inputs
        shape = self.shape_of(x)
        p, q = (apply("leaky_relu", (side,), {}, {"negative_slope": 0.0}, [shape]) for side in (x, x * -1.0))
        if not isinstance(x, Moments):
            return p - q * self.weight.to(x.dtype)
        slope = self.weight.to(x.mean.dtype)
        var = p.var + q.var * slope.square() + p.mean * q.mean * (2.0 * slope)
        return Moments(p.mean - q.mean * slope, var.clamp_min(0.0))

    @classmethod
    def like(cls, module: nn.Module) -> Layer:
        """The slope that torch's layer has learned."""
        assert isinstance(module, nn.PReLU)
        if module.num_parameters != 1:
            raise LbnnError("has a slope for each channel; use torch.nn.PReLU(), one for all, and train again")
        layer = cls()
        layer.weight = nn.Parameter(module.weight.detach())
        return layer

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return f"num_parameters={self.num_parameters}"


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
