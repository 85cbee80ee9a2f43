"""The pair every layer takes and gives: the mean and the variance of independent elements."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

Part = TypeVar("Part")


class Moments(NamedTuple, Generic[Part]):
    """Mean and variance of independent random elements: torch tensors, numpy arrays or symbols of a graph.

    A named tuple, so that `mean, var = model(x)` works and torch's wrappers (DataParallel, compile, vmap) see
    through it. `+`, `-` and `*` are those of independent random variables, not of tuples.
    """

    mean: Part
    var: Part

    @property
    def std(self) -> Any:
        """The standard deviation."""
        return self.var**0.5  # type: ignore[operator]

    @property
    def shape(self) -> Any:
        """The shape of the mean, which is also that of the variance."""
        return self.mean.shape  # type: ignore[attr-defined]

    def __add__(self, other: Any) -> Moments[Any]:
        """The sum with independent Moments (variances add), with itself, or with a known value (the mean moves)."""
        if other is self:
            return self * 2
        if isinstance(other, Moments):
            return Moments(self.mean + other.mean, self.var + other.var)
        return Moments(self.mean + other, self.var) if _is_value(other) else NotImplemented

    def __sub__(self, other: Any) -> Moments[Any]:
        return self * 0 if other is self else self.__add__((-1) * other)

    def __mul__(self, scale: Any) -> Moments[Any]:
        """A known multiple: the variance grows with the square."""
        return Moments(self.mean * scale, self.var * (scale * scale)) if _is_value(scale) else NotImplemented

    def __truediv__(self, divisor: Any) -> Moments[Any]:
        return self.__mul__(1 / divisor)

    def __neg__(self) -> Moments[Any]:
        return self.__mul__(-1)

    def __radd__(self, other: Any) -> Moments[Any]:
        return self.__add__(other)

    def __rmul__(self, scale: Any) -> Moments[Any]:
        return self.__mul__(scale)

    def __rsub__(self, other: Any) -> Moments[Any]:
        return (-self).__add__(other)

    def flatten(self, start_dim: int = 1, end_dim: int = -1) -> Moments[Any]:
        """The axes from `start_dim` to `end_dim` made one, as `torch.flatten` does."""
        mean, var = self.mean.flatten(start_dim, end_dim), self.var.flatten(start_dim, end_dim)  # type: ignore[attr-defined]
        return Moments(mean, var)


def _is_value(x: Any) -> bool:
    """A number or an array, as opposed to Moments or something that does arithmetic in its own way."""
    return not isinstance(x, Moments) and (isinstance(x, (int, float)) or hasattr(x, "dtype"))
