"""Random networks for property tests: mixed operators, sums and differences, concatenation, constants, odd geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.graph.reference import predict
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors
from lbnn.measure.samples import Samples
from lbnn.model.file import Model
from lbnn.ops import Shape, find

JOINS: dict[str, Any] = {
    "": lambda x, y, axis: y,
    "add": lambda x, y, axis: x + y,
    "sub": lambda x, y, axis: x - y,
    "rsub": lambda x, y, axis: y - x,
    "cat": lambda x, y, axis: bnn.cat([x, y], axis + 1),
}


@dataclass(frozen=True)
class Step:
    """A layer, and how its result meets its input; `axis` is that of a concatenation."""

    layer: nn.Module
    join: str = ""
    axis: int = 0


class RandomNetwork(nn.Module):
    """Steps in a row; a step may add its input to its result, subtract one from the other or put both side by side."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(step.layer for step in steps)
        self.joins = [(step.join, step.axis) for step in steps]

    def forward(self, x: Any) -> Any:
        for layer, (join, axis) in zip(self.layers, self.joins, strict=True):
            x = JOINS[join](x, layer(x), axis)
        return x


INPUTS: list[Shape] = [(1,), (3,), (6,), (2, 7), (1, 9), (2, 3), (3, 1), (1, 5, 6), (3, 6, 6), (2, 4, 7), (2, 1, 1)]


@st.composite
def networks(
    draw: Any, most_layers: int = 6, constant_outputs: bool = False, clamps: bool = True
) -> tuple[nn.Module, Shape]:
    """A network with random weights, in eval mode, and its input shape without the batch axis.

    With `constant_outputs` one in eight gives the same known numbers whatever its input is. A clamped activation gives
    a variance to a value without one: networks of certain weights are ordinary ones only without `clamps`.
    """
    torch.manual_seed(draw(st.integers(0, 2**20), label="seed"))
    shape: Shape = draw(st.sampled_from(INPUTS), label="input")
    first, steps = shape, []
    for _ in range(draw(st.integers(1, most_layers), label="layers")):
        step, shape = draw(_step(shape, steps))
        steps.append(step)
    if len(shape) > 1 and draw(st.booleans(), label="head"):
        steps.append(Step(bnn.Flatten()))
        steps.append(Step(bnn.Linear(torch.Size(shape).numel(), 2)))
        shape = (2,)
    constant = constant_outputs and draw(st.integers(0, 7), label="constant") == 0
    ending = [_constant(shape), bnn.LeakyReLU(0.3)][: draw(st.integers(1, 2))] if constant else [_last(shape)]
    model = RandomNetwork([*steps, *map(Step, ending)])
    for layer in model.modules():
        if isinstance(layer, bnn.LeakyReLU) and not clamps:
            layer.clamp = None
    known = {step.layer for step in steps if draw(st.integers(0, 4), label="certain weights") == 0}
    _randomize(model, known)
    return model.eval(), first


def _last(shape: Shape) -> nn.Module:
    """A layer with weights at the end, so that the output has a variance whatever came before."""
    return bnn.Linear(shape[-1], 2) if len(shape) == 1 else _conv(shape, 2, 1)


@st.composite
def _step(draw: Any, shape: Shape, steps: list[Step]) -> tuple[Step, Shape]:
    maker = draw(st.sampled_from(_VECTOR if len(shape) == 1 else _SPATIAL), label="step")
    layer = draw(maker(shape))
    same = [step.layer for step in steps if _fits(step.layer, shape)]
    if same and draw(st.booleans(), label="shared"):
        layer = draw(st.sampled_from(same))
    result = _shape_after(layer, shape)
    meets = isinstance(layer, (bnn.BayesianLayer, bnn.Constant))
    joins = ["" if not isinstance(layer, bnn.Constant) else "add"]
    joins += ["add", "sub", "rsub"] if meets and result == shape else []
    axes = [axis for axis in range(len(shape)) if _without(result, axis) == _without(shape, axis) and shape[axis] < 8]
    joins += ["cat"] if meets and axes else []
    join = draw(st.sampled_from(joins), label="join")
    if join != "cat":
        return Step(layer, join), result
    axis = draw(st.sampled_from(axes), label="axis")
    return Step(layer, join, axis), (*shape[:axis], shape[axis] + result[axis], *shape[axis + 1 :])


def _without(shape: Shape, axis: int) -> Any:
    return None if len(shape) <= axis else (len(shape), *shape[:axis], *shape[axis + 1 :])


def _fits(layer: Any, shape: Shape) -> bool:
    """Whether a layer with weights takes this shape too, so that it can be used once more."""
    if not isinstance(layer, bnn.BayesianLayer):
        return False
    try:
        _shape_after(layer, shape)
    except LbnnError:
        return False
    return True


def _shape_after(layer: Any, shape: Shape) -> Shape:
    params = {key: tuple(value.shape) for key, value in layer.op_params().items()}
    inputs = () if isinstance(layer, bnn.Constant) else (shape,)
    return find(layer.op_name()).shape(*inputs, **params, **layer.attrs(shape))


@st.composite
def _linear(draw: Any, shape: Shape) -> nn.Module:
    return bnn.Linear(shape[0], draw(st.integers(1, 7)), bias=draw(st.booleans()))


@st.composite
def _convolution(draw: Any, shape: Shape) -> nn.Module:
    extent = draw(st.integers(1, min(3, *shape[1:])))
    kind = draw(st.sampled_from(["plain", "depthwise", "same", "odd", "large"]))
    if kind == "large":  # than the input, but for its padding
        extent = max(shape[1:]) + draw(st.integers(0, 2))
        return _conv(shape, 2, extent, padding=(extent + 1) // 2, bias=draw(st.booleans()))
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
    extent = draw(st.integers(1, min(4, 1 + min(shape[1:]))))
    needed = max(0, extent - min(shape[1:]))
    options = dict(
        stride=draw(st.integers(1, 3)),
        padding=draw(st.integers(needed, max(needed, extent // 2))),
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
    return bnn.Abs() if slope is None else bnn.LeakyReLU(slope, draw(st.sampled_from([None, None, 0.5, 3.0])))


@st.composite
def _norm(draw: Any, shape: Shape) -> nn.Module:
    if draw(st.booleans()):
        return bnn.BatchNorm(shape[0])
    scale, shift = (torch.empty(draw(_varying(shape))) for _ in range(2))
    scale.uniform_(0.5, 1.5).mul_(torch.randint_like(scale, 2) * 2 - 1)
    return bnn.Affine(scale, shift.normal_().mul_(torch.randint_like(shift, 2)))


@st.composite
def _varying(draw: Any, shape: Shape) -> Shape:
    """A shape that broadcasts over another: a number, one for each channel, element or place of the last axis, ..."""
    mixed = tuple(draw(st.sampled_from([1, extent])) for extent in shape)
    return draw(st.sampled_from([(), shape, shape[-1:], (shape[0],) + (1,) * (len(shape) - 1), mixed]))


def _constant(shape: Shape) -> nn.Module:
    return bnn.Constant(torch.randn(shape))


def _constants(shape: Shape) -> Any:
    return st.builds(lambda: _constant(shape))


def _global_pool(shape: Shape) -> Any:
    return st.just(bnn.AdaptiveAvgPool1d(1) if len(shape) == 2 else bnn.AdaptiveAvgPool2d(1))


_VECTOR = [_linear, _linear, _activation, _activation, _norm, _norm, _constants]
_SPATIAL = [_convolution, _convolution, _activation, _activation, _pool, _pad, _norm, _norm, _global_pool, _constants]


def _randomize(model: nn.Module, known: set[nn.Module]) -> None:
    """Running statistics and sigmas that differ from the initial ones; `known` layers have no sigma at all."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, bnn.BatchNorm):
                module.running_mean.normal_()
                module.running_var.uniform_(0.3, 2.0)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_()
            if isinstance(module, bnn.BayesianLayer):
                for _, _, rho in module.named_gaussians():
                    rho.fill_(-200.0) if module in known else rho.uniform_(-4.0, -0.5)


def inputs_for(shape: Shape, count: int, seed: int) -> Tensor:
    """Ordinary inputs, large ones, zeros and single spikes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *shape, generator=generator)
    x[1::4] *= 10.0
    x[2::8] = 0.0
    x[3::8] = 0.0
    x.view(count, -1)[3::8, 0] = 5.0
    return x


def well_conditioned(model: Model, samples: Samples) -> Any:
    """Which samples float32 can answer: the exact answer moves little when every input moves by half a float32 step.

    A sum of inputs of size 1e6 that nearly cancel, with no variance yet, is lost in float32 whoever computes it.
    """
    rng, exact = np.random.default_rng(5), predict(model.graph, samples.mean, samples.var)
    moved = [samples.mean * (1.0 + 2.0**-24 * rng.choice([-1.0, 1.0], samples.mean.shape)) for _ in range(4)]
    gaps = [errors(Outcome(*predict(model.graph, x, samples.var)), exact) for x in moved]
    return np.max([np.maximum(*gap).max(axis=1) for gap in gaps], axis=0) <= FLOAT32_TOLERANCE / 8
