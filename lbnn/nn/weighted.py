"""Layers with Gaussian weights: Linear, Conv1d, Conv2d."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from lbnn.base.errors import LbnnError
from lbnn.nn.base import BayesianLayer, Layer
from lbnn.nn.spread import VARIANCES, variance_of_names
from lbnn.ops import Shape

IntOrTuple = int | tuple[int, ...]


class Linear(BayesianLayer):
    """`torch.nn.Linear` with Gaussian weights; `sigma` is their standard deviation at the start.

    `variance` is "full", one sigma for each weight; "rank1", a factor of its output times one of its input; or "row",
    one for each output.
    """

    op = "linear"
    variances = VARIANCES

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        sigma: float | None = None,
        variance: str = "full",
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.init_gaussians((out_features, in_features), bias, sigma, device, dtype, variance)

    def extra_repr(self) -> str:
        """As torch prints its own."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias_mu is not None}{_variance_text(self)}"

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """Sizes from the weight, which is not allocated twice."""
        out_features, in_features = tensors["weight_mu"].shape
        kind = variance_of_names(tensors)
        return cls(in_features, out_features, "bias_mu" in tensors, device="meta", variance=kind)


class _Conv(BayesianLayer):
    """Convolution over `rank` spatial axes."""

    op = "conv"
    variances = VARIANCES
    rank: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrTuple,
        stride: IntOrTuple = 1,
        padding: IntOrTuple | str = 0,
        dilation: IntOrTuple = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        sigma: float | None = None,
        variance: str = "full",
    ) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise LbnnError(f"padding_mode {padding_mode!r} is not supported; use 'zeros'")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise LbnnError(f"{in_channels} and {out_channels} channels can't be divided into {groups} groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = per_axis(kernel_size, self.rank)
        self.stride = per_axis(stride, self.rank)
        self.dilation = per_axis(dilation, self.rank)
        self.padding = _padding(padding, self.kernel_size, self.stride, self.dilation)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.init_gaussians(shape, bias, sigma, device, dtype, variance)

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The geometry."""
        return dict(stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups)

    def extra_repr(self) -> str:
        """As torch prints its own."""
        geometry = ", ".join(f"{key}={value}" for key, value in self.attrs().items())
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, {geometry}{_variance_text(self)}"
        )

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """Sizes from the weight, which is not allocated twice."""
        kind: type[_Conv] = Conv1d if tensors["weight_mu"].ndim == 3 else Conv2d
        channels, group, *kernel = tensors["weight_mu"].shape
        own: dict[str, Any] = dict(bias="bias_mu" in tensors, variance=variance_of_names(tensors), device="meta")
        return kind(group * attrs["groups"], channels, tuple(kernel), **own, **attrs)


class Conv1d(_Conv):
    """`torch.nn.Conv1d` with Gaussian weights."""

    rank = 1


class Conv2d(_Conv):
    """`torch.nn.Conv2d` with Gaussian weights."""

    rank = 2


def _variance_text(layer: BayesianLayer) -> str:
    """Nothing for the usual one, as torch prints."""
    return "" if layer.variance == "full" else f", variance={layer.variance}"


def per_axis(value: IntOrTuple, rank: int) -> Shape:
    """One number for all axes, or one for each."""
    entries = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(entries) != rank:
        raise LbnnError(f"expected one number or {rank}, got {value}")
    return entries


def _padding(padding: IntOrTuple | str, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    if padding == "valid":
        return (0,) * len(kernel)
    if padding != "same":
        return per_axis(padding, len(kernel))  # type: ignore[arg-type]
    spans = [step * (extent - 1) for extent, step in zip(kernel, dilation, strict=True)]
    if any(span % 2 for span in spans) or any(jump != 1 for jump in stride):
        raise LbnnError("padding='same' needs stride 1 and a kernel whose span is odd; put a ZeroPad layer before it")
    return tuple(span // 2 for span in spans)
