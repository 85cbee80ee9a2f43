"""Any function of one number as an activation: the layer that keeps it as a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from lbnn.base.errors import LbnnError
from lbnn.nn.base import Layer
from lbnn.nn.tabulating import FitError, sample_function, stored_error
from lbnn.ops import Shape
from lbnn.ops.stored_function import FEWEST_CELLS, MOST_CELLS, StoredFunction, stored_function

WARNED, REFUSED = 0.25, 0.02
"""Of a standard deviation, from which on a warning says so; and of the function's extent, which is too far off."""


class Pointwise(Layer):
    """f of each element, for any continuous function f of one number.

    `f` takes a tensor and returns one of the same shape. It is asked once, in float64, for its values over `range`,
    which are kept as a table of `cells` cubics; beyond the range the function goes on as a line, with the slope that it
    has at that end. The table is all that a model file holds, and what every backend computes with. `error()` says how
    far moments are from quadrature; `name` is for people.
    """

    op = "tabulated"

    def __init__(
        self,
        f: Callable[[Tensor], Tensor],
        range: tuple[float, float] = (-8.0, 8.0),
        cells: int = 128,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if type(cells) is not int or not FEWEST_CELLS <= cells <= MOST_CELLS:
            raise LbnnError(f"cells must be an integer from {FEWEST_CELLS} to {MOST_CELLS}, got {cells!r:.50}")
        self.name = _name(f) if name is None else str(name)
        self.table: dict[str, Any]
        self._error: FitError | None
        self.table, self._error = sample_function(f, range, cells)
        self._judge()

    def _judge(self) -> None:
        """Refuses what the table is too coarse for, and warns of what its moments are."""
        error, what = self.error(), self.name or "the function"
        if error.value > REFUSED:
            raise LbnnError(f"{what}: the table is {error.value:.0%} off, near x = {error.at:g}; take more cells")
        if max(error.mean, error.sd) > WARNED:
            off = (
                f"up to {max(error.mean, error.sd):.0%} of a standard deviation off for sigma below {error.narrow:.2g}"
            )
            warnings.warn(f"{what}: moments are {off}; take more cells, or Piecewise for kinks", stacklevel=3)

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """The layer of a table."""
        layer = cls.__new__(cls)
        Layer.__init__(layer)
        layer.name, layer.table, layer._error = "", dict(attrs), None
        layer.function()
        return layer

    def function(self) -> StoredFunction:
        """The stored function, with the numbers that moments are made of."""
        found: StoredFunction = stored_function(**self.table)
        return found

    def error(self) -> FitError:
        """How far values and moments are from those of f; of a layer from a file, moments from those of its table."""
        if self._error is None:
            self._error = stored_error(self.table)
        return self._error

    @property
    def rises(self) -> bool:
        """No cubic of the table falls anywhere."""
        _, b, c, d = self.function().cells.T
        bottom = np.clip(np.divide(-c, 3.0 * d, out=np.zeros_like(c), where=d > 0.0), 0.0, 1.0)
        return bool(min((b + t * (2.0 * c + 3.0 * t * d)).min() for t in (0.0, 1.0, bottom)) >= 0.0)

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The table."""
        return self.table

    def extra_repr(self) -> str:
        """The name, the range and the number of cells; the table is too long to read."""
        function = self.function()
        ends = f"range=({function.start:g}, {function.start + function.count * function.step:g})"
        return ", ".join([*[self.name] * bool(self.name), ends, f"cells={function.count}"])


def _name(f: Any) -> str:
    """That of a function or of a layer; a lambda has none."""
    found = getattr(f, "__name__", type(f).__name__)
    return found if found.isidentifier() else ""
