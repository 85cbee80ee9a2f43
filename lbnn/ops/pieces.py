"""Owns what a continuous piecewise-linear function is: its kinks, its slopes, its values, and how they are checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lbnn.base.errors import LbnnError
from lbnn.ops.attributes import Attribute, number

MOST_KINKS = 64
LARGEST_NUMBER = 1e6
"""Of kinks, slopes and values."""


@dataclass(frozen=True)
class Pieces:
    """f has slopes[i] between kinks[i - 1] and kinks[i], the first and the last without an end; f(kinks[0]) = value.

    Kinks are float32 numbers: moments of a mean that lies on a kink, or very near, would otherwise be those of another
    side in float32 than in float64.
    """

    kinks: tuple[float, ...]
    slopes: tuple[float, ...]
    value: float

    @property
    def gaps(self) -> tuple[float, ...]:
        """The length of each piece."""
        return (math.inf, *(b - a for a, b in pairwise(self.kinks)), math.inf)

    @property
    def values(self) -> tuple[float, ...]:
        """f at each kink."""
        values = [self.value]
        for slope, gap in zip(self.slopes[1:-1], self.gaps[1:-1], strict=True):
            values.append(values[-1] + slope * gap)
        return tuple(values)

    @property
    def rises(self) -> bool:
        """f never falls: it may change places with a maximum."""
        return min(self.slopes) >= 0.0

    def mirrored(self) -> Pieces:
        """f(-x)."""
        return Pieces(tuple(-t for t in self.kinks[::-1]), tuple(-b for b in self.slopes[::-1]), self.values[-1])

    def at(self, place: float) -> float:
        """f of a number."""
        piece = len([kink for kink in self.kinks if kink <= place])
        last = max(piece - 1, 0)
        return self.values[last] + self.slopes[piece] * (place - self.kinks[last])

    def root(self, piece: int) -> float | None:
        """Where the line of a piece is zero, to float32; None if that is nowhere near."""
        last, slope = max(piece - 1, 0), self.slopes[piece]
        if abs(self.values[last]) > abs(slope) * LARGEST_NUMBER:
            return None
        return to_float32(self.kinks[last] - (self.values[last] / slope if slope else 0.0))

    def line(self, piece: int) -> tuple[float, float]:
        """A place and the value there of a piece's line, such that value + slope (x - place) cancels nowhere."""
        root, last = self.root(piece), max(piece - 1, 0)
        place = 0.0 if root is None or self.slopes[piece] == 0.0 else root
        return place, self.values[last] + self.slopes[piece] * (place - self.kinks[last])

    def anchor(self) -> float:
        """Where f is smallest, a root if it has one: sums that start from there are exact where f is small."""
        roots = [root for root in map(self.root, range(len(self.slopes))) if root is not None]
        found, least = self.kinks[0], abs(self.values[0])
        for place in (*self.kinks, *roots):
            size = abs(self.at(place))
            if size < least or (size == least and abs(place) < abs(found)):
                found, least = place, size
        return found


def to_float32(value: float) -> float:
    """The nearest float32 number; +0 for -0. In plain Python, through which torch's compiler looks."""
    if not math.isfinite(value):
        return value
    last = max(math.frexp(value)[1] - 24, -149)  # the exponent of the last bit
    return math.ldexp(round(math.ldexp(value, -last)), last) + 0.0


def make_pieces(kinks: Sequence[float], slopes: Sequence[float], value: float) -> Pieces:
    """The function, or what is wrong with it."""
    pieces = Pieces(read_kinks("kinks", list(kinks)), read_slopes("slopes", list(slopes)), read_value("value", value))
    if len(pieces.slopes) != len(pieces.kinks) + 1:
        raise LbnnError(f"{len(pieces.kinks)} kinks divide {len(pieces.kinks) + 1} pieces, got {len(slopes)} slopes")
    if max(map(abs, pieces.values)) > LARGEST_NUMBER:
        raise LbnnError(f"the function passes {LARGEST_NUMBER:g} between its kinks; give smaller slopes")
    return pieces


PIECEWISE_LAYERS = {
    (0.0, 1.0 / 6.0, 0.0): "Hardsigmoid",
    (0.0, 1.0, 0.0): "Hardtanh or Clamp",
    (0.0, 1.0): "Clamp",
    (1.0, 0.0): "Clamp",
}
"""Which layers have these slopes."""


def layer_of(kinks: Sequence[float], slopes: Sequence[float]) -> str:
    """What users call the function, or nothing."""
    if (tuple(kinks), tuple(slopes)) == ((0.0, 6.0), (0.0, 1.0, 0.0)):
        return "ReLU6"
    one_kink = "PReLU" if tuple(kinks) == (0.0,) and slopes[-1] == 1.0 else ""
    return PIECEWISE_LAYERS.get(tuple(slopes), one_kink)


def _numbers(most: int) -> Attribute:
    """A list of numbers."""

    def read(key: str, value: Any) -> tuple[float, ...]:
        if type(value) is not list or not 1 <= len(value) <= most:
            raise LbnnError(f"{key} must be a list of 1 to {most} numbers")
        return tuple(number(-LARGEST_NUMBER, LARGEST_NUMBER)(key, item) for item in value)

    return read


def read_kinks(key: str, value: Any) -> tuple[float, ...]:
    """Places in rising order, as float32 has them."""
    kinks = tuple(to_float32(kink) for kink in _numbers(MOST_KINKS)(key, value))
    if any(a >= b for a, b in pairwise(kinks)):
        raise LbnnError(f"{key} must rise from one to the next, in float32 too")
    return kinks


read_slopes = _numbers(MOST_KINKS + 1)
read_value = number(-LARGEST_NUMBER, LARGEST_NUMBER)
