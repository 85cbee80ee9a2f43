"""A network as data: layers with their arguments and the steps that call them, to be built, counted and printed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import lbnn
from lbnn import nn as bnn
from lbnn.ops import Shape


def numbers(shape: tuple[int, ...], low: float, high: float, seed: int, share: float = 1.0) -> Tensor:
    """Random numbers that are always the same; only a share of them is not zero."""
    generator = torch.Generator().manual_seed(seed)
    values = low + (high - low) * torch.rand(shape, generator=generator)
    return values * (torch.rand(shape, generator=generator) < share)


def weigh(module: nn.Module, seed: int, size: float, sigma: float | None = None, share: float = 1.0) -> nn.Module:
    """Random weights and statistics of a size; a share of the weights gets a sigma, of at most `sigma` times the size.

    Without `sigma` they keep those that they were made with.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        part, bound = name.split(".")[-1], size / max(1, tensor[:1].numel() if tensor.ndim else 1) ** 0.5
        uniform = torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
        some = torch.rand(tensor.shape, generator=generator) < share
        if part in ("weight_mu", "bias_mu", "running_mean", "bias") or (part == "weight" and tensor.ndim > 1):
            tensor.data.copy_(bound * (2.0 * uniform - 1.0))
        elif part == "running_var":
            tensor.data.copy_(bound**2 * (0.1 + uniform))
        elif part == "weight":
            tensor.data.copy_(0.5 + uniform)
        elif part == "weight_column_rho":  # a factor beside that of the row, which has the size
            tensor.data.copy_(torch.log(torch.expm1(0.3 + 1.7 * uniform)))
        elif part.endswith("_rho") and sigma is not None:
            sigmas = (sigma * size * (0.1 + 0.9 * uniform)).clamp_min(1e-30)
            tensor.data.copy_((sigmas + torch.log(-torch.expm1(-sigmas))).where(some & (sigma > 0.0), -200.0))
    return module


@dataclass(frozen=True)
class Numbers:
    """An argument that is a tensor: what `numbers` is called with."""

    shape: Shape
    low: float
    high: float
    seed: int
    share: float = 1.0

    def __repr__(self) -> str:
        last = "" if self.share == 1.0 else f", {self.share}"
        return f"numbers({self.shape}, {self.low}, {self.high}, {self.seed}{last})"

    def value(self) -> Tensor:
        return numbers(self.shape, self.low, self.high, self.seed, self.share)


@dataclass(frozen=True)
class Part:
    """A layer: its class in lbnn.nn (bnn) or torch.nn (nn), its arguments, and how its weights are drawn.

    `inner` are the layers of a Sequential; `converted` is what `from_torch` is called with.
    """

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inner: tuple[Part, ...] = ()
    weights: Mapping[str, Any] | None = None
    converted: Mapping[str, Any] | None = None

    def build(self) -> nn.Module:
        space, name = self.kind.split(".")
        made = getattr({"bnn": bnn, "nn": nn}[space], name)
        module: nn.Module = made(*(part.build() for part in self.inner), **_values(self.arguments))
        if self.weights is not None:
            module = weigh(module, **self.weights)
        return module if self.converted is None else lbnn.from_torch(module, **self.converted)

    def __repr__(self) -> str:
        text = f"{self.kind}({', '.join([*map(repr, self.inner), *_keywords(self.arguments)])})"
        if self.weights is not None:
            text = f"weigh({', '.join([text, *_keywords(self.weights)])})"
        return text if self.converted is None else f"lbnn.from_torch({', '.join([text, *_keywords(self.converted)])})"

    def parts(self) -> Iterator[Part]:
        """This one and those inside."""
        yield self
        for part in self.inner:
            yield from part.parts()


def _values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.value() if isinstance(value, Numbers) else value for key, value in arguments.items()}


def _keywords(arguments: Mapping[str, Any]) -> list[str]:
    return [f"{key}={value!r}" for key, value in arguments.items()]


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "{0} + {1}": operator.add,
    "{0} - {1}": operator.sub,
    "{1} - {0}": lambda x, y: y - x,
    "-{0}": operator.neg,
    "{0} * {1}": operator.mul,
    "{1} * {0}": lambda x, y: y * x,
    "{0} / {1}": operator.truediv,
    "{0}.flatten(1)": lambda x: x.flatten(1),
    "{0}.flatten(1, -1)": lambda x: x.flatten(1, -1),
    "{0}.flatten(2)": lambda x: x.flatten(2),
    "bnn.cat([{0}, {1}], {2})": lambda x, y, dim: bnn.cat([x, y], dim),
    "lbnn.cat(({0}, {1}, {0}), dim={2})": lambda x, y, dim: lbnn.cat((x, y, x), dim=dim),
}
"""What a forward may write besides calls of layers: {0}, {1} are the step's values, then its operand."""


@dataclass(frozen=True)
class Step:
    """A call of the layer of this number, or an expression; `inputs` are numbers of values, 0 is the input's."""

    call: int | str
    inputs: tuple[int, ...]
    operand: Any = None

    def text(self) -> str:
        names = [f"v{number}" for number in self.inputs]
        if isinstance(self.call, int):
            return f"self.layers[{self.call}]({', '.join(names)})"
        return self.call.format(*names, *([] if self.operand is None else [repr(self.operand)]))

    def run(self, layers: nn.ModuleList, values: list[Any]) -> Any:
        given = [values[number] for number in self.inputs]
        if isinstance(self.call, int):
            return layers[self.call](*given)
        operand = self.operand.value() if isinstance(self.operand, Numbers) else self.operand
        return EXPRESSIONS[self.call](*given, *([] if operand is None else [operand]))


@dataclass(frozen=True)
class Recipe:
    """A network and its input shape, without the batch axis. The last step gives the output."""

    shape: Shape
    layers: tuple[Part, ...]
    steps: tuple[Step, ...]
    input_variance: bool = False

    def build(self) -> RandomNetwork:
        return RandomNetwork(self).eval()

    def parts(self) -> Iterator[Part]:
        """Every layer that is used, those inside of others too."""
        for number in sorted({step.call for step in self.steps if isinstance(step.call, int)}):
            yield from self.layers[number].parts()


class RandomNetwork(nn.Module):
    """The network of a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.layers = nn.ModuleList(part.build() for part in recipe.layers)

    def forward(self, x: Any) -> Any:
        values = [x]
        for step in self.recipe.steps:
            values.append(step.run(self.layers, values))
        return values[-1]

    def __repr__(self) -> str:
        return f"RandomNetwork({self.recipe!r})"
