"""Average pooling, over windows or over everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer
from lbnn.nn.weighted import IntOrTuple, per_axis
from lbnn.ops import Shape


class AveragePool(Layer):
    """The elements of a window are independent, as in the paper, or with `correlated` rise and fall together."""

    op = "avg_pool"
    loads: ClassVar[tuple[str, ...]] = ()

    def __init__(self, correlated: bool) -> None:
        super().__init__()
        self.correlated = correlated

    def op_name(self) -> str:
        """Each rule is an operator of its own."""
        return "avg_pool_correlated" if self.correlated else "avg_pool"


class _AvgPool(AveragePool):
    """Average pooling over `rank` spatial axes."""

    loads = ("avg_pool",)
    rank: int

    def __init__(
        self,
        kernel_size: IntOrTuple,
        stride: IntOrTuple | None = None,
        padding: IntOrTuple = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        *,
        correlated: bool = False,
    ) -> None:
        super().__init__(correlated)
        self.kernel_size = per_axis(kernel_size, self.rank)
        self.stride = self.kernel_size if stride is None else per_axis(stride, self.rank)
        self.padding = per_axis(padding, self.rank)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The geometry."""
        names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """As many axes as the window has."""
        return AvgPool1d(**attrs) if len(attrs["kernel_size"]) == 1 else AvgPool2d(**attrs)

    def extra_repr(self) -> str:
        """As torch prints its own."""
        shown = {**self.attrs(), **({"correlated": True} if self.correlated else {})}
        return ", ".join(f"{key}={value}" for key, value in shown.items())


class _CorrelatedAvgPool(_AvgPool):
    """What a file names by the operator of the other rule."""

    loads = ("avg_pool_correlated",)

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """The same layers, with that rule."""
        return super().from_file({**attrs, "correlated": True}, tensors)


class AvgPool1d(_AvgPool):
    """`torch.nn.AvgPool1d`."""

    counterpart = nn.AvgPool1d
    rank = 1


class AvgPool2d(_AvgPool):
    """`torch.nn.AvgPool2d`."""

    counterpart = nn.AvgPool2d
    rank = 2

    def __init__(
        self,
        kernel_size: IntOrTuple,
        stride: IntOrTuple | None = None,
        padding: IntOrTuple = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        correlated: bool = False,
    ) -> None:
        if divisor_override is not None:
            raise LbnnError("divisor_override is not supported; put an lbnn.nn.Affine behind the pool")
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad, correlated=correlated)


class _GlobalAvgPool(AveragePool):
    """Adaptive average pooling to one element per channel."""

    def __init__(self, output_size: IntOrTuple = 1, correlated: bool = False) -> None:
        super().__init__(correlated)
        if any(size != 1 for size in (output_size if isinstance(output_size, (tuple, list)) else (output_size,))):
            raise LbnnError(f"output_size must be 1, got {output_size}; use AvgPool for other sizes")

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """One window over everything."""
        spatial = shapes[0][1:]
        return dict(
            kernel_size=spatial, stride=spatial, padding=(0,) * len(spatial), ceil_mode=False, count_include_pad=True
        )

    def extra_repr(self) -> str:
        """What is chosen."""
        return "correlated=True" if self.correlated else ""


class AdaptiveAvgPool1d(_GlobalAvgPool):
    """`torch.nn.AdaptiveAvgPool1d(1)`."""

    counterpart = nn.AdaptiveAvgPool1d


class AdaptiveAvgPool2d(_GlobalAvgPool):
    """`torch.nn.AdaptiveAvgPool2d(1)`."""

    counterpart = nn.AdaptiveAvgPool2d
