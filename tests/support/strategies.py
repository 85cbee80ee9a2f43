"""Random networks for property tests: mixed operators, residual sums, concatenation, depthwise, odd paddings."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from lbnn import nn as bnn
from lbnn.ops import Shape, find


class RandomNetwork(nn.Module):
    """Steps in a row; a step may add its input to its result or put both side by side."""

    def __init__(self, steps: list[tuple[nn.Module, str]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer for layer, _ in steps)
        self.joins = [join for _, join in steps]

    def forward(self, x: Any) -> Any:
        for layer, join in zip(self.layers, self.joins, strict=True):
            y = layer(x)
            x = {"": lambda x, y: y, "add": lambda x, y: x + y, "cat": lambda x, y: bnn.cat([x, y])}[join](x, y)
        return x


@st.composite
def networks(draw: Any, most_layers: int = 6) -> tuple[nn.Module, Shape]:
    """A network with random weights, in eval mode, and its input shape without the batch axis."""
    torch.manual_seed(draw(st.integers(0, 2**20), label="seed"))
    shape: Shape = draw(
        st.sampled_from([(1,), (3,), (6,), (2, 7), (1, 9), (1, 5, 6), (3, 6, 6), (2, 4, 7)]), label="input"
    )
    first, steps = shape, []
    for _ in range(draw(st.integers(1, most_layers), label="layers")):
        layer, join, shape = draw(_step(shape))
        steps.append((layer, join))
    if len(shape) > 1 and draw(st.booleans(), label="head"):
        steps.append((bnn.Flatten(), ""))
        steps.append((bnn.Linear(torch.Size(shape).numel(), 2), ""))
        shape = (2,)
    model = RandomNetwork([*steps, (_last(shape), "")])
    _randomize(model)
    return model.eval(), first


def _last(shape: Shape) -> nn.Module:
    """A layer with weights at the end, so that the output has a variance whatever came before."""
    return bnn.Linear(shape[-1], 2) if len(shape) == 1 else _conv(shape, 2, 1)


@st.composite
def _step(draw: Any, shape: Shape) -> tuple[nn.Module, str, Shape]:
    maker = draw(st.sampled_from(_VECTOR if len(shape) == 1 else _SPATIAL), label="step")
    layer = draw(maker(shape))
    result = _shape_after(layer, shape)
    joins = [""] + (["add"] if result == shape else []) + (["cat"] if result[1:] == shape[1:] and shape[0] < 8 else [])
    join = draw(st.sampled_from(joins), label="join") if isinstance(layer, bnn.BayesianLayer) else ""
    return layer, join, (result[0] + shape[0], *shape[1:]) if join == "cat" else result


def _shape_after(layer: Any, shape: Shape) -> Shape:
    params = {key: tuple(value.shape) for key, value in layer.op_params().items()}
    return find(layer.op_name()).shape(shape, **params, **layer.attrs(shape))


@st.composite
def _linear(draw: Any, shape: Shape) -> nn.Module:
    return bnn.Linear(shape[0], draw(st.integers(1, 7)), bias=draw(st.booleans()))


@st.composite
def _convolution(draw: Any, shape: Shape) -> nn.Module:
    extent = draw(st.integers(1, min(3, *shape[1:])))
    kind = draw(st.sampled_from(["plain", "depthwise", "same", "odd"]))
    if kind == "depthwise":
        return _conv(shape, shape[0] * draw(st.integers(1, 2)), extent, padding=extent // 2, groups=shape[0])
    if kind == "same":
        return _conv(shape, draw(st.sampled_from([shape[0], 3])), 3, padding=1)
    if kind == "odd":
        return _conv(
            shape,
            2,
            2,
            stride=draw(st.integers(1, 2)),
            padding=draw(st.integers(1, 3)),
            dilation=draw(st.integers(1, 2)),
        )
    return _conv(shape, draw(st.integers(1, 5)), extent, bias=draw(st.booleans()))


def _conv(shape: Shape, out: int, extent: int, **options: Any) -> nn.Module:
    return (bnn.Conv1d if len(shape) == 2 else bnn.Conv2d)(shape[0], out, extent, **options)


@st.composite
def _pool(draw: Any, shape: Shape) -> nn.Module:
    extent = draw(st.integers(1, min(3, *shape[1:])))
    options = dict(
        stride=draw(st.integers(1, 3)),
        padding=draw(st.integers(0, extent // 2)),
        ceil_mode=draw(st.booleans()),
        count_include_pad=draw(st.booleans()),
    )
    return (bnn.AvgPool1d if len(shape) == 2 else bnn.AvgPool2d)(extent, **options)


@st.composite
def _pad(draw: Any, shape: Shape) -> nn.Module:
    amounts = tuple(draw(st.integers(0, 2)) for _ in range(2 * (len(shape) - 1)))
    return (bnn.ZeroPad1d if len(shape) == 2 else bnn.ZeroPad2d)(amounts)


@st.composite
def _activation(draw: Any, shape: Shape) -> nn.Module:
    slope = draw(st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0, None]))
    return bnn.Abs() if slope is None else bnn.LeakyReLU(slope)


@st.composite
def _norm(draw: Any, shape: Shape) -> nn.Module:
    per_channel = (shape[0],) + (1,) * (len(shape) - 1)
    affine = bnn.Affine(0.5 + torch.rand(per_channel), torch.randn(per_channel) if draw(st.booleans()) else 0.0)
    return draw(st.sampled_from([bnn.BatchNorm(shape[0]), affine]))


def _global_pool(shape: Shape) -> Any:
    return st.just(bnn.AdaptiveAvgPool1d(1) if len(shape) == 2 else bnn.AdaptiveAvgPool2d(1))


_VECTOR = [_linear, _linear, _activation, _activation, _norm]
_SPATIAL = [_convolution, _convolution, _activation, _activation, _pool, _pad, _norm, _global_pool]


def _randomize(model: nn.Module) -> None:
    """Running statistics and sigmas that differ from the initial ones."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, bnn.BatchNorm):
                module.running_mean.normal_()
                module.running_var.uniform_(0.3, 2.0)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_()
            if isinstance(module, bnn.BayesianLayer):
                for _, _, rho in module.named_gaussians():
                    rho.uniform_(-4.0, -0.5)


def inputs_for(shape: Shape, count: int, seed: int) -> Tensor:
    """Ordinary inputs, large ones, zeros and single spikes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *shape, generator=generator)
    x[1::4] *= 10.0
    x[2::8] = 0.0
    x[3::8] = 0.0
    x.view(count, -1)[3::8, 0] = 5.0
    return x
