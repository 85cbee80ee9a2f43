"""The module that a model file becomes: ordinary layers and the wiring between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

import lbnn.nn as bnn
from lbnn.graph import INPUT
from lbnn.nn import structure
from lbnn.nn.base import BayesianLayer, Layer, Signal
from lbnn.ops import Shape


@dataclass(frozen=True)
class Step:
    """One call: the layer's number, the values that it takes, the name of its result."""

    name: str
    layer: int
    inputs: tuple[str, ...]


class Network(nn.Module):
    """A saved model: it computes, trains, is traced and saved like the module that was saved."""

    def __init__(
        self,
        layers: Sequence[Layer],
        steps: Sequence[Step],
        output: str,
        input_shape: Shape,
        model_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.steps, self.output, self.input_shape = tuple(steps), output, input_shape
        self.model_name, self.metadata = model_name, dict(metadata or {})

    def forward(self, x: Signal) -> Signal:
        """Runs the steps in order on a tensor, Moments or a trace."""
        values = {INPUT: x}
        for step in self.steps:
            values[step.name] = self._call(step, x, [values[name] for name in step.inputs])
        return values[self.output]

    def _call(self, step: Step, x: Signal, inputs: list[Signal]) -> Signal:
        """One step; a layer without inputs (a constant) is told the batch by `x`."""
        layer = self.layers[step.layer]
        if hasattr(x, "record_layer"):
            return x.record_layer(layer, inputs, step.name)
        return layer(*(inputs or [x]))

    def __getitem__(self, name: str) -> Layer:
        """The layer behind the node called `name`."""
        return {step.name: self.layers[step.layer] for step in self.steps}[name]  # type: ignore[return-value]


TRAINED = {f"{name}_{part}" for name in ("weight", "bias") for part in ("mu", "rho")} | {"weight", "bias"}
"""The tensors of a layer that are parameters; the others are buffers."""


def build_layer(op: str, attrs: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    """The layer of an operator; `tensors` become its parameters and buffers, not copies of them."""
    layer = LAYERS[op](dict(attrs), tensors)
    for name, tensor in tensors.items():
        setattr(layer, name, tensor)
    return layer


def _linear(attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    out_features, in_features = tensors["weight_mu"].shape
    return bnn.Linear(in_features, out_features, "bias_mu" in tensors, device="meta")


def _conv(attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    kind: type[BayesianLayer] = bnn.Conv1d if tensors["weight_mu"].ndim == 3 else bnn.Conv2d
    channels, group, *kernel = tensors["weight_mu"].shape
    return kind(group * attrs["groups"], channels, tuple(kernel), bias="bias_mu" in tensors, device="meta", **attrs)


def _avg_pool(attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    return bnn.AvgPool1d(**attrs) if len(attrs["kernel_size"]) == 1 else bnn.AvgPool2d(**attrs)


def _pad(attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    amounts = tuple(amount for pair in reversed(attrs["padding"]) for amount in pair)
    return bnn.ZeroPad1d(amounts) if len(amounts) == 2 else bnn.ZeroPad2d(amounts)


LAYERS: dict[str, Callable[[dict[str, Any], Mapping[str, Tensor]], Layer]] = {
    "linear": _linear,
    "conv": _conv,
    "avg_pool": _avg_pool,
    "pad": _pad,
    "leaky_relu": lambda attrs, tensors: bnn.LeakyReLU(**attrs),
    "leaky_relu_clamped": lambda attrs, tensors: bnn.LeakyReLU(**attrs),
    "affine": lambda attrs, tensors: bnn.Affine(0.0),
    "batch_norm": lambda attrs, tensors: bnn.BatchNorm(len(tensors["weight"]), **attrs),
    "constant": lambda attrs, tensors: bnn.Constant(0.0),
    "lift": lambda attrs, tensors: structure.Lift(),
    "flatten": lambda attrs, tensors: bnn.Flatten(),
    "add": lambda attrs, tensors: bnn.Add(),
    "shift": lambda attrs, tensors: bnn.Add(),
    "concat": lambda attrs, tensors: bnn.Concat(attrs["axis"] + 1),
    "variance_head": lambda attrs, tensors: bnn.VarianceHead(),
}
"""How each operator of a file becomes a layer again; attributes and shapes have been checked by then."""
