"""How much the suite tries: a part that fits into minutes, or all of it with LBNN_THOROUGH=1 (`make thorough`).

The part is always the same, so that a failure comes again. What takes long to build is built once for all processes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

THOROUGH = os.environ.get("LBNN_THOROUGH") == "1"
T = TypeVar("T")


def part(cases: Iterable[T], count: int) -> list[T]:
    """`count` of the cases, as far from each other as they can be, with the first and the last; or all."""
    every = list(cases)
    if THOROUGH or count >= len(every):
        return every
    return [every[round(place * (len(every) - 1) / max(count - 1, 1))] for place in range(count)]


def chosen(cases: Iterable[T], *few: T) -> list[T]:
    """These few of the cases, in their order; or all."""
    every = list(cases)
    assert set(few) <= set(every), few
    return [case for case in every if THOROUGH or case in few]


def of_run(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that all processes of a run share."""
    own = factory.getbasetemp()
    path = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    path.mkdir(exist_ok=True)
    return path


def built_once(path: Path, build: Callable[[Path], None]) -> Path:
    """`path`, built by the first process that asks; the others wait for it."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            unfinished = path.with_name(f"unfinished_{path.name}")
            build(unfinished)
            unfinished.rename(path)
    return path
