"""Numbers as C text: every float32 comes back bit for bit."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError

CHUNK_ROWS = 256
"""Lines that are written by one format: many large models have whole numbers, such as padding, in few places."""


def float32(values: Any, what: str) -> Floats:
    """Rounded once, to what the C code computes with; numbers that float32 can't hold are an error."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(values, dtype=np.float32)
    if not np.all(np.isfinite(rounded)):
        raise LbnnError(f"{what} holds numbers beyond 3.4e38, which is all that float32 can hold; rescale the model")
    return rounded


def scalar(value: float) -> str:
    """The shortest text that gives this float32 back."""
    return _marked(str(np.float32(value))) + "f"


def rows(values: Floats, width: int) -> list[str]:
    """Lines of `width` numbers; nine digits tell all float32 apart."""
    flat, lines = values.reshape(-1), list[str]()
    for start in range(0, flat.size, CHUNK_ROWS * width):
        lines += _lines(flat[start : start + CHUNK_ROWS * width], width)
    return lines


def _lines(flat: Floats, width: int) -> list[str]:
    """All of them by one format where that gives every number a point or an exponent: a whole number gets none."""
    if np.any(flat == np.rint(flat)):
        return [_row(flat[start : start + width]) for start in range(0, flat.size, width)]
    return (_format(flat.size, width) % tuple(flat.tolist())).split("\n")


@lru_cache(64)
def _format(size: int, width: int) -> str:
    """Of so many numbers: few sizes are many lines."""
    counts = [min(width, size - start) for start in range(0, size, width)]
    return "\n".join(", ".join(["%.9gf"] * count) for count in counts)


def _row(values: Floats) -> str:
    texts = ("%.9g " * values.size % tuple(values.tolist())).split()
    return "f, ".join(map(_marked, texts)) + "f"


def _marked(text: str) -> str:
    """`1f` is no number in C, `1.0f` is."""
    return text if "." in text or "e" in text else text + ".0"


def listed(values: Any) -> str:
    """Numbers of an array inside a function, eight a line."""
    return "        " + ",\n        ".join(rows(np.asarray(values, dtype=np.float32), 8))


def nested(values: Any) -> str:
    """Rows of a two-dimensional array, in braces, eight numbers a line."""
    texts = (",\n     ".join(rows(row, 8)) for row in np.asarray(values, dtype=np.float32))
    return ",\n".join(f"    {{{text}}}" for text in texts)
