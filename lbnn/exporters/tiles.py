"""Many samples at once (lbnn_tile_linear.h): the calls of a program of linear layers and elementwise functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lbnn.exporters.c.calls import ROWS
from lbnn.exporters.c.program import Call, Program

HEADER = "lbnn_tile_linear.h"
_LINEAR = ROWS["linear"].kernels
_ELEMENTWISE = (
    "lbnn_copy",
    *(k for op in ("leaky_relu", "leaky_relu_clamped", "abs", "elu") for k in ROWS[op].kernels),
)


@dataclass(frozen=True)
class Tiles:
    """What the template of a batch needs: the calls and where the results are."""

    lines: tuple[str, ...]
    mean: str
    variance: str


def tiles(program: Program) -> Tiles | None:
    """The program on LBNN_TILE samples at once, or None where a layer knows one sample alone."""
    calls = [call for layer in program.layers for call in layer.calls]
    known = (*_LINEAR, *_ELEMENTWISE)
    if program.dtype.is_integer or program.closing or any(call.kernel not in known or call.times > 1 for call in calls):
        return None
    mean, variance = (_place(argument) for argument in program.result)
    return Tiles(tuple(map(_call, calls)), mean, variance)


def _call(call: Call) -> str:
    arguments = [_place(argument) for argument in call.arguments]
    if call.kernel in _LINEAR:
        return f"{call.kernel.replace('lbnn_', 'lbnn_tile_')}({', '.join(arguments)});"
    length = next(i for i, argument in enumerate(arguments) if argument.isdigit())
    arguments[length] += " * LBNN_TILE"
    return f"{call.kernel}({', '.join(arguments)});"


def _place(argument: str) -> str:
    """Where an array is among the columns."""
    named = {"input": "columns", "input_variance": "spread"}.get(argument, argument)
    return re.sub(r"^work \+ (\d+)$", r"work + \1 * LBNN_TILE", named)
