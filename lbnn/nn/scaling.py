"""Known scales and shifts: affine maps, standardisation and batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.base import Layer, Signal
from lbnn.ops import Shape
from lbnn.ops.affine import batch_norm_affine, batch_norm_shape


class Affine(Layer):
    """A known scale and shift, not trained: E' = scale * E + shift."""

    op = "affine"
    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Any, shift: Any = 0.0) -> None:
        super().__init__()
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.get_default_dtype()).clone())
        self.register_buffer("shift", torch.as_tensor(shift, dtype=torch.get_default_dtype()).clone())

    def op_params(self) -> dict[str, Any]:
        """Scale and shift."""
        return {"scale": self.scale, "shift": self.shift}

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """Any scale: that of the file takes its place."""
        return cls(0.0)


class Standardize(Affine):
    """(x - mean) / std: raw units in, standard units out. `inverse()` goes back."""

    def __init__(self, mean: Any, std: Any) -> None:
        mean, std = torch.as_tensor(mean), torch.as_tensor(std)
        if not bool((std > 0).all()):
            raise LbnnError("Standardize: std must be positive; drop columns that do not vary")
        super().__init__(1.0 / std, -mean / std)

    def inverse(self) -> Affine:
        """Standard units in, raw units out."""
        return Affine(1.0 / self.scale, -self.shift / self.scale)


class BatchNorm(Layer):
    """Batch normalisation of moments over all axes but the channels, folded into its neighbours at export.

    While training, the statistics of a channel are those of the random values themselves (law of total
    variance): mean of E, and mean of V plus variance of E. As in torch the batch is scaled by the biased variance of E
    and the running one takes the unbiased one. Scale and shift are known numbers, not Gaussians.
    """

    op = "batch_norm"
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if num_features < 1:
            raise LbnnError(f"BatchNorm: num_features must be at least 1, got {num_features}")
        if not affine:
            raise LbnnError("BatchNorm: affine=False is not supported; freeze it by layer.requires_grad_(False)")
        if not track_running_stats or momentum is None:
            raise LbnnError("batch norm without running statistics and momentum is not supported")
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        ones, zeros = (make(num_features, device=device, dtype=dtype) for make in (torch.ones, torch.zeros))
        self.weight, self.bias = nn.Parameter(ones), nn.Parameter(zeros)
        self.register_buffer("running_mean", zeros.clone())
        self.register_buffer("running_var", ones.clone())

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The number added to the variance."""
        return {"eps": self.eps}

    def op_params(self) -> dict[str, Any]:
        """Scale, shift and the running statistics."""
        return {name: getattr(self, name) for name in ("weight", "bias", "running_mean", "running_var")}

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """As many channels as there are scales."""
        return cls(len(tensors["weight"]), **attrs)

    def accept(self, x: Tensor) -> None:
        """Numbers of the statistics' own dtype, except where torch converts them by itself."""
        self.accept_dtype(x, self.running_mean.dtype)

    def run(self, *inputs: Signal) -> Signal:
        """Batch statistics while training, running ones otherwise."""
        (x,) = inputs
        if not self.training:
            return super().run(x)
        shape = self.shape_of(x)
        batch_norm_shape(shape, self.eps, weight=tuple(self.weight.shape))
        mean, var = self._statistics(x)
        scale, shift = batch_norm_affine(len(shape), self.weight, self.bias, mean, var, self.eps)
        return x * scale + shift

    def _statistics(self, x: Any) -> tuple[Tensor, Tensor]:
        mean = x.mean if isinstance(x, Moments) else x
        axes = [0, *range(2, mean.ndim)]
        between, average = torch.var_mean(mean, axes, correction=0)
        within = x.var.mean(axes) if isinstance(x, Moments) else 0.0
        count = mean.numel() // self.num_features
        with torch.no_grad():
            unbiased = between * (count / max(count - 1, 1)) + within
            self.running_mean.lerp_(average.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
        return average, between + within


BatchNorm1d = BatchNorm2d = BatchNorm
