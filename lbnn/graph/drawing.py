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
    boxes = [_box(graph, name, number) for name, number in place.items()]
    if graph.head is not None:
        lines.append(_straight(place[graph.output], len(boxes)))
        boxes.append(_head_box(graph, graph.head, len(boxes)))
    width, height = WIDTH + LANE * (lanes + 1) + 2, len(boxes) * (BOX + GAP) - GAP + 2
    head = f'<svg class="graph" viewBox="-1 -1 {width} {height}" role="img" aria-label="graph of the network">'
    return "\n".join([head.replace(">", f' style="max-width:{width}px">'), *lines, *boxes, "</svg>"])


def _box(graph: Graph, name: str, number: int) -> str:
    value = graph.values[name]
    op = graph.by_name[name].op if name in graph.by_name else "raw units in"
    last = name == graph.output and graph.head is None
    kind = "out" if last else "in" if name == INPUT else "random" if value.random else "point"
    shape = "×".join(map(str, value.shape)) or "1"
    return _drawn(kind, number, op, name, f"{shape} {'mean + variance' if value.random else 'known'}")


def _head_box(graph: Graph, head: str, number: int) -> str:
    """What makes classes of the output."""
    count = "×".join(map(str, graph.values[graph.output].shape))
    return _drawn("out", number, head, "head", f"{count} {'probability' if count == '1' else 'probabilities'}")


def _drawn(kind: str, number: int, op: str, name: str, gives: str) -> str:
    y = number * (BOX + GAP)
    return (
        f'<g class="node {kind}"><rect x="0" y="{y}" width="{WIDTH}" height="{BOX}" rx="8"/>'
        f'<text x="14" y="{y + 18}" class="op">{_text(op)}</text>'
        f'<text x="14" y="{y + 33}" class="name">{_text(name)}</text>'
        f'<text x="{WIDTH - 14}" y="{y + 26}" text-anchor="end" class="shape">'
        f"{_text(gives)}</text></g>"
    )


def _lines(graph: Graph, place: Mapping[str, int]) -> tuple[list[str], int]:
    """Straight to the next box, else along a lane at the right; and how many lanes there are."""
    lines, lanes = [], 0
    for node in graph.nodes:
        for source in dict.fromkeys(node.inputs):
            start, end = place[source], place[node.name]
            if end == start + 1:
                lines.append(_straight(start, end))
                continue
            top, bottom = start * (BOX + GAP) + BOX, end * (BOX + GAP)
            lanes += 1
            x = WIDTH + LANE * lanes
            path = f"M{WIDTH} {top - BOX / 2}H{x - 6}q6 0 6 6V{bottom + BOX / 2 - 6}q0 6 -6 6H{WIDTH}"
            lines.append(f'<path class="edge" d="{path}"/>')
    return lines, lanes


def _straight(start: int, end: int) -> str:
    """From a box to the one below it; the output need not be the last."""
    return f'<path class="edge" d="M{WIDTH / 2} {start * (BOX + GAP) + BOX}V{end * (BOX + GAP)}"/>'


def _text(text: str) -> str:
    return escape(text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 3]}...")
