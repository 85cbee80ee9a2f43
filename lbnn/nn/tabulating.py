"""How a function becomes a table, and how far the table's values and moments are from the function's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lbnn.base.arrays import Array
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops import find
from lbnn.ops.pieces import to_float32
from lbnn.ops.stored_function import MOST_STORED, StoredFunction, make_table, plain_function, stored_function
from lbnn.ops.tabulated import NARROW_CELL
from lbnn.ops.torch import TORCH

FINE = 16
"""Points of a cell at which values are compared, and differences taken."""
SIGMAS = (0.3, 0.7, 1.0, 1.2, 4.0, 30.0)
"""In cells: at which moments are compared."""
FLOOR = 0.1
"""Errors are relative to the result's standard deviation, or to this share of the largest one for that sigma."""


@dataclass(frozen=True)
class FitError:
    """How far a table is from its function.

    `value`: the largest difference of values over the range, as a share of the function's extent there, found `at` a
    place. `mean` and `sd`: the largest errors of moments over means in the range and any sigma, in units of the
    result's standard deviation (or of a tenth of the largest one for that sigma). `wide_mean` and `wide_sd`: the same
    for sigma from `narrow` on, 1.1 cells; below it what counts is how straight the function is within a cell.
    """

    value: float
    at: float
    mean: float
    sd: float
    wide_mean: float
    wide_sd: float
    narrow: float

    def __str__(self) -> str:
        return (
            f"values within {self.value:.0e} of the extent; mean and standard deviation within {self.mean:.0e} and "
            f"{self.sd:.0e} of a standard deviation, from sigma = {self.narrow:.2g} on within {self.wide_mean:.0e} and "
            f"{self.wide_sd:.0e}"
        )


def sample_function(f: Any, span: tuple[float, float], cells: int) -> tuple[dict[str, Any], FitError]:
    """The attributes of a table of f over a span, and its error."""
    start, step = _places(span, cells)
    value = _Sampled(f)
    knots: Array = start + step * np.arange(cells + 1, dtype=np.float64)
    value.check(knots)
    table = make_table(start, step, value(knots).tolist(), _slopes(value, knots, step).tolist())
    function = stored_function(**table)
    fine = np.linspace(knots[0], knots[-1], FINE * cells + 1)
    exact = value(fine)
    _refuse_jump(value, fine, exact)
    off = np.abs(plain_function(function.cells, (fine - start) / step)[0] - exact)
    extent = max(float(np.ptp(exact)), 1e-3 * float(np.abs(exact).max()), 1e-30)
    return table, _errors(_continued(value, function), table, float(off.max()) / extent, float(fine[off.argmax()]))


def stored_error(table: dict[str, Any]) -> FitError:
    """Of a table whose function is not known any more: its moments against quadrature of itself."""
    function = stored_function(**table)

    def value(x: Array) -> Array:
        return plain_function(function.cells, (x - function.start) / function.step)[0]

    return _errors(value, table, 0.0, function.start)


def _places(span: Any, cells: int) -> tuple[float, float]:
    """Where the table starts and how wide its cells are, as float32 numbers."""
    try:
        low, high = (float(end) for end in span)
    except (TypeError, ValueError):
        raise LbnnError(f"range must be two numbers (low, high), got {span!r:.50}") from None
    if not -MOST_STORED <= low < high <= MOST_STORED:
        raise LbnnError(f"range must rise between -{MOST_STORED:g} and {MOST_STORED:g}, got ({low:g}, {high:g})")
    return to_float32(low), to_float32((high - low) / cells)


class _Sampled:
    """f on arrays of float64, with what it must be: a function of each number by itself, and finite."""

    def __init__(self, f: Callable[[Tensor], Tensor]) -> None:
        if not callable(f):
            raise LbnnError(f"f must be a function of a tensor, got {type(f).__name__}")
        self.f = f

    def __call__(self, x: Array) -> Array:
        places = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float64))
        found = self._ask(places)
        if not bool(torch.isfinite(found).all()):
            where = float(places[~torch.isfinite(found)][0])
            raise LbnnError(f"f is not finite at x = {where:g}; give a range in which it is, as range=(low, high)")
        if float(found.abs().max()) > MOST_STORED:
            raise LbnnError(f"f passes {MOST_STORED:g} within the range; give a smaller one, as range=(low, high)")
        return np.asarray(found.numpy())

    def check(self, x: Array) -> None:
        """Other numbers beside it, in another order, change no value."""
        if not np.allclose(self(x[2::3][::-1]), self(x)[2::3][::-1], rtol=1e-9, atol=1e-12):
            raise LbnnError("f gives other values among other numbers; it must be a function of each number by itself")

    def _ask(self, places: Tensor) -> Tensor:
        with torch.no_grad():
            try:
                found = self.f(places)
            except (TypeError, ValueError, RuntimeError) as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise LbnnError(f"f can't be computed on a float64 tensor: {reason:.100}") from None
        if not isinstance(found, Tensor) or found.shape != places.shape:
            got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise LbnnError(f"f must return a tensor of the shape that it is given, {tuple(places.shape)}; got {got}")
        return found.detach().to("cpu", torch.float64)


def _slopes(value: Callable[[Array], Array], knots: Array, step: float) -> Array:
    """f' by differences of fourth order, at the ends to one side; at a kink the mean of both slopes."""
    apart = step / FINE
    inner: Array = knots[1:-1, None] + apart * np.array([-2.0, -1.0, 1.0, 2.0])
    middle = value(inner.ravel()).reshape(inner.shape) @ (np.array([1.0, -8.0, 8.0, -1.0]) / (12.0 * apart))
    forward = np.array([-25.0, 48.0, -36.0, 16.0, -3.0]) / (12.0 * apart)
    steps = apart * np.arange(5, dtype=np.float64)
    first, last = (value(end + sign * steps) @ (sign * forward) for end, sign in _ends(knots))
    return np.concatenate([[first], middle, [last]])


def _ends(knots: Array) -> tuple[tuple[float, float], tuple[float, float]]:
    return (float(knots[0]), 1.0), (float(knots[-1]), -1.0)


def _refuse_jump(value: Callable[[Array], Array], places: Array, found: Array) -> None:
    """Halves the interval with the largest step: over one of no width a continuous function does not rise."""
    at = int(np.abs(np.diff(found)).argmax())
    low, high = float(places[at]), float(places[at + 1])
    first = abs(found[at + 1] - found[at])
    for _ in range(25):
        ends = value(np.array([low, 0.5 * (low + high), high]))
        left = abs(ends[1] - ends[0]) >= abs(ends[2] - ends[1])
        low, high = (low, 0.5 * (low + high)) if left else (0.5 * (low + high), high)
    rest = abs(float(np.diff(value(np.array([low, high])))[0]))
    if rest > 0.2 * first > 0.0:
        raise LbnnError(f"f jumps near x = {low:g}; only a continuous function has moments by a table")


def _continued(value: Callable[[Array], Array], function: StoredFunction) -> Callable[[Array], Array]:
    """f in the range and its lines beyond."""
    low, high = function.start, function.start + function.step * function.count

    def whole(x: Array) -> Array:
        inside = np.clip(x, low, high)
        slope = np.where(x < low, function.ends[0][0], function.ends[1][0]) / function.step
        return value(inside.ravel()).reshape(x.shape) + slope * (x - inside)

    return whole


def _errors(value: Callable[[Array], Array], table: dict[str, Any], off: float, at: float) -> FitError:
    """Moments at every half of a cell, for each sigma."""
    function = stored_function(**table)
    means = function.start + function.step * (np.arange(2 * function.count + 1) / 2.0)
    pairs = [_moment_errors(value, table, means, sigma * function.step) for sigma in SIGMAS]
    wide = [pair for pair, sigma in zip(pairs, SIGMAS, strict=True) if sigma * sigma >= NARROW_CELL]
    (mean, sd), (wide_mean, wide_sd) = (map(max, zip(*found, strict=True)) for found in (pairs, wide))
    return FitError(off, at, mean, sd, wide_mean, wide_sd, math.sqrt(NARROW_CELL) * function.step)


def _moment_errors(
    value: Callable[[Array], Array], table: dict[str, Any], means: Array, sigma: float
) -> tuple[float, float]:
    """Largest errors of the mean and of the standard deviation, in units of the latter."""
    z = np.linspace(-7.0, 7.0, 197)
    mass = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    found = value(means[:, None] + sigma * z)
    mean = found @ mass
    sd = np.sqrt((found - mean[:, None]) ** 2 @ mass)
    unit = np.maximum(sd, max(FLOOR * float(sd.max()), 1e-9 * float(np.abs(mean).max()), 1e-30))
    x = Moments(torch.from_numpy(means), torch.full((len(means),), sigma * sigma, dtype=torch.float64))
    got = find("tabulated").formula(TORCH, x, **table)
    errors = np.abs(got.mean.numpy() - mean) / unit, np.abs(np.sqrt(got.var.numpy()) - sd) / unit
    return float(errors[0].max()), float(errors[1].max())
