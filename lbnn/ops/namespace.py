"""The array functions a formula may use; each backend has one namespace that implements them.

Formulas also use `+ - *` between arrays, so an array is whatever supports those: a torch tensor, a numpy array
or a symbol of an ONNX graph under construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Shape = tuple[int, ...]
TailRow = tuple[float, float, float, float]
"""Coefficients of 1, Q, I1 and J2 in one linear combination of the normal tail's moments."""

AxisFactors = tuple[tuple[float, ...], ...]
"""For each spatial axis a factor for each position along it."""


@dataclass(frozen=True)
class Window:
    """A sliding window: one entry per spatial axis; `padding` is (before, after)."""

    kernel: Shape
    stride: Shape
    padding: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """The number of elements under the window."""
        count = 1
        for extent in self.kernel:
            count *= extent
        return count


class Namespace(Protocol):
    """What a backend provides. Arrays carry a leading batch axis; weights and constants do not."""

    def linear(self, bias: Any, *terms: tuple[Any, Any]) -> Any:
        """bias + the sum of x @ weight.T over the terms (x, weight)."""

    def conv(self, geometry: Any, bias: Any, *terms: tuple[Any, Any]) -> Any:
        """bias (one entry per channel, or a number) + the sum of the convolutions of the terms (x, weight)."""

    def conv_transposed(self, geometry: Any, bias: Any, *terms: tuple[Any, Any]) -> Any:
        """bias (one entry per channel, or a number) + the sum of the transposed convolutions of the terms."""

    def window_mean(self, x: Any, window: Window) -> Any:
        """The sum under each window, zeros outside, divided by `window.size`."""

    def scale(self, x: Any, factors: AxisFactors) -> Any:
        """x times the product of the factors of its position along each spatial axis."""

    def window_max(self, x: Any, window: Window, dilation: Shape, outside: float) -> Any:
        """The largest under each window, its taps `dilation` apart, with the number `outside` around x."""

    def every(self, x: Any, axis: int, start: int, step: int, count: int) -> Any:
        """`count` places along an axis (counted from the end, below 0), from `start` on, `step` apart."""

    def pad(self, x: Any, padding: tuple[tuple[int, int], ...], value: float = 0.0) -> Any:
        """Zeros, or another number, before and after each spatial axis."""

    def repeat(self, x: Any, factors: Shape) -> Any:
        """Each element so many times along each spatial axis, copies side by side."""

    def sqrt(self, x: Any) -> Any:
        """Square root of x >= 0, with gradient 0 at 0."""

    def abs(self, x: Any) -> Any:
        """Absolute value."""

    def ratio(self, x: Any, sigma: Any) -> Any:
        """x / sigma for x, sigma >= 0; where it is beyond 38 or sigma is 0 any number may stand (the tail is empty)."""

    def minimum(self, x: Any, bound: float) -> Any:
        """The smaller of x and a number."""

    def maximum(self, x: Any, bound: float) -> Any:
        """The larger of x and a number."""

    def between(self, x: Any, low: float, high: float) -> Any:
        """x limited to [low, high], either of them perhaps infinite; the slope at an end is that above it."""

    def narrow(self, x: Any) -> float:
        """Below this many standard deviations differences of the tail's moments lose more than a rule of order 8."""

    def exp(self, x: Any) -> Any:
        """The exponential."""

    def expm1(self, x: Any) -> Any:
        """e^x - 1, with its own accuracy near 0."""

    def log(self, x: Any) -> Any:
        """The natural logarithm of x > 0."""

    def normal_cdf(self, x: Any) -> Any:
        """P(Z < x) for Z standard normal, to the last digits of 1."""

    def sum_last(self, x: Any) -> Any:
        """The sum along the last axis, which stays with extent 1."""

    def max_last(self, x: Any) -> Any:
        """The largest along the last axis, which stays with extent 1."""

    def min_last(self, x: Any) -> Any:
        """The smallest along the last axis, which stays with extent 1."""

    def drop_last(self, x: Any) -> Any:
        """x without its last axis, of extent 1."""

    def knots(self, x: Any, numbers: tuple[float, ...]) -> Any:
        """(N, K) -> (N, len(numbers), K): x times each number."""

    def sum_knots(self, x: Any) -> Any:
        """(N, T, K) -> (N, K): the sum along the axis that `knots` made."""

    def fan(self, x: Any, numbers: tuple[float, ...]) -> Any:
        """x times each number, along a new last axis."""

    def shifts(self, x: Any, numbers: tuple[float, ...]) -> Any:
        """x plus each number, along a new last axis."""

    def mix(self, x: Any, rows: Any) -> Any:
        """The sums along the last axis with the weights of each row, in place of that axis."""

    def cells(self, x: Any, rows: Any) -> tuple[list[Any], Any]:
        """The numbers of the row floor(x), or of the nearest one there is, and the number of that row."""

    def tanh(self, x: Any) -> Any:
        """The hyperbolic tangent."""

    def leaky_relu(self, x: Any, slope: float) -> Any:
        """x where x >= 0, else slope * x."""

    def softplus(self, x: Any) -> Any:
        """log(1 + exp(x))."""

    def where_negative(self, x: Any, below: Any, above: Any) -> Any:
        """`below` where x < 0, else `above`."""

    def tail_mix(self, x: Any, rows: Sequence[TailRow]) -> list[Any]:
        """Linear combinations of 1, Q = P(Z > x), I1 = E[(Z-x)+] and J2 = E[(Z-x)+^2] for x >= 0, Z standard normal."""

    def scaled_tail(self, x: Any) -> tuple[Any, Any, Any]:
        """Q, I1 and J2 divided by the density at x, for x >= -0.35 (in float64: -0.02) and however large."""

    def mills(self, x: Any) -> Sequence[Any]:
        """E[((Z - x)+)^k] exp(x^2 / 2) for k = 0 to 4, for x >= 0 up to 40, Z standard normal."""

    def flatten(self, x: Any) -> Any:
        """All axes behind the batch axis made one."""

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        """Concatenation; axis 0 is the first behind the batch axis."""

    def halves(self, x: Any) -> tuple[Any, Any]:
        """The first and the second half of the first axis behind the batch axis."""
