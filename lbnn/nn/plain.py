"""Layers without Gaussian weights: activations, pooling, normalisation, structure and heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.base import Layer, Value
from lbnn.nn.weighted import IntOrTuple, per_axis
from lbnn.ops import Shape
from lbnn.ops.affine import batch_norm_affine


class LeakyReLU(Layer):
    """Leaky-ReLU by exact moments, or in the paper's form with |E|/sigma clamped to `clamp`."""

    op = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01, clamp: float | None = None) -> None:
        super().__init__()
        if not 0.0 <= negative_slope <= 1.0:
            raise LbnnError(f"negative_slope must be from 0 to 1, got {negative_slope}")
        if clamp is not None and not clamp > 0.0:
            raise LbnnError(f"clamp must be positive, got {clamp}")
        self.negative_slope, self.clamp = float(negative_slope), clamp

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


class ReLU(LeakyReLU):
    """ReLU: leaky-ReLU with slope 0."""

    def __init__(self, clamp: float | None = None) -> None:
        super().__init__(0.0, clamp)


class _AvgPool(Layer):
    """Average pooling over `rank` spatial axes."""

    op = "avg_pool"
    rank: int

    def __init__(
        self,
        kernel_size: IntOrTuple,
        stride: IntOrTuple | None = None,
        padding: IntOrTuple = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = per_axis(kernel_size, self.rank)
        self.stride = self.kernel_size if stride is None else per_axis(stride, self.rank)
        self.padding = per_axis(padding, self.rank)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The geometry."""
        names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
        return {name: getattr(self, name) for name in names}

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return ", ".join(f"{key}={value}" for key, value in self.attrs().items())


class AvgPool1d(_AvgPool):
    """`torch.nn.AvgPool1d`."""

    rank = 1


class AvgPool2d(_AvgPool):
    """`torch.nn.AvgPool2d`."""

    rank = 2


class _GlobalAvgPool(Layer):
    """Adaptive average pooling to one element per channel."""

    op = "avg_pool"

    def __init__(self, output_size: IntOrTuple = 1) -> None:
        super().__init__()
        if any(size != 1 for size in ((output_size,) if isinstance(output_size, int) else output_size)):
            raise LbnnError(f"output_size must be 1, got {output_size}; use AvgPool for other sizes")

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """One window over everything."""
        spatial = shapes[0][1:]
        return dict(
            kernel_size=spatial, stride=spatial, padding=(0,) * len(spatial), ceil_mode=False, count_include_pad=True
        )


class AdaptiveAvgPool1d(_GlobalAvgPool):
    """`torch.nn.AdaptiveAvgPool1d(1)`."""


class AdaptiveAvgPool2d(_GlobalAvgPool):
    """`torch.nn.AdaptiveAvgPool2d(1)`."""


class Flatten(Layer):
    """All axes behind the batch axis made one."""

    op = "flatten"


class _ZeroPad(Layer):
    """Known zeros around `rank` spatial axes; `padding` in torch's order, last axis first."""

    op = "pad"
    rank: int

    def __init__(self, padding: IntOrTuple) -> None:
        super().__init__()
        amounts = per_axis(padding, 2 * self.rank)
        self.padding = tuple((amounts[2 * axis], amounts[2 * axis + 1]) for axis in reversed(range(self.rank)))

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """(before, after) for each spatial axis."""
        return {"padding": self.padding}


class ZeroPad1d(_ZeroPad):
    """`torch.nn.ZeroPad1d`."""

    rank = 1


class ZeroPad2d(_ZeroPad):
    """`torch.nn.ZeroPad2d`."""

    rank = 2


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
    variance): mean of E, and mean of V plus variance of E. Scale and shift are known numbers, not Gaussians.
    """

    op = "batch_norm"
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(num_features)), nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The number added to the variance."""
        return {"eps": self.eps}

    def op_params(self) -> dict[str, Any]:
        """Scale, shift and the running statistics."""
        return {name: getattr(self, name) for name in ("weight", "bias", "running_mean", "running_var")}

    def forward(self, *inputs: Value) -> Value:
        """Batch statistics while training, running ones otherwise."""
        (x,) = inputs
        if not self.training or hasattr(x, "record_layer"):
            return super().forward(x)
        mean, var = self._statistics(x)
        rank = (x.mean if isinstance(x, Moments) else x).ndim - 1
        scale, shift = batch_norm_affine(rank, self.weight, self.bias, mean, var, self.eps)
        return x * scale + shift

    def _statistics(self, x: Any) -> tuple[Tensor, Tensor]:
        mean = x.mean if isinstance(x, Moments) else x
        axes = [0, *range(2, mean.ndim)]
        var, average = torch.var_mean(mean, axes, correction=0)
        if isinstance(x, Moments):
            var = var + x.var.mean(axes)
        with torch.no_grad():
            self.running_mean.lerp_(average, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return average, var


BatchNorm1d = BatchNorm2d = BatchNorm


class Add(Layer):
    """The sum of two independent values: means add, variances add."""

    op = "add"


class Concat(Layer):
    """Concatenation along `dim`, counted with the batch axis as in torch."""

    op = "concat"

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        if dim < 1:
            raise LbnnError(f"Concat: dim must be at least 1 (0 is the batch axis), got {dim}")
        self.dim = dim

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The axis, counted without the batch axis."""
        return {"axis": self.dim - 1}


class Constant(Layer):
    """A known value that is part of the model: the same for each sample of the batch that it is called with."""

    op = "constant"
    value: Tensor

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.register_buffer("value", torch.as_tensor(value, dtype=torch.get_default_dtype()).clone())

    def op_params(self) -> dict[str, Any]:
        """The value."""
        return {"value": self.value}

    def forward(self, *inputs: Value) -> Value:
        """The value, once for each sample."""
        (x,) = inputs
        if hasattr(x, "record_layer"):
            return x.record_layer(self, ())
        return self.value.expand(x.shape[0], *self.value.shape)


class Lift(Layer):
    """A known value as Moments: variance zero."""

    op = "lift"


class VarianceHead(Layer):
    """Learned variance: features (mu, s) give mean E[mu] and total variance V[mu] + softplus(E[s])."""

    op = "variance_head"


def cat(values: list[Value] | tuple[Value, ...], dim: int = 1) -> Value:
    """`torch.cat` for tensors and Moments."""
    return Concat(dim)(*values)
