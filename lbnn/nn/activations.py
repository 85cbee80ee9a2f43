"""Activations: the moments of a nonlinear function of a Gaussian."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer, ignore_inplace
from lbnn.ops import Shape


class LeakyReLU(Layer):
    """Leaky-ReLU by exact moments, or in the paper's form with |E|/sigma clamped to `clamp`.

    `inplace` is torch's and changes nothing; a number or None in its place is `clamp`.
    """

    op = "leaky_relu"
    loads = ("leaky_relu", "leaky_relu_clamped")
    counterpart: ClassVar[type[nn.Module] | None] = nn.LeakyReLU

    def __init__(
        self, negative_slope: float = 0.01, inplace: bool | float | None = False, *, clamp: float | None = None
    ) -> None:
        super().__init__()
        if not isinstance(inplace, bool):
            inplace, clamp = False, inplace
        ignore_inplace(self, inplace)
        if isinstance(clamp, bool):
            raise LbnnError(f"clamp must be a number or None, got {clamp}; torch's inplace=True changes nothing here")
        if not 0.0 <= negative_slope <= 1.0:
            raise LbnnError(f"negative_slope must be from 0 to 1, got {negative_slope}")
        if clamp is not None and not clamp > 0.0:
            raise LbnnError(f"clamp must be positive, got {clamp}")
        self.negative_slope, self.clamp = float(negative_slope), clamp

    @property
    def rises(self) -> bool:
        """Slopes are not below zero."""
        return True

    def op_name(self) -> str:
        """The clamped form is an operator of its own."""
        return "leaky_relu" if self.clamp is None else "leaky_relu_clamped"

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The slope, and the clamp if there is one."""
        slope = {"negative_slope": self.negative_slope}
        return slope if self.clamp is None else {**slope, "clamp": float(self.clamp)}

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return ", ".join(f"{key}={value}" for key, value in self.attrs().items())


class Abs(Layer):
    """The absolute value, by exact moments."""

    op = "abs"


class ReLU(LeakyReLU):
    """ReLU: leaky-ReLU with slope 0."""

    counterpart = nn.ReLU

    def __init__(self, inplace: bool | float | None = False, *, clamp: float | None = None) -> None:
        super().__init__(0.0, inplace, clamp=clamp)
