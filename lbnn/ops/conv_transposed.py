"""Transposed convolution with Gaussian weights, over one or two spatial axes.

Element i of the input meets tap k of the kernel in element i * stride + k * dilation - padding of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch.nn.functional as F

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import taps_inside, weighted, weighted_point
from lbnn.ops.attributes import integer, integers
from lbnn.ops.limits import AxisSpan, unfolded
from lbnn.ops.memory import OWN
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, Use, register_forms


@dataclass(frozen=True)
class TransposedGeometry:
    """Per spatial axis; `padding` is cut off at both ends of the result, `output_padding` added at its end."""

    stride: Shape
    padding: Shape
    output_padding: Shape
    dilation: Shape
    groups: int

    def sizes(self, inputs: Shape, kernel: Shape) -> Shape:
        """The spatial extents of the result."""
        axes = zip(inputs, kernel, self.stride, self.padding, self.output_padding, self.dilation, strict=True)
        return tuple((n - 1) * jump - 2 * cut + step * (k - 1) + more + 1 for n, k, jump, cut, more, step in axes)


def conv_transposed(
    xp: Namespace,
    x: Moments[Any],
    weight: Moments[Any],
    bias: Moments[Any],
    stride: Shape,
    padding: Shape,
    output_padding: Shape,
    dilation: Shape,
    groups: int,
) -> Moments[Any]:
    """E' = E[b] + E * E[w];  V' = V[b] + V * (V[w] + E[w]^2) + E^2 * V[w], with * the transposed convolution."""
    geometry = TransposedGeometry(stride, padding, output_padding, dilation, groups)
    spread = weight.var + weight.mean * weight.mean
    return Moments(
        xp.conv_transposed(geometry, bias.mean, (x.mean, weight.mean)),
        xp.conv_transposed(geometry, bias.var, (x.mean * x.mean, weight.var), (x.var, spread)),
    )


def conv_transposed_point(
    xp: Namespace,
    x: Any,
    weight: Moments[Any],
    bias: Moments[Any],
    stride: Shape,
    padding: Shape,
    output_padding: Shape,
    dilation: Shape,
    groups: int,
) -> Moments[Any]:
    """V' = V[b] + E^2 * V[w]: the input is known."""
    geometry = TransposedGeometry(stride, padding, output_padding, dilation, groups)
    return Moments(
        xp.conv_transposed(geometry, bias.mean, (x, weight.mean)),
        xp.conv_transposed(geometry, bias.var, (x * x, weight.var)),
    )


def conv_transposed_shape(
    x: Shape,
    weight: Shape,
    bias: Shape,
    stride: Shape,
    padding: Shape,
    output_padding: Shape,
    dilation: Shape,
    groups: int,
) -> Shape:
    """(C, *spatial) -> (C', *spatial'), as in torch."""
    rank, channels = len(weight) - 2, weight[1] * groups if len(weight) > 1 else 0
    if rank not in (1, 2) or len(x) != rank + 1 or bias not in ((), (channels,)):
        raise LbnnError(f"conv_transposed: input {x} does not fit weight {weight} and bias {bias}")
    if any(len(per_axis) != rank for per_axis in (stride, padding, output_padding, dilation)):
        raise LbnnError(f"conv_transposed: stride, padding, output_padding and dilation need {rank} entries each")
    if min(groups, *stride, *dilation) < 1 or min(*padding, *output_padding) < 0:
        raise LbnnError("conv_transposed: stride, dilation and groups must be at least 1 and padding at least 0")
    if any(more >= max(jump, step) for more, jump, step in zip(output_padding, stride, dilation, strict=True)):
        raise LbnnError(f"conv_transposed: output_padding {output_padding} must be less than stride or dilation")
    if x[0] != weight[0] or weight[0] % groups:
        raise LbnnError(f"conv_transposed: {x[0]} channels do not fit weight {weight} in {groups} groups")
    spatial = TransposedGeometry(stride, padding, output_padding, dilation, groups).sizes(x[1:], weight[2:])
    if min(spatial) < 1:
        raise LbnnError(f"conv_transposed: padding {padding} leaves nothing of the result; use less")
    return (channels, *spatial)


def swap_channels(weight: Any, groups: int) -> Any:
    """(in, out / groups, *kernel), as torch has it, <-> (out, in / groups, *kernel), a row for each output."""
    first, second, *kernel = weight.shape
    apart = weight.reshape(groups, first // groups, second, *kernel)
    return apart.swapaxes(1, 2).reshape(groups * second, first // groups, *kernel)


def _oracle(x: Any, weight: Any, bias: Any, output_padding: Shape, groups: int, **geometry: Any) -> Any:
    function: Any = F.conv_transpose1d if x.ndim == 2 else F.conv_transpose2d
    out = function(x[None], weight, None, output_padding=output_padding, groups=groups, **geometry)[0]
    return out + bias.reshape((-1,) + (1,) * (x.ndim - 1)) if bias.ndim else out + bias


def _products(use: Use) -> int:
    """Pairs of a weight and an input that meet in the result."""
    inputs, outputs, *kernel = use.params["weight"].shape
    geometry = (use.attrs[key] for key in ("stride", "padding", "dilation"))
    axes = zip(use.output[1:], use.inputs[0][1:], kernel, *geometry, strict=True)
    return int(inputs * outputs * prod(taps_inside(*axis) for axis in axes))


def _held(use: Use) -> int:
    axes = zip(use.output[1:], use.attrs["padding"], use.inputs[0][1:], use.params["weight"].shape[2:], strict=True)
    return unfolded(use.output[0], (AxisSpan(size + 2 * cut, number, taps) for size, cut, number, taps in axes))


def _sample(x: Shape, weight: Shape, stride: int, groups: int = 1, bias: bool = True, **geometry: int) -> Sample:
    rank = len(x) - 1
    full = dict(stride=stride, padding=0, output_padding=0, dilation=1) | geometry
    attrs: dict[str, Any] = {key: (value,) * rank for key, value in full.items()}
    return Sample((x,), {"weight": weight, "bias": (weight[1] * groups,) if bias else ()}, attrs | {"groups": groups})


_SAMPLES = (
    _sample((2, 4), (2, 3, 3), 1),
    _sample((2, 3), (2, 1, 4), 2, padding=1),
    _sample((1, 3), (1, 2, 3), 2, padding=1, output_padding=1),
    _sample((2, 3), (2, 1, 2), 3, groups=2),
    _sample((2, 4), (2, 2, 3), 2, dilation=3, padding=1, output_padding=2),
    _sample((2, 2, 3), (2, 1, 2, 2), 2),
    _sample((2, 2, 2), (2, 2, 3, 3), 2, padding=1, output_padding=1, bias=False),
    _sample((4, 2, 2), (4, 1, 3, 3), 2, groups=2, padding=1),
    _sample((1, 3, 4), (1, 2, 2, 1), 1, dilation=2, padding=1),
    Sample(
        ((2, 2, 3),),
        {"weight": (2, 1, 2, 3), "bias": (1,)},
        dict(stride=(3, 2), padding=(1, 2), output_padding=(2, 0), dilation=(1, 4), groups=1),
    ),
)
register_forms(
    Op(
        "conv_transposed",
        conv_transposed,
        shape=conv_transposed_shape,
        oracle=_oracle,
        kind="multilinear",
        samples=_SAMPLES,
        arithmetic=weighted(_products),
        memory=OWN,
        attributes={
            "stride": integers,
            "padding": integers,
            "output_padding": integers,
            "dilation": integers,
            "groups": integer,
        },
        gaussian=("weight", "bias"),
        held=_held,
        channel_axis=lambda rank: 0,
        rows=lambda weight, attrs: swap_channels(weight, attrs["groups"]),
    ),
    conv_transposed_point,
    weighted_point(_products),
    point_output=False,
)
