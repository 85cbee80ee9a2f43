"""int8: means of weights in 8 bits, everything computed in integers."""

from __future__ import annotations

from lbnn.exporters.c.integers import integer_dtype

INT8_DTYPE = integer_dtype("int8", "lbnn_int8_linear", 8)
