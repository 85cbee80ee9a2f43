"""Convolution with Gaussian weights, over one or two spatial axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F

from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.ops.arithmetic import pairs_inside, weighted, weighted_point
from lbnn.ops.attributes import integer, integers
from lbnn.ops.factored import conv_factored
from lbnn.ops.limits import AxisSpan, unfolded
from lbnn.ops.memory import OWN
from lbnn.ops.namespace import Namespace, Shape
from lbnn.ops.table import Op, Sample, Use, register_forms


@dataclass(frozen=True)
class ConvGeometry:
    """Stride, symmetric zero padding and dilation per spatial axis; channels in `groups` separate groups."""

    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int


PadAxis = int | tuple[int, int]
"""Zero padding along an axis: at both ends, or before the input and behind it where they differ."""


def pads_before(padding: tuple[PadAxis, ...]) -> Shape:
    """Zeros before the input."""
    return tuple(pad if isinstance(pad, int) else pad[0] for pad in padding)


def pads_in_all(padding: tuple[PadAxis, ...]) -> Shape:
    """Zeros at both ends together."""
    return tuple(2 * pad if isinstance(pad, int) else sum(pad) for pad in padding)


def conv(
    xp: Namespace,
    x: Moments[Any],
    weight: Moments[Any] | Factored[Any],
    bias: Moments[Any],
    stride: Shape,
    padding: tuple[PadAxis, ...],
    dilation: Shape,
    groups: int,
) -> Moments[Any]:
    """E' = E[b] + E * E[w];  V' = V[b] + V * (V[w] + E[w]^2) + E^2 * V[w], with * the convolution."""
    if not all(isinstance(pad, int) for pad in padding):
        x, padding = Moments(*(_padded(xp, part, padding) for part in x)), (0,) * len(padding)
    geometry = ConvGeometry(stride, pads_before(padding), dilation, groups)
    if isinstance(weight, Factored):
        return conv_factored(xp, x, weight, bias, geometry)
    spread = weight.var + weight.mean * weight.mean
    return Moments(
        xp.conv(geometry, bias.mean, (x.mean, weight.mean)),
        xp.conv(geometry, bias.var, (x.mean * x.mean, weight.var), (x.var, spread)),
    )


def conv_point(
    xp: Namespace,
    x: Any,
    weight: Moments[Any] | Factored[Any],
    bias: Moments[Any],
    stride: Shape,
    padding: tuple[PadAxis, ...],
    dilation: Shape,
    groups: int,
) -> Moments[Any]:
    """V' = V[b] + E^2 * V[w]: the input is known."""
    if not all(isinstance(pad, int) for pad in padding):
        x, padding = _padded(xp, x, padding), (0,) * len(padding)
    geometry = ConvGeometry(stride, pads_before(padding), dilation, groups)
    if isinstance(weight, Factored):
        return conv_factored(xp, x, weight, bias, geometry)
    return Moments(
        xp.conv(geometry, bias.mean, (x, weight.mean)),
        xp.conv(geometry, bias.var, (x * x, weight.var)),
    )


def _padded(xp: Namespace, x: Any, padding: tuple[PadAxis, ...]) -> Any:
    return xp.pad(x, tuple((pad, pad) if isinstance(pad, int) else pad for pad in padding))


def conv_shape(
    x: Shape, weight: Shape, bias: Shape, stride: Shape, padding: tuple[PadAxis, ...], dilation: Shape, groups: int
) -> Shape:
    """(C, *spatial) -> (C', *spatial'), as in torch."""
    rank = len(weight) - 2
    if rank not in (1, 2) or len(x) != rank + 1 or bias not in ((), weight[:1]):
        raise LbnnError(f"conv: input {x} does not fit weight {weight} and bias {bias}")
    if any(len(per_axis) != rank for per_axis in (stride, padding, dilation)):
        raise LbnnError(f"conv: stride, padding and dilation need {rank} entries each")
    before, both = pads_before(padding), pads_in_all(padding)
    if min(groups, *stride, *dilation) < 1 or any(not 0 <= pad <= all_ for pad, all_ in zip(before, both, strict=True)):
        raise LbnnError("conv: stride, dilation and groups must be at least 1 and padding at least 0")
    if x[0] != weight[1] * groups or weight[0] % groups:
        raise LbnnError(f"conv: {x[0]} channels do not fit weight {weight} in {groups} groups")
    spatial = tuple(
        (size + pad - step * (extent - 1) - 1) // jump + 1
        for size, extent, jump, pad, step in zip(x[1:], weight[2:], stride, both, dilation, strict=True)
    )
    if min(spatial) < 1:
        raise LbnnError(f"conv: the kernel {weight[2:]} is larger than the padded input {x[1:]}")
    return (weight[0], *spatial)


def _oracle(x: Any, weight: Any, bias: Any, stride: Shape, padding: Shape, dilation: Shape, groups: int) -> Any:
    function: Any = F.conv1d if len(stride) == 1 else F.conv2d
    out = function(x[None], weight, None, stride, padding, dilation, groups)[0]
    return out + bias.reshape((-1,) + (1,) * len(stride)) if bias.ndim else out + bias


def _products(use: Use) -> int:
    """Pairs of a weight and an input inside the image."""
    out, inputs, *kernel = use.params["weight"].shape
    stride, before, dilation = use.attrs["stride"], pads_before(use.attrs["padding"]), use.attrs["dilation"]
    return int(out * inputs * pairs_inside(use, tuple(kernel), stride, before, dilation))


def _held(use: Use) -> int:
    pads, kernel = pads_in_all(use.attrs["padding"]), use.params["weight"].shape[2:]
    axes = zip(use.inputs[0][1:], pads, use.output[1:], kernel, strict=True)
    return unfolded(use.inputs[0][0], (AxisSpan(size + pad, number, taps) for size, pad, number, taps in axes))


def _sample(
    x: Shape, weight: Shape, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
    variance: str = "full",
) -> Sample:  # fmt: skip
    rank = len(x) - 1
    attrs = dict(stride=(stride,) * rank, padding=(padding,) * rank, dilation=(dilation,) * rank, groups=groups)
    return Sample((x,), {"weight": weight, "bias": weight[:1]}, attrs, variance)


_SAMPLES = (
    _sample((2, 5), (3, 2, 3)),
    _sample((1, 6), (2, 1, 3), stride=2, padding=1),
    _sample((2, 7), (2, 1, 3), dilation=2, groups=2),
    _sample((1, 4, 4), (2, 1, 3, 3), padding=1),
    _sample((2, 5, 4), (2, 2, 2, 3), stride=2, padding=1),
    _sample((4, 3, 3), (4, 1, 3, 3), padding=1, groups=4),
    _sample((2, 3, 3), (3, 2, 1, 1)),
    _sample((4, 5, 5), (2, 2, 2, 2), dilation=2, groups=2),
    Sample(
        ((1, 4, 5),),
        {"weight": (2, 1, 2, 3), "bias": ()},
        dict(stride=(1, 2), padding=(1, 0), dilation=(2, 1), groups=1),
    ),
    _sample((1, 4, 4), (2, 1, 3, 3), padding=1, variance="rank1"),
    _sample((2, 5, 4), (3, 2, 2, 3), stride=2, padding=1, variance="rank1"),
    _sample((4, 5, 5), (4, 2, 2, 2), dilation=2, groups=2, variance="rank1"),
    _sample((3, 3, 3), (3, 1, 3, 3), padding=1, groups=3, variance="rank1"),
    _sample((2, 6), (3, 2, 3), variance="row"),
    Sample(
        ((2, 3, 3),),
        {"weight": (2, 2, 1, 1), "bias": ()},
        dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1),
        "rank1",
    ),
)
register_forms(
    Op(
        "conv",
        conv,
        shape=conv_shape,
        oracle=_oracle,
        kind="multilinear",
        samples=_SAMPLES,
        arithmetic=weighted(_products),
        memory=OWN,
        attributes={"stride": integers, "padding": integers, "dilation": integers, "groups": integer},
        gaussian=("weight", "bias"),
        factored=("weight",),
        held=_held,
        channel_axis=lambda rank: 0,
    ),
    conv_point,
    weighted_point(_products),
    point_output=False,
)
