"""Smooth activations: layers of one operator, by the name of the function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer, ignore_inplace
from lbnn.ops import Shape
from lbnn.ops.smooth import grid_of
from lbnn.ops.smooth_functions import FUNCTIONS


class Tanh(Layer):
    """The hyperbolic tangent."""

    op = "smooth"
    function: ClassVar[str] = "tanh"
    counterpart: ClassVar[type[nn.Module] | None] = nn.Tanh

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The function, and the scale that it has inside and the inverse of outside."""
        return {"function": self.function, "scale": 1.0}

    @property
    def rises(self) -> bool:
        """As the function does; SiLU and GELU fall on the left before they rise."""
        return FUNCTIONS[self.attrs()["function"]].rises

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """The layer of that function."""
        layer: Layer = _LAYERS[attrs["function"]](attrs["scale"])
        return layer


class Sigmoid(Tanh):
    """The logistic function 1 / (1 + e^-x)."""

    function = "sigmoid"
    counterpart = nn.Sigmoid


class SiLU(Tanh):
    """x sigmoid(x), also called swish."""

    function = "silu"
    counterpart = nn.SiLU

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        ignore_inplace(self, inplace)


class GELU(Tanh):
    """x Phi(x); with approximate="tanh" the formula that some networks compute in its place."""

    counterpart = nn.GELU

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise LbnnError(f'approximate must be "none" or "tanh", got {approximate!r:.50}')
        self.approximate = approximate

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The function."""
        return {"function": "gelu" if self.approximate == "none" else "gelu_tanh", "scale": 1.0}

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return f"approximate={self.approximate!r}"


LEAST_THRESHOLD = 15.0
"""Above it log(1 + e^x) is x to 3e-7: a threshold that torch's layer has from there on makes no difference."""


class Softplus(Tanh):
    """log(1 + e^(beta x)) / beta. Torch's threshold, above which its layer is the identity, is 15 or more."""

    counterpart = nn.Softplus

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        if not 1e-6 <= beta <= 1e6:
            raise LbnnError(f"beta must be from 1e-6 to 1e6, got {beta}")
        if not threshold >= LEAST_THRESHOLD:
            raise LbnnError(f"a threshold below {LEAST_THRESHOLD:g} makes the function jump, got {threshold}; use 20")
        self.beta, self.threshold = float(beta), float(threshold)

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The function with its scale."""
        return {"function": "softplus", "scale": self.beta}

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return f"beta={self.beta}, threshold={self.threshold}"


_LAYERS: dict[str, Any] = {
    "sigmoid": lambda scale: Sigmoid(),
    "tanh": lambda scale: Tanh(),
    "silu": lambda scale: SiLU(),
    "softplus": Softplus,
    "gelu": lambda scale: GELU(),
    "gelu_tanh": lambda scale: GELU("tanh"),
}

for _name in FUNCTIONS:
    grid_of(_name)  # made by torch, which can't be while a compiler or an export looks on
