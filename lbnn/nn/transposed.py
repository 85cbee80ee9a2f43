"""Transposed convolutions with Gaussian weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from lbnn.base.errors import LbnnError
from lbnn.nn.base import BayesianLayer, Layer
from lbnn.nn.weighted import IntOrTuple, per_axis
from lbnn.ops import Shape


class _ConvTranspose(BayesianLayer):
    """Transposed convolution over `rank` spatial axes."""

    op = "conv_transposed"
    rank: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrTuple,
        stride: IntOrTuple = 1,
        padding: IntOrTuple = 0,
        output_padding: IntOrTuple = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: IntOrTuple = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        sigma: float | None = None,
    ) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise LbnnError(f"padding_mode {padding_mode!r} is not supported; use 'zeros'")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise LbnnError(f"{in_channels} and {out_channels} channels can't be divided into {groups} groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = per_axis(kernel_size, self.rank)
        self.stride, self.padding = per_axis(stride, self.rank), per_axis(padding, self.rank)
        self.output_padding = per_axis(output_padding, self.rank)
        self.dilation = per_axis(dilation, self.rank)
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.init_gaussians(shape, bias, sigma, device, dtype, outputs=out_channels)

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The geometry."""
        return dict(
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def extra_repr(self) -> str:
        """As torch prints its own."""
        geometry = ", ".join(f"{key}={value}" for key, value in self.attrs().items())
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, {geometry}"

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """Sizes from the weight, which is not allocated twice."""
        kind: type[_ConvTranspose] = ConvTranspose1d if tensors["weight_mu"].ndim == 3 else ConvTranspose2d
        channels, group, *kernel = tensors["weight_mu"].shape
        return kind(channels, group * attrs["groups"], tuple(kernel), bias="bias_mu" in tensors, device="meta", **attrs)


class ConvTranspose1d(_ConvTranspose):
    """`torch.nn.ConvTranspose1d` with Gaussian weights."""

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """`torch.nn.ConvTranspose2d` with Gaussian weights."""

    rank = 2
