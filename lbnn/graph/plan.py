"""The memory plan: which values share memory, and where each lies in one work buffer, counted in floats.

A random value is two arrays (mean, var), a point is one. Arrays that must lie at fixed distances from each other
(an operator that works in place, the parts of a concatenation) form one rigid body; each part of a body is a
rectangle in space and time. A plan gives every body an offset so that no two rectangles meet: lbnn/graph/packing.py.

Working in place is not always a gain: it ties an array to the place of another. So where an operator may do either,
several layouts are tried: those in which the steps that need most memory work in place, and the others do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from lbnn import ops
from lbnn.graph.graph import INPUT, Graph, Node
from lbnn.graph.packing import Block, body_extent, in_use, lower_bound, pack
from lbnn.ops.memory import MEAN, VAR

WORK = "work"
Key = tuple[str, str]
"""An array: the name of its value and MEAN or VAR."""


@dataclass(frozen=True)
class Place:
    """Where an array lies: floats behind `base`, which is WORK or the name of a value outside the work buffer."""

    base: str
    offset: int = 0


@dataclass(frozen=True)
class Plan:
    """The work buffer: its size, the least that any layout tried could give, and the place of every array."""

    size: int
    bound: int
    places: Mapping[Key, Place]
    blocks: Mapping[Key, Block]
    scratch: Mapping[str, Place]

    @property
    def peak(self) -> tuple[int, dict[str, int]]:
        """The step that needs most of the work buffer, and the floats of each value that is in use then.

        Scratch memory counts with its node's name in brackets. Values at one place, of which one overwrites the other,
        count once, with the first.
        """
        used = in_use([tuple(self.blocks.values())])
        step = max(used, key=lambda step: used[step], default=0)
        alive = {key: block for key, block in self.blocks.items() if block.first <= step <= block.last}
        found: dict[str, int] = {}
        for number, (name, part) in enumerate(alive):
            before = in_use([tuple(alive.values())[:number]]).values()
            floats = max(in_use([tuple(alive.values())[: number + 1]]).values()) - max(before, default=0)
            title = f"[{name}]" if part == "scratch" else name
            found[title] = found.get(title, 0) + floats
        return step, {name: floats for name, floats in found.items() if floats}

    def __str__(self) -> str:
        """A listing: one line an array, in the order of the computation."""
        lines = [f"work buffer: {self.size} floats, {4 * self.size} bytes (lower bound {self.bound} floats)"]
        width = max((len(f"{name}.{part}") for name, part in self.blocks), default=0)
        for (name, part), block in self.blocks.items():
            span = f"[{block.offset}, {block.offset + block.size})"
            lines.append(f"  {f'{name}.{part}':{width}}  {span:16}  steps {block.first} to {block.last}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Needs:
    """What an arithmetic needs that shapes do not tell, by name of a value.

    `words`: elements of each of its arrays, none where it is never written. `reads`: other values that its node reads
    besides its inputs. `apart`: those that are joined of parts, but not one behind the other. `ahead`: values that may
    be written over the arrays of their node's first input where nothing else needs those, beginning so many elements
    before them: none, or for a result that is longer, so many that the input lies in its last part. `over`: what is
    overwritten instead of the first input.
    """

    words: Mapping[str, int] = field(default_factory=dict)
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    ahead: Mapping[str, int] = field(default_factory=dict)
    over: Mapping[str, str] = field(default_factory=dict)


def plan(
    graph: Graph,
    scratch: Mapping[str, int] | None = None,
    given: Mapping[Key, Place] | None = None,
    needs: Needs | None = None,
) -> Plan:
    """The smallest plan found; `scratch` gives the floats that a node needs besides its values.

    `given` are arrays that lie outside of the work buffer.
    """
    facts = (graph, scratch or {}, given or {}, needs or Needs())
    layouts = [_Sharing(*facts, overlaid).frozen() for overlaid in _overlays(*facts)]
    best, bound = _placed(layouts[0]), min(layout.bound for layout in layouts)
    for layout in layouts[1:]:
        if bound < best.size > layout.bound:
            best = min(best, _placed(layout), key=lambda found: found.size)
    return replace(best, bound=bound)


def _overlays(
    graph: Graph, scratch: Mapping[str, int], given: Mapping[Key, Place], needs: Needs
) -> list[frozenset[str]]:
    """Which nodes to let overwrite an input though they need not: all that only shrink; or those at whose step more
    than T floats are in use otherwise, for every T, from none to all."""
    free = frozenset(node.name for node in graph.nodes if _may_overlay(node, needs))
    used = in_use(_Sharing(graph, scratch, given, needs, frozenset()).frozen().bodies)
    cost = {node.name: used.get(step, 0) for step, node in enumerate(graph.nodes) if node.name in free}
    sets = (
        frozenset(name for name in free if cost[name] > limit) for limit in sorted(set(cost.values()), reverse=True)
    )
    return list(dict.fromkeys((free.difference(needs.ahead), frozenset[str](), *sets, free)))


def _may_overlay(node: Node, needs: Needs) -> bool:
    shrinks = ops.find(node.op).memory.shrinks
    return node.name in needs.ahead or (shrinks is not None and shrinks(node.attrs))


def _placed(layout: Layout) -> Plan:
    offsets = pack(layout.bodies)
    places = {key: Place(WORK, offsets[body] + at) for key, (body, at) in layout.homes}
    blocks = {key: block.moved(offsets[body]) for key, body, block in layout.blocks}
    extent = max((offset + body_extent(body) for offset, body in zip(offsets, layout.bodies, strict=True)), default=0)
    return Plan(
        size=extent,
        bound=layout.bound,
        places={key: places[key] for key in places if key[1] != "scratch"} | dict(layout.outside),
        blocks=blocks,
        scratch={name: place for (name, part), place in places.items() if part == "scratch"},
    )


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

    def __init__(
        self,
        graph: Graph,
        scratch: Mapping[str, int],
        given: Mapping[Key, Place],
        needs: Needs,
        overlaid: frozenset[str],
    ) -> None:
        self.graph, self.given, self.needs, self.overlaid = graph, given, needs, overlaid
        self.last = _last_uses(graph, needs)
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
        """The result; bodies begin at their lowest array."""
        for body in {region.body for region in self.regions}:
            own = [region for region in self.regions if region.body == body]
            lowest = min(region.offset for region in own)
            for region in own:
                region.offset -= lowest
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
        memory = ops.find(node.op).memory
        if (node.name, MEAN) in self.given:
            self.outside.update({(node.name, part): self.given[node.name, part] for part in self._parts(node.name)})
        elif memory.stored:
            self.outside[(node.name, MEAN)] = Place(node.name)
        elif self._size(node.name) == 0:
            self.outside.update({(node.name, part): Place(WORK) for part in self._parts(node.name)})
        elif memory.joins and node.name not in self.needs.apart:
            for part in self._parts(node.name):
                self._concat(step, node, part)
        else:
            aliases = {part: (node.inputs[at], source) for part, at, source in memory.aliases}
            for part in self._parts(node.name):
                self._define(step, node, part, aliases.get(part))

    def _define(self, step: int, node: Node, part: str, alias: Key | None) -> None:
        key = (node.name, part)
        if alias in self.outside:
            self.outside[key] = self.outside[alias]
        elif alias is not None:
            self._share(key, self.home[alias])
        elif place := next(self._over_inputs(step, node, part), None):
            self._add(key, place)
        else:
            self._fresh(key, self._size(node.name), step)

    def _over_inputs(self, step: int, node: Node, part: str) -> Iterator[_Region]:
        """Where the result may lie on the array of an input that nothing needs afterwards."""
        size, key = self._size(node.name), (node.name, part)
        ahead = self.needs.ahead.get(node.name, 0) if node.name in self.overlaid else 0
        for name in self._in_place_inputs(node):
            region = self.home.get((name, part))
            if region is None or self._ends(region) > step:
                continue
            if size <= region.size and not ahead:
                # The old array covers this step; the new one, never larger, begins with the next.
                yield _Region(region.body, region.offset, size, step + 1, [key])
            elif size <= ahead + region.size and node.name in self.overlaid:
                # It covers this step too; nothing else of its body is alive with an array that ends.
                yield _Region(region.body, region.offset - ahead, size, step, [key])

    def _in_place_inputs(self, node: Node) -> tuple[str, ...]:
        if node.name in self.overlaid:
            return (self.needs.over.get(node.name, node.inputs[0]),)
        return tuple(node.inputs[at] for at in ops.find(node.op).memory.in_place)

    def _concat(self, step: int, node: Node, part: str) -> None:
        """Lets inputs be written where the result lies, where that is free; the others are to be copied."""
        shape, key = self.graph.values[node.name].shape, (node.name, part)
        whole = self._fresh(key, self._size(node.name), step)
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
        return self.needs.words.get(name, prod(self.graph.values[name].shape))


def _last_uses(graph: Graph, needs: Needs) -> dict[str, int]:
    """The last step that reads each value; the output is read once more, behind the last node."""
    reads = [(step, (*node.inputs, *needs.reads.get(node.name, ()))) for step, node in enumerate(graph.nodes)]
    last = {name: step for step, names in reads for name in names}
    return last | {graph.output: len(graph.nodes)}
