"""The arithmetic of generated C as an object: what plan, packing, self-test, footprint and parity ask of it.

A new one is a module of lbnn/exporters/c/dtypes with its own table of kernels, which defines NAME_DTYPE; its name
goes into the options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn.base.arrays import AnyArray
from lbnn.exporters.options import DTYPES

if TYPE_CHECKING:
    from lbnn.exporters.c.program import Row


@dataclass(frozen=True)
class DType:
    """One arithmetic.

    `element` is the type of the work memory, `weight` that of stored numbers. `tolerance` is the largest error against
    the float64 reference that passes, or 0 where results must equal those of an integer reference bit for bit.
    `store(values, what)` rounds numbers to what C computes with, `lines(values, width)` writes them as C text. `rows`
    has the C facts of each operator in its general form; `small_sums` those of layers that share one small kernel
    (--optimize size).
    """

    name: str
    element: np.dtype[Any]
    weight: np.dtype[Any]
    tolerance: float
    base_header: str
    store: Callable[[Any, str], AnyArray]
    lines: Callable[[AnyArray, int], list[str]]
    rows: Mapping[str, Row]
    small_sums: Row


def find_dtype(name: str) -> DType:
    """The arithmetic called `name`, one of DTYPES."""
    assert name in DTYPES, name
    found: DType = getattr(import_module(f"lbnn.exporters.c.dtypes.{name}"), f"{name.upper()}_DTYPE")
    return found
