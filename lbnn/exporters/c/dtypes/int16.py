"""int16: means of weights in 12 bits, everything computed in integers."""

from __future__ import annotations

from lbnn.exporters.c.integers import integer_dtype

INT16_DTYPE = integer_dtype("int16", "lbnn_int16_linear", 12)
