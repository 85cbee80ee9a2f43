"""Offsets for bodies in one buffer so that no two meet: small buffers, found by a search over orders.

Placing bodies one after another, each at the lowest free offset, reaches the optimum for some order of them. So the
search is over orders: the usual ones first, then two-ended stacking (which is optimal on chains), then branch and
bound. It stops at the lower bound, the largest sum of blocks that are in use together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

SEARCH_STEPS, SEARCH_BODIES = 4_000, 64
"""How many placements branch and bound may try, and of how many bodies."""


@dataclass(frozen=True)
class Block:
    """Floats [offset, offset + size) of a buffer, used from step `first` to step `last`, both included."""

    offset: int
    size: int
    first: int
    last: int

    def moved(self, by: int) -> Block:
        """The same at another place."""
        return replace(self, offset=self.offset + by)

    def meets(self, other: Block) -> bool:
        """Whether both use the same float at the same step."""
        in_time = self.first <= other.last and other.first <= self.last
        return in_time and self.offset < other.offset + other.size and other.offset < self.offset + self.size


Body = Sequence[Block]


def lower_bound(bodies: Iterable[Body]) -> int:
    """The largest number of floats in use at one step. Blocks of one body may cover each other."""
    return max(in_use(bodies).values(), default=0)


def in_use(bodies: Iterable[Body]) -> dict[int, int]:
    """The floats in use at each step at which a block begins; between them there are never more."""
    bodies = list(bodies)
    steps = sorted({block.first for body in bodies for block in body})
    return {step: sum(_covered(body, step) for body in bodies) for step in steps}


def _covered(body: Body, step: int) -> int:
    total = end = 0
    for block in sorted((b for b in body if b.first <= step <= b.last), key=lambda b: b.offset):
        total += max(0, block.offset + block.size - max(end, block.offset))
        end = max(end, block.offset + block.size)
    return total


def pack(bodies: Sequence[Body]) -> list[int]:
    """Offsets of the smallest packing found."""
    gaps = _gaps(bodies)
    bound = lower_bound(bodies)
    best = _stack(bodies, gaps, bound) or _first_fit(_by_size(bodies), bodies, gaps)
    for order in _orders(bodies):
        if _top(best, bodies) == bound:
            return best
        best = min(best, _first_fit(order, bodies, gaps), key=lambda offsets: _top(offsets, bodies))
    return _branch_and_bound(bodies, gaps, bound, best) if len(bodies) <= SEARCH_BODIES else best


def greedy_by_size(bodies: Sequence[Body]) -> int:
    """The yardstick: the largest first, each at the lowest free offset."""
    return _top(_first_fit(_by_size(bodies), bodies, _gaps(bodies)), bodies)


Gaps = dict[tuple[int, int], list[tuple[int, int]]]
"""(i, j) -> open intervals in which offset_i - offset_j must not lie."""


def _gaps(bodies: Sequence[Body]) -> Gaps:
    return {
        (i, j): [
            (b.offset - a.offset - a.size, b.offset + b.size - a.offset)
            for a in body
            for b in other
            if a.first <= b.last and b.first <= a.last
        ]
        for i, body in enumerate(bodies)
        for j, other in enumerate(bodies)
        if i != j
    }


def _lowest(body: int, offsets: Mapping[int, int], gaps: Gaps) -> int:
    """The lowest offset at which `body` meets none of those that lie already."""
    at = 0
    for low, high in sorted((offsets[j] + low, offsets[j] + high) for j in offsets for low, high in gaps[body, j]):
        if low < at < high:
            at = high
    return at


def _highest(body: int, offsets: Mapping[int, int], gaps: Gaps, start: int) -> int:
    """The highest such offset from `start` downwards, negative if there is none."""
    at = start
    closed = ((offsets[j] + low, offsets[j] + high) for j in offsets for low, high in gaps[body, j])
    for low, high in sorted(closed, key=lambda gap: -gap[1]):
        if low < at < high:
            at = low
    return at


def _first_fit(order: Iterable[int], bodies: Sequence[Body], gaps: Gaps) -> list[int]:
    offsets: dict[int, int] = {}
    for body in order:
        offsets[body] = _lowest(body, offsets, gaps)
    return [offsets[body] for body in range(len(bodies))]


def _stack(bodies: Sequence[Body], gaps: Gaps, bound: int) -> list[int] | None:
    """Bodies in the order of time, at the lower and the upper end in turn; None if that does not fit the bound."""
    offsets: dict[int, int] = {}
    starts = [min(block.first for block in body) for body in bodies]
    ranks = {start: rank for rank, start in enumerate(sorted(set(starts)))}
    upper = [ranks[start] % 2 == 1 for start in starts]
    # At the upper end from top to bottom, so that a mean lies below its variance there too.
    for body in sorted(range(len(bodies)), key=lambda i: (starts[i], -i if upper[i] else i)):
        room = bound - body_extent(bodies[body])
        offsets[body] = _highest(body, offsets, gaps, room) if upper[body] else _lowest(body, offsets, gaps)
        if not 0 <= offsets[body] <= room:
            return None
    return [offsets[body] for body in range(len(bodies))]


def _orders(bodies: Sequence[Body]) -> Iterator[list[int]]:
    yield _by_size(bodies)
    keys: tuple[Callable[[Body], int], ...] = (
        lambda body: -body_extent(body) * _duration(body),
        lambda body: -_duration(body),
        lambda body: min(b.first for b in body),
        lambda body: -max(b.last for b in body),
    )
    for key in keys:
        yield sorted(range(len(bodies)), key=lambda i, key=key: (key(bodies[i]), -body_extent(bodies[i]), i))  # type: ignore[misc]


def _by_size(bodies: Sequence[Body]) -> list[int]:
    return sorted(range(len(bodies)), key=lambda i: (-body_extent(bodies[i]), i))


def _branch_and_bound(bodies: Sequence[Body], gaps: Gaps, bound: int, best: list[int]) -> list[int]:
    """Orders that begin like the one by size first; a branch ends as soon as it is no better than the best."""
    top, steps = _top(best, bodies), SEARCH_STEPS
    order, offsets = _by_size(bodies), dict[int, int]()

    def visit() -> None:
        nonlocal best, top, steps
        if len(offsets) == len(bodies):
            best = [offsets[body] for body in range(len(bodies))]
            top = _top(best, bodies)
            return
        for body in order:
            if body in offsets or steps <= 0 or top == bound:
                continue
            steps -= 1
            at = _lowest(body, offsets, gaps)
            if at + body_extent(bodies[body]) < top:
                offsets[body] = at
                visit()
                del offsets[body]

    visit()
    return best


def body_extent(body: Body) -> int:
    """Floats from its own zero to its end."""
    return max(block.offset + block.size for block in body)


def _duration(body: Body) -> int:
    return 1 + max(block.last for block in body) - min(block.first for block in body)


def _top(offsets: Sequence[int], bodies: Sequence[Body]) -> int:
    return max((at + body_extent(body) for at, body in zip(offsets, bodies, strict=True)), default=0)
