"""Where the choices of a random network come from: a seed, or hypothesis, which can make an example smaller."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Variety:
    """What networks may have beside ordinary layers.

    `clamps`: activations and heads that give a variance to a value without one. `wide`: weights from 1e-3 to 1e3 and
    sigmas down to 1e-6 of them. `odd`: once in so many times an argument that must be refused, and layers of float64.
    `ends`: any last layer, so that the output may be known; otherwise it has weights of its own. `heads`: classes of
    the last layer's logits.
    """

    most_layers: int = 6
    clamps: bool = True
    constant_outputs: bool = False
    wide: bool = False
    odd: int = 0
    ends: bool = False
    heads: bool = False


EVERYTHING = Variety(most_layers=8, constant_outputs=True, wide=True, odd=150, ends=True, heads=True)


class Draw(ABC):
    """A source of choices; everything is made of `integer`, in which a smaller number is the simpler choice."""

    def __init__(self, variety: Variety) -> None:
        self.variety = variety

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""

    def pick(self, options: Sequence[Choice]) -> Choice:
        """One of these; what stands there twice comes twice as often."""
        return options[self.integer(0, len(options) - 1)]

    def flag(self) -> bool:
        return bool(self.integer(0, 1))

    def chance(self, count: int) -> bool:
        """True once in `count` times."""
        return self.integer(0, count - 1) == count - 1

    def per_axis(self, rank: int, low: int, high: int) -> int | tuple[int, ...]:
        """One number for all axes, or one for each, as torch's geometry has them."""
        if self.flag():
            return tuple(self.integer(low, high) for _ in range(rank))
        return self.integer(low, high)

    def odd(self, usual: Any, *refused: Any) -> Any:
        """The usual argument, or now and then one that has to be refused."""
        return self.pick(refused) if self.variety.odd and self.chance(self.variety.odd) else usual

    def seed(self) -> int:
        return self.integer(0, 999)

    def plain(self) -> Draw:
        """The same source without odd arguments."""
        return _Plain(self)


class SeededDraw(Draw):
    """The same choices for the same seed."""

    def __init__(self, seed: int, variety: Variety = EVERYTHING) -> None:
        super().__init__(variety)
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class _Plain(Draw):
    def __init__(self, source: Draw) -> None:
        super().__init__(replace(source.variety, odd=0))
        self._source = source

    def integer(self, low: int, high: int) -> int:
        return self._source.integer(low, high)
