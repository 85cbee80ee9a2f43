"""Moments by definition: exact enumeration for multilinear operators, quadrature for pointwise ones."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from mpmath import mp

from lbnn import Moments
from lbnn.base.factored import Factored
from lbnn.ops import Op, Sample

MOST_RANDOM = 9
"""How many elements are random in one enumeration: 2^9 networks; all others are known numbers."""


def draw(op: Op, sample: Sample, rng: np.random.Generator) -> tuple[list[Any], dict[str, Any]]:
    """Random inputs and parameters for a sample: Moments where the operator takes them, arrays elsewhere."""
    wants_point = [op.point_inputs] * len(sample.inputs)
    if op.is_mixed:
        wants_point = [False, True]
    inputs = [
        rng.normal(size=shape) if point else _random_moments(shape, rng)
        for shape, point in zip(sample.inputs, wants_point, strict=True)
    ]
    params: dict[str, Any] = {key: _random_moments(sample.params[key], rng) for key in op.gaussian}
    if sample.variance != "full":
        groups = sample.attrs.get("groups", 1)
        params |= {key: _factored(sample.params[key], groups, sample.variance, rng) for key in op.factored}
    params |= {key: rng.uniform(0.5, 1.5, size=sample.params[key]) for key in op.constants}
    return inputs, params


def _random_moments(shape: tuple[int, ...], rng: np.random.Generator) -> Moments[Any]:
    return Moments(rng.normal(size=shape), rng.uniform(0.05, 2.0, size=shape))


def _factored(shape: tuple[int, ...], groups: int, variance: str, rng: np.random.Generator) -> Factored[Any]:
    """Factors for each group, as input scales that are folded into them leave behind; or of rows alone."""
    columns = (groups, *shape[1:])
    column = rng.uniform(0.2, 1.5, size=columns) if variance == "rank1" else np.ones(columns)
    return Factored(rng.normal(size=shape), rng.uniform(0.05, 1.5, size=shape[:1]), column)


def keep_few_random(values: list[Any], rng: np.random.Generator) -> list[Any]:
    """The same means, with a variance left in MOST_RANDOM elements at most, chosen at random over all values."""
    factored = {i: _few_factors(value, rng) for i, value in enumerate(values) if isinstance(value, Factored)}
    free = [value for value in values if isinstance(value, Moments)]
    sizes, taken = [value.var.size for value in free], sum(np.count_nonzero(value.var) for value in factored.values())
    chosen = np.zeros(sum(sizes), dtype=bool)
    chosen[rng.permutation(sum(sizes))[: MOST_RANDOM - taken]] = True
    masks = np.split(chosen, np.cumsum(sizes)[:-1])
    fewer = iter(
        Moments(value.mean, np.where(mask.reshape(value.var.shape), value.var, 0.0))
        for value, mask in zip(free, masks, strict=True)
    )
    return [factored[i] if i in factored else next(fewer) for i in range(len(values))]


def _few_factors(value: Factored[Any], rng: np.random.Generator) -> Factored[Any]:
    """Two outputs and two places of the kernel keep theirs: at most four elements are random."""
    row, column = np.zeros_like(value.row), np.zeros_like(value.column).reshape(value.groups, -1)
    rows, places = rng.permutation(row.size)[:2], rng.permutation(column.shape[1])[:2]
    row[rows], column[:, places] = value.row[rows], value.column.reshape(column.shape)[:, places]
    return Factored(value.mean, row, column.reshape(value.column.shape))


def enumerate_moments(function: Any, values: list[Moments[Any]]) -> Moments[Any]:
    """Exact mean and variance of a function that is linear in each element on its own.

    Every random element takes the two values mean +- sigma with probability 1/2: the same first two moments as
    the Gaussian, and for a multilinear function nothing else matters.
    """
    spots = [(i, j) for i, value in enumerate(values) for j in np.flatnonzero(value.var)]
    signs = np.array(list(product((-1.0, 1.0), repeat=len(spots))))
    cases = [np.repeat(value.mean.reshape(1, -1), len(signs), axis=0) for value in values]
    for column, (i, j) in enumerate(spots):
        cases[i][:, j] += signs[:, column] * np.sqrt(values[i].var.flat[j])
    shaped = [torch.as_tensor(case.reshape(-1, *value.shape)) for case, value in zip(cases, values, strict=True)]
    outcomes = torch.vmap(function)(*shaped).numpy()
    return Moments(outcomes.mean(0), outcomes.var(0))


def kinked_line_moments(mean: Any, var: Any, slope: Any, kink: Any = 0) -> tuple[Any, Any]:
    """Mean and variance of a (a >= kink) or slope * a (a < kink) for a ~ N(mean, var), by 50-digit integrals.

    The partial moments of the density are integrated in closed form (erfc), not by any of lbnn's formulas.
    """
    with mp.workdps(50):
        mean, var, slope, kink = mp.mpf(mean), mp.mpf(var), mp.mpf(slope), mp.mpf(kink)
        if var == 0:
            return (mean if mean >= kink else slope * mean), mp.mpf(0)
        sigma = mp.sqrt(var)
        z = (kink - mean) / sigma
        below, above, density = mp.ncdf(z), mp.ncdf(-z), mp.npdf(z)
        first_below, first_above = mean * below - sigma * density, mean * above + sigma * density
        second_below = (mean**2 + var) * below - sigma * (mean + kink) * density
        second_above = (mean**2 + var) * above + sigma * (mean + kink) * density
        first = slope * first_below + first_above
        return first, slope**2 * second_below + second_above - first**2


def quadrature_moments(function: Any, mean: float, var: float, breaks: list[float]) -> tuple[float, float]:
    """Mean and variance of function(a), a ~ N(mean, var), by Gauss-Legendre between the breaks and out to 12 sigma."""
    sigma = np.sqrt(var)
    edges = np.unique(
        np.clip([mean - 12 * sigma, *breaks, mean, mean + 12 * sigma], mean - 12 * sigma, mean + 12 * sigma)
    )
    nodes, weights = np.polynomial.legendre.leggauss(80)
    points = np.concatenate([(b - a) / 2 * nodes + (a + b) / 2 for a, b in pairwise(edges)])
    masses = np.concatenate([(b - a) / 2 * weights for a, b in pairwise(edges)])
    density = masses * np.exp(-((points - mean) ** 2) / (2 * var)) / (sigma * np.sqrt(2 * np.pi))
    values = function(points)
    first = float(density @ values)
    return first, float(density @ (values - first) ** 2)


def piecewise_moments(mean: Any, var: Any, kinks: Any, slopes: Any, value: Any) -> tuple[Any, Any]:
    """Mean and variance of a continuous piecewise-linear function of a ~ N(mean, var), with 120 digits.

    Partial moments of the density by erfc, piece by piece; the digits are for what cancels where sigma is 1e15 times as
    large as the pieces.
    """
    with mp.workdps(120):
        mean, var, value = mp.mpf(mean), mp.mpf(var), mp.mpf(value)
        kinks, slopes = [mp.mpf(kink) for kink in kinks], [mp.mpf(slope) for slope in slopes]
        values = [value]
        for slope, (a, b) in zip(slopes[1:-1], pairwise(kinks), strict=True):
            values.append(values[-1] + slope * (b - a))
        lines = [(values[max(i - 1, 0)] - slope * kinks[max(i - 1, 0)], slope) for i, slope in enumerate(slopes)]
        if var == 0:
            shift, slope = lines[sum(kink <= mean for kink in kinks)]
            return shift + slope * mean, mp.mpf(0)
        ends = [_partial(mean, mp.sqrt(var), kink) for kink in kinks]
        parts = pairwise([(0, 0, 0), *ends, (1, mean, mean**2 + var)])
        masses = [[b - a for a, b in zip(*pair, strict=True)] for pair in parts]
        first = sum(c * m[0] + b * m[1] for (c, b), m in zip(lines, masses, strict=True))
        second = sum(c * c * m[0] + 2 * c * b * m[1] + b * b * m[2] for (c, b), m in zip(lines, masses, strict=True))
        return first, second - first**2


def _partial(mean: Any, sigma: Any, place: Any) -> tuple[Any, Any, Any]:
    """Probability, first and second moment of the density below a place."""
    z = (place - mean) / sigma
    below, density = mp.erfc(-z / mp.sqrt(2)) / 2, mp.npdf(z)
    return (
        below,
        mean * below - sigma * density,
        (mean**2 + sigma**2) * below - sigma * (mean + place) * density,
    )
