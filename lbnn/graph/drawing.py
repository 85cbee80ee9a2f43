"""A graph as an SVG picture: a box for each node in the order of computation, and a line for each value."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from lbnn.graph import INPUT, Graph

WIDTH, BOX, GAP = 300, 42, 18  # pixels: a box and the space below it
LANE = 14  # pixels between lines that pass boxes
MOST_NODES = 80
LONGEST_LABEL = 34  # characters of a name or an operator in a box


def draw_graph(graph: Graph) -> str:
    """SVG in the page's colours; nothing for a graph with more nodes than one would look at."""
    if len(graph.nodes) > MOST_NODES:
        return ""
    place = {name: number for number, name in enumerate(graph.values)}
    lines, lanes = _lines(graph, place)
    width, height = WIDTH + LANE * (lanes + 1) + 2, len(place) * (BOX + GAP) - GAP + 2
    boxes = [_box(graph, name, number) for name, number in place.items()]
    head = f'<svg class="graph" viewBox="-1 -1 {width} {height}" role="img" aria-label="graph of the network">'
    return "\n".join([head.replace(">", f' style="max-width:{width}px">'), *lines, *boxes, "</svg>"])


def _box(graph: Graph, name: str, number: int) -> str:
    value, y = graph.values[name], number * (BOX + GAP)
    op = graph.by_name[name].op if name in graph.by_name else "raw units in"
    kind = "out" if name == graph.output else "in" if name == INPUT else "random" if value.random else "point"
    shape = "×".join(map(str, value.shape)) or "1"
    return (
        f'<g class="node {kind}"><rect x="0" y="{y}" width="{WIDTH}" height="{BOX}" rx="8"/>'
        f'<text x="14" y="{y + 18}" class="op">{_text(op)}</text>'
        f'<text x="14" y="{y + 33}" class="name">{_text(name)}</text>'
        f'<text x="{WIDTH - 14}" y="{y + 26}" text-anchor="end" class="shape">'
        f"{_text(shape)} {'mean + variance' if value.random else 'known'}</text></g>"
    )


def _lines(graph: Graph, place: Mapping[str, int]) -> tuple[list[str], int]:
    """Straight to the next box, else along a lane at the right; and how many lanes there are."""
    lines, lanes = [], 0
    for node in graph.nodes:
        for source in dict.fromkeys(node.inputs):
            start, end = place[source], place[node.name]
            top, bottom = start * (BOX + GAP) + BOX, end * (BOX + GAP)
            if end == start + 1:
                lines.append(f'<path class="edge" d="M{WIDTH / 2} {top}V{bottom}"/>')
                continue
            lanes += 1
            x = WIDTH + LANE * lanes
            path = f"M{WIDTH} {top - BOX / 2}H{x - 6}q6 0 6 6V{bottom + BOX / 2 - 6}q0 6 -6 6H{WIDTH}"
            lines.append(f'<path class="edge" d="{path}"/>')
    return lines, lanes


def _text(text: str) -> str:
    return escape(text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 3]}...")
