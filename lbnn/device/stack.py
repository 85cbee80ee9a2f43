"""Worst-case stack of a function, from the call graphs that gcc writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lbnn.base.errors import LbnnError

STACK_FLAGS = ("-fstack-usage", "-fcallgraph-info=su")
"""Make gcc write a call graph (*.ci) beside each object."""


@dataclass(frozen=True)
class StackBound:
    """Worst-case stack of a function in bytes, the calls that reach it, and functions whose own use is unknown."""

    bytes: int
    path: tuple[str, ...]
    unknown: frozenset[str]


_NODE = re.compile(r'node: \{ title: "([^"]+)" label: "([^"]*)"')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
_USE = re.compile(r"(\d+) bytes \((static|dynamic|dynamic,bounded)\)")


def stack_bound(callgraphs: Iterable[Path], function: str) -> StackBound:
    """The worst case over the call graph that gcc writes with STACK_FLAGS (*.ci, one for each source).

    Functions of the compiler's libraries are not in it: they count as 0 and are named as unknown.
    """
    text = "\n".join(path.read_text() for path in callgraphs)
    uses: dict[str, re.Match[str] | None] = {}
    for title, label in _NODE.findall(text):
        # A function that one source defines and another calls has a node in both graphs.
        uses[title] = _USE.search(label) or uses.get(title)
    calls: dict[str, set[str]] = {}
    for caller, callee in _EDGE.findall(text):
        calls.setdefault(caller, set()).add(callee)
    # A static function's title is "file.c:name".
    start = next((title for title in uses if title.split(":")[-1] == function), None)
    if start is None:
        raise LbnnError(f"{function} is not in the call graph; compile it with -fstack-usage -fcallgraph-info=su")
    return _deepest(start, uses, calls, ())


def _deepest(
    title: str,
    uses: Mapping[str, re.Match[str] | None],
    calls: Mapping[str, set[str]],
    above: tuple[str, ...],
) -> StackBound:
    if title in above:
        raise LbnnError(f"{title} is recursive, so its stack has no bound")
    below = [_deepest(callee, uses, calls, (*above, title)) for callee in sorted(calls.get(title, ()))]
    deepest = max(below, key=lambda bound: bound.bytes, default=StackBound(0, (), frozenset()))
    use = uses.get(title)
    known = use is not None and use[2] != "dynamic"
    unknown = frozenset[str]().union(*(bound.unknown for bound in below), () if known else (title,))
    own = int(use[1]) if use else 0
    return StackBound(own + deepest.bytes, (PurePosixPath(title).name, *deepest.path), unknown)
