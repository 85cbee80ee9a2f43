"""Activations that are x above zero and an exponential below, by exact moments: layers of one operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer, ignore_inplace
from lbnn.ops import OPS, Shape

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
"""The numbers of torch's SELU."""


class ELU(Layer):
    """scale x for x > 0 and scale alpha (e^(x / beta) - 1) below; torch's own has beta = scale = 1."""

    op = "elu"
    counterpart: ClassVar[type[nn.Module] | None] = nn.ELU

    def __init__(self, alpha: float = 1.0, inplace: bool = False, *, beta: float = 1.0, scale: float = 1.0) -> None:
        super().__init__()
        ignore_inplace(self, inplace)
        read = OPS["elu"].attributes
        self.alpha, self.beta, self.scale = (
            read[key](key, float(value)) for key, value in (("alpha", alpha), ("beta", beta), ("scale", scale))
        )

    @property
    def rises(self) -> bool:
        """alpha is not below zero."""
        return True

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The numbers of the function."""
        return {"alpha": self.alpha, "beta": self.beta, "scale": self.scale}

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """The layer that has a name for these numbers, or this one."""
        layer = ELU(**attrs)
        named = SELU() if attrs["beta"] == 1.0 else CELU(attrs["beta"])
        return named if named.attrs() == layer.attrs() else layer

    def extra_repr(self) -> str:
        """The arguments that differ from torch's defaults, as torch prints its own."""
        return ", ".join(f"{key}={value}" for key, value in self.attrs().items() if key == "alpha" or value != 1.0)


class CELU(ELU):
    """x for x > 0 and alpha (e^(x / alpha) - 1) below: its slope has no kink."""

    counterpart = nn.CELU

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        if not 1e-3 <= alpha <= 1e3:
            raise LbnnError(f"alpha must be from 0.001 to 1000, got {alpha}")
        super().__init__(alpha, inplace, beta=alpha)

    def extra_repr(self) -> str:
        """The argument."""
        return f"alpha={self.alpha}"


class SELU(ELU):
    """The self-normalising ELU: alpha = 1.673 and scale = 1.051."""

    counterpart = nn.SELU

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(SELU_ALPHA, inplace, scale=SELU_SCALE)

    def extra_repr(self) -> str:
        """It has no argument."""
        return ""
