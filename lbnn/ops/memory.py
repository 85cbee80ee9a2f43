"""What the result of an operator may share with its inputs: the planner's side of an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MEAN, VAR = "mean", "var"
"""The arrays of a value: a random one has both, a point the first."""


@dataclass(frozen=True)
class MemoryUse:
    """Where a result may lie; the default is memory of its own.

    `in_place`: positions of inputs that it may overwrite where nothing else needs them. `shrinks`: the first input
    may be overwritten by a smaller result, for these attributes; that can cost memory too, so the planner tries both.
    `aliases`: arrays of the result that are an input's own, (part of the result, position of the input, part of the
    input). `joins`: the inputs may be written where the result will lie, one behind the other along attribute `axis`.
    `stored`: the result is a constant of the model and takes no memory.
    """

    in_place: tuple[int, ...] = ()
    shrinks: Callable[[Mapping[str, Any]], bool] | None = None
    aliases: tuple[tuple[str, int, str], ...] = ()
    joins: bool = False
    stored: bool = False


OWN = MemoryUse()
IN_PLACE = MemoryUse(in_place=(0,))
