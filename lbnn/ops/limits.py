"""How large values and geometry may be: what is refused before a backend allocates for it or counts through it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.ops.namespace import Shape

MAX_ELEMENTS = 2**28
"""Of all values of a graph together, of all parameters, and of what one operator holds while it computes: a gigabyte
of float32 each. Every number of its geometry ends here too, so that sums of a few of them stay within 32 bits."""


@dataclass(frozen=True)
class AxisSpan:
    """Windows along one axis: the padded length that they slide over, their number, and the taps of each."""

    padded: int
    positions: int
    taps: int


def unfolded(channels: int, axes: Iterable[AxisSpan]) -> int:
    """Elements of the padded input or, if they are more, of all windows written out: backends make both."""
    spans = tuple(axes)
    return channels * max(prod(axis.padded for axis in spans), prod(axis.positions * axis.taps for axis in spans))


def check_size(what: str, shape: Shape) -> int:
    """The number of elements of a value, which must have some and not too many."""
    size = prod(shape)
    if not 1 <= size <= MAX_ELEMENTS:
        raise LbnnError(f"{what} has {size} elements; at most {MAX_ELEMENTS} are supported")
    return size


def check_numbers(attrs: Mapping[str, Any]) -> None:
    """Refuses a number of an operator's geometry that no value could need."""
    for key, value in attrs.items():
        if any(abs(number) > MAX_ELEMENTS for number in _integers(value)):
            raise LbnnError(f"{key} has a number beyond {MAX_ELEMENTS}, the most that is supported")


def _integers(value: Any) -> list[int]:
    if isinstance(value, (tuple, list)):
        return [number for item in value for number in _integers(item)]
    return [value] if isinstance(value, int) else []


def check_held(elements: int) -> None:
    """Refuses an operator whose padded input or windows are too large."""
    if elements > MAX_ELEMENTS:
        raise LbnnError(
            f"its padded input or its windows have {elements} elements; at most {MAX_ELEMENTS} are supported"
        )
