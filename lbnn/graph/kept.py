"""Facts of a graph that take long to find: each is found once and stays with the graph, as its cached properties do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from lbnn.graph.graph import Graph

P = ParamSpec("P")
T = TypeVar("T")


def kept(find: Callable[Concatenate[Graph, P], T]) -> Callable[Concatenate[Graph, P], T]:
    """A function of a graph, and of words or numbers, that is computed once for each graph."""

    @wraps(find)
    def found(graph: Graph, /, *more: P.args, **named: P.kwargs) -> T:
        facts = graph.__dict__.setdefault("kept", {})
        key = (find.__qualname__, more, tuple(named.items()))
        if key not in facts:
            facts[key] = find(graph, *more, **named)
        answer: T = facts[key]
        return answer

    return found
