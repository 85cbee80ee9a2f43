"""Layers that move and combine values without computing on each: flatten, pad, add, concatenate, constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.base import Layer, Signal
from lbnn.nn.symbolic import fx_tracer
from lbnn.nn.weighted import IntOrTuple, per_axis
from lbnn.ops import Shape


class Flatten(Layer):
    """All axes behind the batch axis made one: torch's layer with its usual arguments."""

    op = "flatten"

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        if (start_dim, end_dim) != (1, -1):
            raise LbnnError("only Flatten(1, -1), all axes but the batch, is supported")


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

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """Amounts in torch's order; as many axes as there are pairs."""
        amounts = tuple(amount for pair in reversed(attrs["padding"]) for amount in pair)
        return ZeroPad1d(amounts) if len(amounts) == 2 else ZeroPad2d(amounts)


class ZeroPad1d(_ZeroPad):
    """`torch.nn.ZeroPad1d`."""

    counterpart = nn.ZeroPad1d
    rank = 1


class ZeroPad2d(_ZeroPad):
    """`torch.nn.ZeroPad2d`."""

    counterpart = nn.ZeroPad2d
    rank = 2


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

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """The axis, counted with the batch axis."""
        return cls(attrs["axis"] + 1)


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

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """Any value: that of the file takes its place."""
        return cls(0.0)

    def run(self, *inputs: Signal) -> Signal:
        """As many copies as the batch has samples."""
        (x,) = inputs
        return self.value.expand(x.shape[0], *self.value.shape)


class Lift(Layer):
    """A known value as Moments: variance zero."""

    op = "lift"


def cat(values: list[Signal] | tuple[Signal, ...], dim: int = 1) -> Signal:
    """`torch.cat` for tensors and Moments."""
    if fx_tracer(values) is None:
        return Concat(dim)(*values)
    if not any(isinstance(value, Moments) for value in values):
        return torch.cat(list(values), dim)
    pairs = [tuple(value) if isinstance(value, Moments) else (value, value * 0.0) for value in values]
    return Moments(*(torch.cat(parts, dim) for parts in zip(*pairs, strict=True)))
