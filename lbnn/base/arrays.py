"""The two kinds of numpy arrays: float64 for what is computed here, float32 for what devices and files hold."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
AnyArray = np.ndarray[Any, np.dtype[Any]]
