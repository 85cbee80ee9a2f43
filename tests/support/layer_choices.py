"""Every layer of lbnn.nn with every argument of its constructor: what a random network draws for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from draws import Draw
from lbnn.ops import Shape
from recipes import Numbers

Arguments = dict[str, Any]
Maker = Callable[[Draw, Shape], Arguments | None]
"""Arguments for an input of this shape, or None where such a layer does not fit."""

WIDTHS = (1, 2, 3, 4, 5, 7, 2, 3, 4, 8, 9, 17)  # beside and between multiples of what C kernels take at once


def weight_options(draw: Draw) -> Arguments:
    """Where and in which precision weights lie, and their first sigma: what all Bayesian layers take."""
    return dict(
        bias=draw.flag(),
        **dtype_options(draw),
        sigma=draw.odd(draw.pick([None, None, 0.02, 0.5]), 0.0, -1.0, float("nan")),
        variance=draw.odd(draw.pick(["full", "full", "rank1", "row"]), "diagonal"),
    )


def dtype_options(draw: Draw) -> Arguments:
    """Where and in which precision parameters lie."""
    dtypes = [None, None, None, torch.float32] + [torch.float64] * bool(draw.variety.odd)
    return dict(device=draw.pick([None, None, "cpu"]), dtype=draw.pick(dtypes))


def linear(draw: Draw, shape: Shape) -> Arguments:
    """On rows, if there are several axes."""
    features = draw.odd(shape[-1], shape[-1] + 1)
    return dict(in_features=features, out_features=draw.odd(draw.pick(WIDTHS), 0, -1), **weight_options(draw))


def _conv(rank: int) -> Maker:
    def convolution(draw: Draw, shape: Shape) -> Arguments | None:
        if len(shape) != rank + 1:
            return None
        kernel, dilation = _kernel(draw, shape[1:])
        stride = draw.odd(draw.pick([1, draw.per_axis(rank, 1, 3)]), 0, (1, 1, 1))
        groups, channels = _groups(draw, shape[0])
        return dict(
            in_channels=shape[0],
            out_channels=channels,
            kernel_size=draw.odd(kernel, 0, 99),
            stride=stride,
            padding=draw.odd(_padding(draw, shape[1:], kernel, stride, dilation), -1, "full"),
            dilation=draw.odd(dilation, 0),
            groups=draw.odd(groups, 0, shape[0] + 1),
            padding_mode=draw.odd("zeros", "reflect", "circular", "replicate"),
            **weight_options(draw),
        )

    return convolution


def _conv_transposed(rank: int) -> Maker:
    """Strides beyond the kernel, dilations that share a divisor with them or none, and all that may be cut or added."""

    def convolution(draw: Draw, shape: Shape) -> Arguments | None:
        if len(shape) != rank + 1:
            return None
        kernel = _each(draw.pick([2, 3, 4, draw.per_axis(rank, 1, 4)]), rank)
        stride = _each(draw.pick([2, 2, 1, draw.per_axis(rank, 1, 4)]), rank)
        dilation = _each(draw.pick([1, 1, draw.per_axis(rank, 1, 4)]), rank)
        spans = [(n - 1) * s + d * (k - 1) for n, s, d, k in zip(shape[1:], stride, dilation, kernel, strict=True)]
        groups, channels = _groups(draw, shape[0])
        options = {key: value for key, value in weight_options(draw).items() if key != "variance"}
        more = tuple(draw.integer(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True))
        return dict(
            in_channels=shape[0],
            out_channels=channels,
            kernel_size=draw.odd(kernel, 0),
            stride=draw.odd(stride, 0, (1, 1, 1)),
            padding=draw.odd(tuple(draw.integer(0, min(span // 2, 3)) for span in spans), -1, 99),
            output_padding=draw.odd(more, max(*stride, *dilation), -1),
            groups=draw.odd(groups, 0, shape[0] + 1),
            dilation=draw.odd(dilation, 0),
            padding_mode=draw.odd("zeros", "reflect"),
            **options,
        )

    return convolution


def _kernel(draw: Draw, spatial: Shape) -> tuple[Any, Any]:
    """A small kernel, or one that is larger than the input without its padding; and how far its taps are apart."""
    rank = len(spatial)
    if draw.chance(5):
        return max(spatial) + draw.integer(0, 2), 1
    kernel = draw.pick([1, 3, 3, draw.per_axis(rank, 1, 4)])
    return kernel, draw.pick([1, 1, draw.per_axis(rank, 1, 3)])


def _padding(draw: Draw, spatial: Shape, kernel: Any, stride: Any, dilation: Any) -> Any:
    """As much as the kernel needs to fit, at least; or a word, where torch's word means something for it."""
    rank = len(spatial)
    spans = [step * (extent - 1) for extent, step in zip(_each(kernel, rank), _each(dilation, rank), strict=True)]
    needed = [max(0, (span + 2 - extent) // 2) for span, extent in zip(spans, spatial, strict=True)]
    words = ["valid"] * (max(needed) == 0)
    words += ["same"] * (set(_each(stride, rank)) == {1} and not any(span % 2 for span in spans))
    if words and draw.chance(3):
        return draw.pick(words)
    if draw.flag():
        return max(needed) + draw.integer(0, 1)
    return tuple(amount + draw.integer(0, 2) for amount in needed)


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,) * rank


def _groups(draw: Draw, channels: int) -> tuple[int, int]:
    """Groups of channels, depthwise and one group oftenest, and how many come out."""
    groups = draw.pick([1, 1, 1, channels, channels, *(n for n in range(1, channels + 1) if channels % n == 0)])
    return groups, groups * draw.integer(1, 4) if groups > 1 else draw.pick(WIDTHS)


def _avg_pool(rank: int) -> Maker:
    def pool(draw: Draw, shape: Shape) -> Arguments | None:
        if len(shape) != rank + 1:
            return None
        kernel = draw.pick([2, draw.per_axis(rank, 1, 4)])
        extents = _each(kernel, rank)
        least = [max(0, (k - size + 1) // 2) for k, size in zip(extents, shape[1:], strict=True)]
        if any(2 * pad > k for k, pad in zip(extents, least, strict=True)):
            return None
        pads = tuple(draw.integer(low, max(low, k // 2)) for k, low in zip(extents, least, strict=True))
        return dict(
            kernel_size=draw.odd(kernel, 0, 50),
            stride=draw.odd(draw.pick([None, draw.per_axis(rank, 1, 3)]), 0),
            padding=draw.odd(pads if draw.flag() or len(set(pads)) > 1 else pads[0], -1, 3),
            ceil_mode=draw.flag(),
            count_include_pad=draw.flag(),
            correlated=draw.flag(),
        )

    return pool


def avg_pool_2d(draw: Draw, shape: Shape) -> Arguments | None:
    """With torch's other divisor."""
    found = _avg_pool(2)(draw, shape)
    return None if found is None else {**found, "divisor_override": draw.odd(None, 3)}


def _max_pool(rank: int) -> Maker:
    """As average pooling, with taps that may lie apart."""

    def pool(draw: Draw, shape: Shape) -> Arguments | None:
        found = _avg_pool(rank)(draw, shape)
        if found is None:
            return None
        given = {key: found[key] for key in ("kernel_size", "stride", "padding", "ceil_mode")}
        fits = all(size >= 7 for size in shape[1:])
        dilation = draw.odd(draw.pick([1, 2, draw.per_axis(rank, 1, 2)]) if fits else draw.pick([1, (1,) * rank]), 0)
        return dict(**given, dilation=dilation, return_indices=draw.odd(False, True))

    return pool


def _global_pool(rank: int) -> Maker:
    def pool(draw: Draw, shape: Shape) -> Arguments | None:
        sizes = (1, (1,) * rank)
        if len(shape) != rank + 1:
            return None
        return dict(output_size=draw.odd(draw.pick(sizes), 2, None), correlated=draw.flag())

    return pool


def _zero_pad(rank: int) -> Maker:
    def pad(draw: Draw, shape: Shape) -> Arguments | None:
        if len(shape) != rank + 1:
            return None
        return dict(padding=draw.odd(draw.per_axis(2 * rank, 0, 2), -1, (1, 2, 3)))

    return pad


def _upsample(rank: int | None, sized: bool = True) -> Maker:
    def copies(draw: Draw, shape: Shape) -> Arguments | None:
        axes = len(shape) - 1
        if axes not in draw.odd((1, 2), (3,)) or (rank is not None and axes != rank):
            return None
        factor = dict(scale_factor=draw.odd(draw.pick([1, 2, 3, draw.per_axis(axes, 1, 3)]), 0, 1.5))
        return {**factor, **(dict(size=draw.odd(None, 4)) if sized else {})}

    return copies


def upsample(draw: Draw, shape: Shape) -> Arguments | None:
    """Of all modes the one that copies."""
    found = _upsample(None)(draw, shape)
    if found is None:
        return None
    modes = dict(mode=draw.odd("nearest", "bilinear"), align_corners=draw.odd(None, True))
    return dict(**found, **modes, recompute_scale_factor=draw.pick([None, False, True]))


def inplace(arguments: Maker) -> Maker:
    """The same with torch's argument that changes nothing."""

    def drawn(draw: Draw, shape: Shape) -> Arguments | None:
        found = arguments(draw, shape)
        return None if found is None else {**found, "inplace": draw.odd(draw.flag(), 0.5)}

    return drawn


def dropout(draw: Draw, shape: Shape) -> Arguments | None:
    """It gives a variance to a value without one, which networks without any noise have not."""
    if not draw.variety.clamps:
        return None
    return dict(p=draw.odd(draw.pick([0.5, 0.1, 0.9]), 0.0, 1.0, float("nan")))


SLOPES = (0.01, 0.1, 0.0, 0.3, 0.5, 0.99, 1.0, 1e-4, 1e-9)


def leaky_relu(draw: Draw, shape: Shape) -> Arguments:
    return dict(negative_slope=draw.odd(draw.pick(SLOPES), -0.1, 1.5, float("nan")), **relu(draw, shape))


def relu(draw: Draw, shape: Shape) -> Arguments:
    clamps = [None, None, 0.5, 3.0, 0.01] if draw.variety.clamps else [None]
    return dict(clamp=draw.odd(draw.pick(clamps), 0.0, -1.0, float("nan")))


def piecewise(draw: Draw, shape: Shape) -> Arguments:
    """Functions that rise, that fall, and that do both, with pieces of very different lengths."""
    gaps = [draw.pick([2.0, 0.5, 6.0, 0.01, 30.0]) for _ in range(draw.integer(0, 3))]
    kinks = [sum(gaps[:i], start=draw.pick([0.0, -1.0, 0.3])) for i in range(len(gaps) + 1)]
    slopes = [draw.pick([0.0, 1.0, 0.1, -0.5, 2.0]) for _ in range(len(kinks) + 1)]
    wrong = [*kinks, kinks[-1]], [float("nan")], []
    return dict(kinks=draw.odd(kinks, *wrong), slopes=draw.odd(slopes, [1.0]), value=draw.pick([0.0, 1.0, -3.0]))


def hardtanh(draw: Draw, shape: Shape) -> Arguments:
    return dict(min_val=draw.pick([-1.0, 0.0, -0.1]), max_val=draw.odd(draw.pick([1.0, 6.0]), -2.0, float("nan")))


def clamp(draw: Draw, shape: Shape) -> Arguments:
    ends = draw.pick([(None, 1.0), (-0.5, None), (-0.5, 2.0), (0.0, 0.3)])
    return dict(min=draw.odd(ends[0], 3.0), max=draw.odd(ends[1], float("nan")))


def prelu(draw: Draw, shape: Shape) -> Arguments:
    init = draw.odd(draw.pick([0.25, -0.7, 1.8, 0.0, 1.0]), float("nan"))
    return dict(num_parameters=draw.odd(1, 3), init=init, **dtype_options(draw))


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "torch.sin": torch.sin,
    "torch.atan": torch.atan,
    "nn.functional.mish": torch.nn.functional.mish,
    "nn.functional.softsign": torch.nn.functional.softsign,
    "torch.square": torch.square,
    "torch.round": torch.round,
}


@dataclass(frozen=True)
class Function:
    """An argument that is a function, printed as code."""

    text: str

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return FUNCTIONS[self.text](x)

    def __repr__(self) -> str:
        return self.text


def tabulated(draw: Draw, shape: Shape) -> Arguments:
    """Functions that rise, fall, saturate and grow, with cells of several widths."""
    f = Function(draw.pick(["torch.sin", "torch.atan", "nn.functional.mish", "nn.functional.softsign", "torch.square"]))
    return dict(
        f=draw.odd(f, Function("torch.round"), 3.0),
        range=draw.odd(draw.pick([(-8.0, 8.0), (-3, 5), (-2.5, 2.2)]), (1.0, 1.0), (0.0, float("nan"))),
        cells=draw.odd(draw.pick([128, 64, 48]), 7, 2.5),
        name=draw.pick([None, "wave"]),
    )


def batch_norm(draw: Draw, shape: Shape) -> Arguments:
    return dict(
        num_features=draw.odd(shape[0], shape[0] + 1, 0, -1),
        eps=draw.odd(draw.pick([1e-5, 1e-3, 0.5]), -1e9, float("nan")),
        momentum=draw.odd(draw.pick([0.1, 0.5]), None),
        affine=draw.odd(True, False),
        track_running_stats=draw.odd(True, False),
        **dtype_options(draw),
    )


def varying(draw: Draw, shape: Shape) -> Shape:
    """A shape that broadcasts over another: one for each element, channel or place of the last axis, or any mixture."""
    mixed = tuple(draw.pick([1, extent]) for extent in shape)
    return draw.pick([shape, (shape[0],) + (1,) * (len(shape) - 1), shape[-1:], mixed, (1,), ()])


def known(draw: Draw, shape: Shape, low: float, high: float, share: float = 1.0) -> Any:
    """A number, or numbers that vary over a shape."""
    if draw.chance(4):
        return draw.pick([0.5 * (low + high) + 0.25, high, int(high + 1)])
    return Numbers(varying(draw, shape), low, high, draw.seed(), share)


def affine(draw: Draw, shape: Shape) -> Arguments:
    """Scales of both signs, some of them zero; shifts of which some, all or none are zero."""
    scale = known(draw, shape, *draw.pick([(0.5, 1.5), (-1.5, 1.5), (-30.0, 30.0)]), draw.pick([1.0, 1.0, 0.7]))
    wrong = Numbers((2, *shape), 0.5, 1.5, 0), Numbers((shape[-1] + 1,), 0.5, 1.5, 0), float("nan")
    shift = known(draw, shape, -1.0, 1.0, draw.pick([1.0, 0.5, 0.0]))
    return dict(scale=draw.odd(scale, *wrong), **({} if draw.chance(4) else dict(shift=shift)))


def standardize(draw: Draw, shape: Shape) -> Arguments:
    std = known(draw, shape, *draw.pick([(0.5, 2.0), (0.01, 30.0)]))
    return dict(mean=known(draw, shape, -2.0, 2.0), std=draw.odd(std, 0.0, Numbers(shape, 0.5, 1.0, 1, 0.5)))


def constant(draw: Draw, shape: Shape) -> Arguments:
    return dict(value=Numbers(shape, *draw.pick([(-1.0, 1.0), (0.0, 20.0)]), draw.seed(), draw.pick([1.0, 0.5])))


def variance_head(draw: Draw, shape: Shape) -> Arguments | None:
    """Half of the features give noise: their number is even, and networks without any noise have none."""
    return {} if draw.variety.clamps and draw.odd(shape[0] % 2 == 0, True) else None


def flatten(draw: Draw, shape: Shape) -> Arguments | None:
    """Seldom, as nothing has axes any more behind it."""
    return dict(start_dim=draw.odd(1, 0, 2), end_dim=draw.odd(-1, 1)) if draw.chance(3) else None


def plain(draw: Draw, shape: Shape) -> Arguments:
    return {}


def gelu(draw: Draw, shape: Shape) -> Arguments:
    return dict(approximate=draw.odd(draw.pick(["none", "tanh"]), "erf"))


def softplus(draw: Draw, shape: Shape) -> Arguments:
    betas, thresholds = draw.pick([1.0, 1.0, 0.2, 8]), draw.pick([20.0, 20, 30.0])
    return dict(beta=draw.odd(betas, 0.0, -1.0, float("nan")), threshold=draw.odd(thresholds, 1.0, float("nan")))


def elu(draw: Draw, shape: Shape) -> Arguments:
    sizes = dict(
        beta=draw.odd(draw.pick([1.0, 1.0, 0.3, 4]), 0.0), scale=draw.odd(draw.pick([1.0, 1.0, 1.05, 2]), -1.0)
    )
    return dict(alpha=draw.odd(draw.pick([1.0, 1.0, 0.0, 0.2, 1.7, 6]), -1.0, float("nan")), **sizes)


def celu(draw: Draw, shape: Shape) -> Arguments:
    return dict(alpha=draw.odd(draw.pick([1.0, 0.2, 3]), 0.0, -1.0, float("nan")))


def softmax_head(draw: Draw) -> Arguments:
    """Of any logits: those that do not fit are refused."""
    return dict(kind=draw.odd(draw.pick(["exact", "fast"]), "slow"))


LAYERS: dict[str, Maker] = {
    "Linear": linear,
    "Conv1d": _conv(1),
    "Conv2d": _conv(2),
    "ConvTranspose1d": _conv_transposed(1),
    "ConvTranspose2d": _conv_transposed(2),
    "LeakyReLU": inplace(leaky_relu),
    "ReLU": inplace(relu),
    "Abs": plain,
    "Piecewise": piecewise,
    "Hardtanh": inplace(hardtanh),
    "Hardsigmoid": inplace(plain),
    "Hardswish": inplace(plain),
    "ReLU6": inplace(plain),
    "Clamp": clamp,
    "PReLU": prelu,
    "Sigmoid": plain,
    "Tanh": plain,
    "SiLU": inplace(plain),
    "GELU": gelu,
    "Softplus": softplus,
    "ELU": inplace(elu),
    "CELU": inplace(celu),
    "SELU": inplace(plain),
    "Pointwise": tabulated,
    "AvgPool1d": _avg_pool(1),
    "AvgPool2d": avg_pool_2d,
    "MaxPool1d": _max_pool(1),
    "MaxPool2d": _max_pool(2),
    "AdaptiveAvgPool1d": _global_pool(1),
    "AdaptiveAvgPool2d": _global_pool(2),
    "ZeroPad1d": _zero_pad(1),
    "ZeroPad2d": _zero_pad(2),
    "Upsample": upsample,
    "UpsampleNearest": _upsample(None, sized=False),
    "UpsamplingNearest2d": _upsample(2),
    "Dropout": inplace(dropout),
    "BatchNorm": batch_norm,
    "BatchNorm1d": batch_norm,
    "BatchNorm2d": batch_norm,
    "Affine": affine,
    "Standardize": standardize,
    "VarianceHead": variance_head,
    "Flatten": flatten,
    "Identity": plain,
    "Constant": constant,
}
"""The layers of one input. Add, Multiply, Concat and Sequential are those of several: see network_choices."""

COMMON = ("LeakyReLU", "LeakyReLU", "Affine", "BatchNorm", "Linear")
OFTEN = {
    1: (*COMMON, "Linear", "Linear"),
    2: (*COMMON, *["Conv1d"] * 6, *["AvgPool1d"] * 3, "MaxPool1d", "ZeroPad1d"),
    3: (*COMMON, *["Conv2d"] * 6, *["AvgPool2d"] * 3, "MaxPool2d", "ZeroPad2d"),
}
"""By the number of axes, what is drawn more often than the others: layers of which passes and kernels decide most."""


def too_large(shape: Shape) -> bool:
    """More than is cheap to run everywhere."""
    return prod(shape) > 400 or (len(shape) > 1 and shape[0] > 17)
