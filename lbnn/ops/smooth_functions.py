"""The smooth activations: value and slope of each by any namespace, and the lines that it tends to.

Everything is made of q = e^-|x| / (1 + e^-|x|), the logistic function on its small side, or of the normal tail: values
and slopes keep their relative accuracy where they vanish, because the variance behind a saturated unit is made of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from lbnn.ops.namespace import Namespace

Line = tuple[float, float]
"""Slope and value at zero."""


@dataclass(frozen=True)
class Smooth:
    """A function with a straight line at either end.

    `both(xp, x)` gives value and slope, `bend` the second derivative. `unit` is the width of its bend: the logistic
    function's is 1. `tail` says that it nears its lines like e^(-|x| / unit), and not faster. `rises`: it never falls.
    """

    value: Callable[[Namespace, Any], Any]
    both: Callable[[Namespace, Any], tuple[Any, Any]]
    bend: Callable[[Namespace, Any], Any]
    oracle: Callable[..., Any]
    left: Line
    right: Line
    unit: float = 1.0
    tail: bool = True
    rises: bool = False


def _logistic(xp: Namespace, x: Any, rate: float = 1.0) -> tuple[Any, Any, Any]:
    """sigmoid(rate x), its small side q and 1 - q."""
    e = xp.exp(xp.abs(x) * -rate)
    q = e / (e + 1.0)
    p = 1.0 - q
    return xp.where_negative(x, q, p), q, p


def _sigmoid(xp: Namespace, x: Any) -> tuple[Any, Any]:
    s, q, p = _logistic(xp, x)
    return s, q * p


def _sigmoid_bend(xp: Namespace, x: Any) -> Any:
    s, q, p = _logistic(xp, x)
    return q * p * (1.0 - s * 2.0)


def _tanh(xp: Namespace, x: Any) -> tuple[Any, Any]:
    _, q, p = _logistic(xp, x, 2.0)
    return xp.tanh(x), q * p * 4.0


def _tanh_bend(xp: Namespace, x: Any) -> Any:
    _, q, p = _logistic(xp, x, 2.0)
    return xp.tanh(x) * q * p * -8.0


def _silu(xp: Namespace, x: Any) -> tuple[Any, Any]:
    s, q, p = _logistic(xp, x)
    return x * s, s + x * q * p


def _silu_bend(xp: Namespace, x: Any) -> Any:
    s, q, p = _logistic(xp, x)
    return q * p * (x * (1.0 - s * 2.0) + 2.0)


def _softplus(xp: Namespace, x: Any) -> tuple[Any, Any]:
    return xp.softplus(x), _logistic(xp, x)[0]


def _softplus_bend(xp: Namespace, x: Any) -> Any:
    _, q, p = _logistic(xp, x)
    return q * p


STRAIGHT = 11.0
"""Beyond it the logistic function of GELU's polynomial is 0 or 1 for float32; its cube could overflow."""
PHI = 1.0 / math.sqrt(2.0 * math.pi)


def _normal(xp: Namespace, x: Any) -> tuple[Any, Any]:
    """Phi and phi."""
    size = xp.abs(x)
    (q,) = xp.tail_mix(size, [(0.0, 1.0, 0.0, 0.0)])
    return xp.where_negative(x, q, 1.0 - q), xp.exp(size * size * -0.5) * PHI


def _gelu(xp: Namespace, x: Any) -> tuple[Any, Any]:
    below, density = _normal(xp, x)
    return x * below, below + x * density


def _gelu_bend(xp: Namespace, x: Any) -> Any:
    _, density = _normal(xp, x)
    return density * (2.0 - _within(xp, x) * _within(xp, x))


ROOT, CUBE = 2.0 * math.sqrt(2.0 / math.pi), 0.044715


def _within(xp: Namespace, x: Any) -> Any:
    return xp.maximum(xp.minimum(x, STRAIGHT), -STRAIGHT)


def _gelu_tanh(xp: Namespace, x: Any) -> tuple[Any, Any]:
    """x sigmoid(w), w = 2 sqrt(2/pi) (x + 0.044715 x^3)."""
    near = _within(xp, x)
    square = near * near
    s, q, p = _logistic(xp, near * (square * (ROOT * CUBE) + ROOT))
    return xp.maximum(x, -STRAIGHT) * s, s + near * q * p * (square * (3.0 * ROOT * CUBE) + ROOT)


def _gelu_tanh_bend(xp: Namespace, x: Any) -> Any:
    near = _within(xp, x)
    square = near * near
    s, q, p = _logistic(xp, near * (square * (ROOT * CUBE) + ROOT))
    rate = square * (3.0 * ROOT * CUBE) + ROOT
    return q * p * (rate * 2.0 + near * (1.0 - s * 2.0) * rate * rate + square * (6.0 * ROOT * CUBE))


def _first(both: Callable[[Namespace, Any], tuple[Any, Any]]) -> Callable[[Namespace, Any], Any]:
    return lambda xp, x: both(xp, x)[0]


FLAT, RISING = (0.0, 0.0), (1.0, 0.0)

FUNCTIONS: dict[str, Smooth] = {
    "sigmoid": Smooth(_first(_sigmoid), _sigmoid, _sigmoid_bend, torch.sigmoid, FLAT, (0.0, 1.0), rises=True),
    "tanh": Smooth(
        lambda xp, x: xp.tanh(x), _tanh, _tanh_bend, torch.tanh, (0.0, -1.0), (0.0, 1.0), unit=0.5, rises=True
    ),
    "silu": Smooth(_first(_silu), _silu, _silu_bend, F.silu, FLAT, RISING),
    "softplus": Smooth(lambda xp, x: xp.softplus(x), _softplus, _softplus_bend, F.softplus, FLAT, RISING, rises=True),
    "gelu": Smooth(_first(_gelu), _gelu, _gelu_bend, F.gelu, FLAT, RISING, unit=0.6, tail=False),
    "gelu_tanh": Smooth(
        _first(_gelu_tanh),
        _gelu_tanh,
        _gelu_tanh_bend,
        lambda x: F.gelu(x, approximate="tanh"),
        FLAT,
        RISING,
        unit=0.6,
        tail=False,
    ),
}
"""By the name that a file has; the order is that of the numbers in c_runtime/lbnn_smooth.h."""
