"""What the integer arithmetics share: numbers as C text, and the DType of each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lbnn.base.arrays import AnyArray
from lbnn.exporters.c import literals
from lbnn.exporters.c.dtype import DType
from lbnn.exporters.c.int_calls import closing_calls, integer_rows
from lbnn.exporters.c.int_conv import map_closing, map_result, rows_with_maps
from lbnn.exporters.c.int_memory import map_needs, map_scratch
from lbnn.graph.ints.study import study


def integer_dtype(name: str, kernel: str, mean_bits: int) -> DType:
    """int32 work memory; results equal the integer reference."""
    rows = rows_with_maps(kernel.replace("linear", "conv"), integer_rows(kernel))
    return DType(
        name=name,
        element=np.dtype("<i4"),
        weight=np.dtype("<i1" if mean_bits == 8 else "<i2"),
        tolerance=0.0,
        base_header="lbnn_int.h",
        store=_as_it_is,
        lines=_lines,
        rows=rows,
        small_sums=rows["linear"],
        mean_bits=mean_bits,
        study=partial(study, mean_bits=mean_bits),
        scratch=map_scratch,
        close=lambda emission: map_closing(emission, closing_calls(emission)),
        needs=map_needs,
        result=map_result,
    )


def _as_it_is(values: Any, what: str) -> AnyArray:
    return np.asarray(values)


def _lines(values: AnyArray, width: int) -> list[str]:
    if values.dtype == np.float32:
        return literals.rows(values, width)
    return [", ".join(map(str, values[at : at + width].tolist())) for at in range(0, values.size, width)]
