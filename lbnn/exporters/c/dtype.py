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
from lbnn.exporters.c.pack import PackedLayer, pack_floats
from lbnn.exporters.options import DTYPES
from lbnn.graph import Graph
from lbnn.graph.plan import Needs

if TYPE_CHECKING:
    from lbnn.exporters.c.program import Call, Emission, Row


@dataclass(frozen=True)
class DType:
    """One arithmetic.

    `element` is the type of the work memory, `weight` that of stored numbers. `tolerance` is the largest error against
    the float64 reference that passes, or 0 where results must equal those of an integer reference bit for bit.
    `store(values, what)` rounds numbers to what C computes with, `lines(values, width)` writes them as C text. `rows`
    has the C facts of each operator in its general form; `small_sums` those of layers that share one small kernel
    (--optimize size). `pack(weight, bias, groups, pad, what)` gives the constant array of a layer, `round(graph)` the
    graph with weights that it holds; `half`: they are half floats. Of an integer arithmetic `mean_bits` are those of a
    weight's mean, `study(graph)` gives what its emitters ask, `scratch(graph, study)` the elements that a layer needs
    beside its values, `needs(graph, study)` how large those are, `close(emission)` what is called behind all layers,
    and `result(emission)` where mean and variance lie then.
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
    pack: Callable[..., PackedLayer] = pack_floats
    round: Callable[[Graph], Graph] = lambda graph: graph
    half: bool = False
    mean_bits: int = 0
    study: Callable[[Graph], Any] = lambda graph: None
    scratch: Callable[[Graph, Any], dict[str, int]] = lambda graph, facts: {}
    close: Callable[[Emission], list[Call]] = lambda emission: []
    needs: Callable[[Graph, Any], Needs] = lambda graph, facts: Needs()
    result: Callable[[Emission], tuple[str, str]] = lambda emission: emission.output_arrays

    @property
    def is_integer(self) -> bool:
        """Whether everything is computed in integers."""
        return self.mean_bits > 0


def find_dtype(name: str, half: bool = False) -> DType:
    """The arithmetic called `name`, one of DTYPES; `half`: with weights in half floats."""
    assert name in DTYPES, name
    module, prefix = ("halves", "HALF") if half else (f"dtypes.{name}", name.upper())
    found: DType = getattr(import_module(f"lbnn.exporters.c.{module}"), f"{prefix}_DTYPE")
    return found
