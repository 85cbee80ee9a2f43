"""float32: weights, work memory and results are C floats."""

from __future__ import annotations

import numpy as np

from lbnn.exporters.c import literals
from lbnn.exporters.c.calls import ROWS, SMALL_SUMS
from lbnn.exporters.c.dtype import DType

FLOAT32_DTYPE = DType(
    name="float32",
    element=np.dtype("<f4"),
    weight=np.dtype("<f4"),
    tolerance=1e-5,
    base_header="lbnn_pointwise.h",
    store=literals.float32,
    lines=literals.rows,
    rows=ROWS,
    small_sums=SMALL_SUMS,
)
