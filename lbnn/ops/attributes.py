"""The kinds of attributes an operator may have: each reads one from plain data, or says what it should have been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.ops.namespace import Shape

Attribute = Callable[[str, Any], Any]
"""Takes an attribute's name and a value from a file; gives the value as formulas take it."""


def integer(key: str, value: Any) -> int:
    """A number of channels, groups or an axis."""
    if type(value) is not int or not 0 <= value < 2**31:
        raise LbnnError(f"{key} must be an integer from 0 to 2^31 - 1")
    return value


def integers(key: str, value: Any) -> Shape:
    """A number for each spatial axis."""
    if type(value) is not list or len(value) not in (1, 2):
        raise LbnnError(f"{key} must be a list of one or two integers")
    return tuple(integer(key, item) for item in value)


def pairs(key: str, value: Any) -> tuple[Shape, ...]:
    """Amounts before and after each spatial axis."""
    read = [integers(key, pair) for pair in value] if type(value) is list else []
    if len(read) not in (1, 2) or any(len(pair) != 2 for pair in read):
        raise LbnnError(f"{key} must be one or two pairs of integers")
    return tuple(read)


def boolean(key: str, value: Any) -> bool:
    """A switch."""
    if type(value) is not bool:
        raise LbnnError(f"{key} must be True or False")
    return value


def number(low: float, high: float) -> Attribute:
    """A number within bounds."""

    def read(key: str, value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high:
            raise LbnnError(f"{key} must be a number from {low:g} to {high:g}")
        return float(value)

    return read
