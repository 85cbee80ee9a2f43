"""float32: weights, work memory and results are C floats."""

from __future__ import annotations

from lbnn.exporters.c import literals
from lbnn.exporters.c.calls import ROWS, SMALL_SUMS
from lbnn.exporters.c.dtype import DType

DTYPE = DType(
    name="float32",
    bytes=4,
    c_type="float",
    binary="<f4",
    tolerance=1e-5,
    base_header="lbnn_pointwise.h",
    store=literals.float32,
    scalar=literals.scalar,
    lines=literals.rows,
    rows=ROWS,
    small_sums=SMALL_SUMS,
)
