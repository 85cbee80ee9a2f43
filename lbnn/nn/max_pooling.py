"""Max pooling over windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer
from lbnn.nn.weighted import IntOrTuple, per_axis
from lbnn.ops import Shape


class _MaxPool(Layer):
    """Max pooling over `rank` spatial axes; arguments in torch's order, so that `return_indices` is among them."""

    op = "max_pool"
    rank: int

    def __init__(
        self,
        kernel_size: IntOrTuple,
        stride: IntOrTuple | None = None,
        padding: IntOrTuple = 0,
        dilation: IntOrTuple = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        if return_indices:
            raise LbnnError("return_indices=True is not supported: which element is the largest is random itself")
        self.kernel_size = per_axis(kernel_size, self.rank)
        self.stride = self.kernel_size if stride is None else per_axis(stride, self.rank)
        self.padding = per_axis(padding, self.rank)
        self.dilation = per_axis(dilation, self.rank)
        self.ceil_mode = ceil_mode

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The geometry."""
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """As many axes as the window has."""
        return MaxPool1d(**attrs) if len(attrs["kernel_size"]) == 1 else MaxPool2d(**attrs)

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return ", ".join(f"{key}={value}" for key, value in self.attrs().items())


class MaxPool1d(_MaxPool):
    """`torch.nn.MaxPool1d`."""

    counterpart = nn.MaxPool1d
    rank = 1


class MaxPool2d(_MaxPool):
    """`torch.nn.MaxPool2d`."""

    counterpart = nn.MaxPool2d
    rank = 2
