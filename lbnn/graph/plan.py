"""The memory plan: which values share memory, and where each lies in one work buffer, counted in floats.

A random value is two arrays (mean, var), a point is one. Arrays that must lie at fixed distances from each other
(an operator that works in place, the parts of a concatenation) form one rigid body; each part of a body is a
rectangle in space and time. A plan gives every body an offset so that no two rectangles meet.

Placing bodies one after another, each at the lowest free offset, reaches the optimum for some order of them. So the
search is over orders: the usual ones first, then two-ended stacking (which is optimal on chains), then branch and
bound. It stops at the lower bound, the largest sum of arrays that are alive together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from lbnn.graph import INPUT, Graph, Node

MEAN, VAR = "mean", "var"
WORK = "work"
Key = tuple[str, str]
"""An array: the name of its value and MEAN or VAR."""

# Operators whose result may overwrite an input that is not needed any more: the positions of those inputs.
IN_PLACE: Mapping[str, tuple[int, ...]] = {
    "leaky_relu": (0,),
    "leaky_relu_clamped": (0,),
    "leaky_relu_point": (0,),
    "affine": (0,),
    "affine_point": (0,),
    "batch_norm": (0,),
    "batch_norm_point": (0,),
    "add": (0, 1),
    "add_point": (0, 1),
    "shift": (0,),
    "variance_head": (0,),
    "variance_head_point": (0,),
}

# Arrays of a result that are an input's own: (part of the result, position of the input, part of the input).
ALIASES: Mapping[str, tuple[tuple[str, int, str], ...]] = {
    "flatten": ((MEAN, 0, MEAN), (VAR, 0, VAR)),
    "flatten_point": ((MEAN, 0, MEAN),),
    "shift": ((VAR, 0, VAR),),
    "lift": ((MEAN, 0, MEAN),),
}

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


@dataclass(frozen=True)
class Place:
    """Where an array lies: floats behind `base`, which is WORK or the name of a value outside the work buffer."""

    base: str
    offset: int = 0


@dataclass(frozen=True)
class Plan:
    """The work buffer: its size, the least that any offsets could give, and the place of every array."""

    size: int
    bound: int
    places: Mapping[Key, Place]
    blocks: Mapping[Key, Block]
    scratch: Mapping[str, Place]

    def __str__(self) -> str:
        """A listing: one line an array, in the order of the computation."""
        lines = [f"work buffer: {self.size} floats, {4 * self.size} bytes (lower bound {self.bound} floats)"]
        width = max((len(f"{name}.{part}") for name, part in self.blocks), default=0)
        for (name, part), block in self.blocks.items():
            span = f"[{block.offset}, {block.offset + block.size})"
            lines.append(f"  {f'{name}.{part}':{width}}  {span:16}  steps {block.first} to {block.last}")
        return "\n".join(lines)


def plan(graph: Graph, scratch: Mapping[str, int] | None = None) -> Plan:
    """The smallest plan found; `scratch` gives the floats that a node needs besides its values."""
    layouts = dict.fromkeys(_Sharing(graph, scratch or {}, shrink).frozen() for shrink in (True, False))
    return min(map(_placed, layouts), key=lambda found: found.size)


def _placed(layout: Layout) -> Plan:
    offsets = pack(layout.bodies)
    places = {key: Place(WORK, offsets[body] + at) for key, (body, at) in layout.homes}
    blocks = {key: block.moved(offsets[body]) for key, body, block in layout.blocks}
    extent = max((offset + _extent(body) for offset, body in zip(offsets, layout.bodies, strict=True)), default=0)
    return Plan(
        size=extent,
        bound=layout.bound,
        places={key: places[key] for key in places if key[1] != "scratch"} | dict(layout.outside),
        blocks=blocks,
        scratch={name: place for (name, part), place in places.items() if part == "scratch"},
    )


# ---- from a graph to bodies ---------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Bodies to be placed; where in them each array lies; and the arrays that lie elsewhere."""

    bodies: tuple[tuple[Block, ...], ...]
    homes: tuple[tuple[Key, tuple[int, int]], ...]
    blocks: tuple[tuple[Key, int, Block], ...]
    outside: tuple[tuple[Key, Place], ...]

    @property
    def bound(self) -> int:
        """The largest sum of arrays that are alive together."""
        return lower_bound(self.bodies)


@dataclass
class _Region:
    """One writing of an array: a body, a place in it, and the arrays that share it without writing."""

    body: int
    offset: int
    size: int
    first: int
    sharers: list[Key]


class _Sharing:
    """Decides, node after node, which arrays share memory."""

    def __init__(self, graph: Graph, scratch: Mapping[str, int], shrink: bool) -> None:
        self.graph, self.shrink = graph, shrink
        self.last = _last_uses(graph)
        self.regions: list[_Region] = []
        self.home: dict[Key, _Region] = {}
        self.outside: dict[Key, Place] = {
            (INPUT, part): Place(INPUT if part == MEAN else f"{INPUT}_variance") for part in self._parts(INPUT)
        }
        self.bodies = 0
        for step, node in enumerate(graph.nodes):
            self._visit(step, node)
            if scratch.get(node.name):
                self._fresh((node.name, "scratch"), scratch[node.name], step)

    def frozen(self) -> Layout:
        """The result."""
        numbers = {body: number for number, body in enumerate(dict.fromkeys(r.body for r in self.regions))}
        bodies: list[list[Block]] = [[] for _ in numbers]
        for region in self.regions:
            bodies[numbers[region.body]].append(self._block(region))
        home = self.home.items()
        return Layout(
            tuple(map(tuple, bodies)),
            tuple((key, (numbers[region.body], region.offset)) for key, region in home),
            tuple((key, numbers[region.body], self._block(region)) for key, region in home),
            tuple(self.outside.items()),
        )

    def _visit(self, step: int, node: Node) -> None:
        if node.op == "constant":
            self.outside[(node.name, MEAN)] = Place(node.name)
        elif node.op in ("concat", "concat_point"):
            for part in self._parts(node.name):
                self._concat(step, node, part)
        else:
            aliases = {part: (node.inputs[at], source) for part, at, source in ALIASES.get(node.op, ())}
            for part in self._parts(node.name):
                self._define(step, node, part, aliases.get(part))

    def _define(self, step: int, node: Node, part: str, alias: Key | None) -> None:
        key = (node.name, part)
        if alias in self.outside:
            self.outside[key] = self.outside[alias]
        elif alias is not None:
            self._share(key, self.home[alias])
        elif reused := next(self._dying_inputs(step, node, part), None):
            # The old array covers this step; the new one, never larger, begins with the next.
            self._add(key, _Region(reused.body, reused.offset, self._size(node.name), step + 1, [key]))
        else:
            self._fresh(key, self._size(node.name), step)

    def _dying_inputs(self, step: int, node: Node, part: str) -> Iterator[_Region]:
        for at in self._in_place_inputs(node):
            region = self.home.get((node.inputs[at], part))
            if region is not None and self._ends(region) <= step:
                yield region

    def _in_place_inputs(self, node: Node) -> tuple[int, ...]:
        if node.op in ("avg_pool", "avg_pool_point") and self.shrink and not any(node.attrs["padding"]):
            return (0,)
        return IN_PLACE.get(node.op, ())

    def _concat(self, step: int, node: Node, part: str) -> None:
        """Lets inputs be written where the result lies, where that is free; the others are to be copied."""
        shape, key = self.graph.values[node.name].shape, (node.name, part)
        whole = self._fresh(key, prod(shape), step)
        if prod(shape[: node.attrs["axis"]]) != 1:
            return
        at = 0
        for name in node.inputs:
            region = self.home.get((name, part))
            if region is not None and node.inputs.count(name) == 1 and self._ends(region) <= step:
                self._merge(region, whole, at)
            at += self._size(name)

    def _merge(self, region: _Region, whole: _Region, at: int) -> None:
        """Moves the region's body into the body of the result, unless they meet there before the result exists."""
        by = whole.offset + at - region.offset
        moving = [r for r in self.regions if r.body == region.body]
        others = [self._block(r) for r in self.regions if r.body == whole.body and r is not whole]
        moved = [self._block(r).moved(by) for r in moving]
        if (
            region.body == whole.body
            or any(a.meets(b) for a in moved for b in others)
            or min(b.offset for b in moved) < 0
        ):
            return
        limit = whole.offset + whole.size
        if any(b.last >= whole.first and not whole.offset <= b.offset <= b.offset + b.size <= limit for b in moved):
            return
        for r in moving:
            r.body, r.offset = whole.body, r.offset + by

    def _fresh(self, key: Key, size: int, step: int) -> _Region:
        self.bodies += 1
        return self._add(key, _Region(self.bodies, 0, size, step, [key]))

    def _add(self, key: Key, region: _Region) -> _Region:
        self.regions.append(region)
        self.home[key] = region
        return region

    def _share(self, key: Key, region: _Region) -> None:
        region.sharers.append(key)
        self.home[key] = region

    def _ends(self, region: _Region) -> int:
        return max(region.first, *(self.last.get(name, 0) if part != "scratch" else 0 for name, part in region.sharers))

    def _block(self, region: _Region) -> Block:
        return Block(region.offset, region.size, region.first, self._ends(region))

    def _parts(self, name: str) -> tuple[str, ...]:
        return (MEAN, VAR) if self.graph.values[name].random else (MEAN,)

    def _size(self, name: str) -> int:
        return prod(self.graph.values[name].shape)


def _last_uses(graph: Graph) -> dict[str, int]:
    """The last step that reads each value; the output is read once more, behind the last node."""
    last = {name: step for step, node in enumerate(graph.nodes) for name in node.inputs}
    return last | {graph.output: len(graph.nodes)}


# ---- from bodies to offsets ---------------------------------------------------------------------

Body = Sequence[Block]


def lower_bound(bodies: Iterable[Body]) -> int:
    """The largest number of floats in use at one step. Blocks of one body may cover each other."""
    bodies = list(bodies)
    steps = {block.first for body in bodies for block in body}
    return max((sum(_covered(body, step) for body in bodies) for step in steps), default=0)


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
        room = bound - _extent(bodies[body])
        offsets[body] = _highest(body, offsets, gaps, room) if upper[body] else _lowest(body, offsets, gaps)
        if not 0 <= offsets[body] <= room:
            return None
    return [offsets[body] for body in range(len(bodies))]


def _orders(bodies: Sequence[Body]) -> Iterator[list[int]]:
    yield _by_size(bodies)
    keys: tuple[Callable[[Body], int], ...] = (
        lambda body: -_extent(body) * _duration(body),
        lambda body: -_duration(body),
        lambda body: min(b.first for b in body),
        lambda body: -max(b.last for b in body),
    )
    for key in keys:
        yield sorted(range(len(bodies)), key=lambda i, key=key: (key(bodies[i]), -_extent(bodies[i]), i))  # type: ignore[misc]


def _by_size(bodies: Sequence[Body]) -> list[int]:
    return sorted(range(len(bodies)), key=lambda i: (-_extent(bodies[i]), i))


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
            if at + _extent(bodies[body]) < top:
                offsets[body] = at
                visit()
                del offsets[body]

    visit()
    return best


def _extent(body: Body) -> int:
    return max(block.offset + block.size for block in body)


def _duration(body: Body) -> int:
    return 1 + max(block.last for block in body) - min(block.first for block in body)


def _top(offsets: Sequence[int], bodies: Sequence[Body]) -> int:
    return max((at + _extent(body) for at, body in zip(offsets, bodies, strict=True)), default=0)
