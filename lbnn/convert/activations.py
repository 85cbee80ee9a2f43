"""Activations of torch that are no layer of lbnn by name: what each of them becomes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch.nn.functional as F
from torch import nn

import lbnn.nn as bnn
from lbnn.base.errors import LbnnError

Functions = Mapping[type[nn.Module], Any]
"""For a class of activations a function of a tensor, or the Pointwise that stands for it."""


@lru_cache
def _mish() -> bnn.Pointwise:
    """Beyond -16 mish is 0 to 2e-6, beyond 8 the identity to 1e-6."""
    return bnn.Pointwise(F.mish, range=(-16.0, 8.0), cells=192)


@lru_cache
def _tanhshrink() -> bnn.Pointwise:
    """Beyond 8 tanh is 1 to 2e-7."""
    return bnn.Pointwise(F.tanhshrink)


def _log_sigmoid(module: nn.Module) -> nn.Module:
    """-softplus(-x)."""
    return bnn.Sequential(bnn.Affine(-1.0), bnn.Softplus(), bnn.Affine(-1.0))


def _softshrink(module: Any) -> nn.Module:
    """x moved towards zero by l, and 0 within l of it: exact."""
    size = float(module.lambd)
    return bnn.Piecewise((-size, size), (1.0, 0.0, 1.0)) if size > 0.0 else nn.Identity()


ACTIVATIONS: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    nn.Mish: lambda module: copy.deepcopy(_mish()),
    nn.Tanhshrink: lambda module: copy.deepcopy(_tanhshrink()),
    nn.LogSigmoid: _log_sigmoid,
    nn.Softshrink: _softshrink,
}
"""By the class of torch."""


def given_activation(module: nn.Module, functions: Functions) -> nn.Module | None:
    """The layer that someone gave for modules of this class, if there is one."""
    given = functions.get(type(module))
    if given is None or isinstance(given, bnn.Pointwise):
        return copy.deepcopy(given)
    if isinstance(given, type) or not callable(given):
        raise LbnnError(f"pointwise takes a function or a Pointwise for {type(module).__name__}, got {given!r:.50}")
    return bnn.Pointwise(given)
