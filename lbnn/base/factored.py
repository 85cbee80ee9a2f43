"""Gaussian weights whose variances are products of a factor of the output and one of the input."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

from lbnn.base.moments import Part


class Factored(NamedTuple, Generic[Part]):
    """Independent Gaussians: V[n, i] = row[n] column[g, i], with g the group of output n.

    `mean` is (out, in, ...) as torch lays weights out, `row` is (out,), `column` (groups, in, ...). Both are factors of
    the variance, the squares of alpha and beta in sigma[n, i] = alpha_n beta_i.
    """

    mean: Part
    row: Part
    column: Part

    @property
    def shape(self) -> Any:
        """The shape of the weight."""
        return self.mean.shape  # type: ignore[attr-defined]

    @property
    def groups(self) -> int:
        """How many sums of inputs there are for all outputs."""
        return len(self.column)  # type: ignore[arg-type]

    @property
    def var(self) -> Any:
        """The variance of each weight."""
        row, column, rank = self._any(self.row), self._any(self.column), len(self.shape)
        by_group = row.reshape((self.groups, -1) + (1,) * (rank - 1)) * column.reshape(
            (self.groups, 1, *self.shape[1:])
        )
        return by_group.reshape(self.shape)

    def times_rows(self, scale: Any) -> Factored[Any]:
        """The weights of outputs that are multiplied by these numbers, one each."""
        rows = scale.reshape((-1,) + (1,) * (len(self.shape) - 1))
        return Factored(self.mean * rows, self.row * scale**2, self.column)

    def times_columns(self, scale: Any) -> Factored[Any]:
        """The weights for inputs that are multiplied: `scale` is (out, in, 1, ...), the same for all of a group."""
        mean = self._any(self.mean) * scale
        if self.shape[1] == 1:  # then a group has one scale, and its outputs can have it
            return Factored(mean, self.row * scale.reshape(-1) ** 2, self.column)
        first = scale[:: self.shape[0] // self.groups]
        return Factored(mean, self.row, self.column * first**2)

    @staticmethod
    def _any(part: Any) -> Any:
        return part
