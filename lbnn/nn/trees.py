"""How a module that torch exported takes its inputs apart: Moments by their fields.

Torch reads the fields of a named tuple by number there, which for Moments are rows. Iteration gives the fields of every
named tuple.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from torch.fx._pytree import register_pytree_flatten_spec


def take_apart_by_iteration() -> None:
    """Tells torch how, for all named tuples, because it knows them as one kind."""
    register_pytree_flatten_spec(namedtuple, _fields, _fits)  # type: ignore[arg-type]


def _fields(value: Any, spec: Any) -> list[Any]:
    return list(value)


def _fits(value: Any, spec: Any) -> bool:
    return len(value) == int(spec.num_children)
