"""The integer kernels in numpy, for a batch: each is the mathematics of the C function of that name."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn.graph.ints.fixed import (
    NONE,
    SHIFT,
    Whole,
    apart,
    bits,
    down,
    fits_unsigned,
    held,
    near,
    scale,
    scale_up,
    size,
    up,
)
from lbnn.graph.ints.quantise import PART_LIMIT, SHARED_MORE, SUM_LIMIT, LinearInts, Rows, stored_bias
from lbnn.graph.ints.tables import TAIL_CELLS, root_table
from lbnn.graph.ints.values import Narrow, Wide

_ROOTS = root_table()


def int_linear(x: Narrow, layer: LinearInts) -> Wide:
    """E' = m sum(e w) + b;  V' = m^2 sum(((s w) >> shift)^2) + a B + c."""
    some = (x.sigma_exponent != NONE).astype(np.int64)[:, None]
    mean = x.mean @ layer.weight.T
    assert np.all(np.abs(mean) <= SUM_LIMIT), "a sum of means leaves its bound"
    spread = _spread(x.sigma, layer) + some
    assert np.all(spread < PART_LIMIT), "a sum of squares leaves its bound"
    shared, exponent = _weight_spread(x, layer)
    assert np.all(shared <= PART_LIMIT), "a sum of second moments leaves its bound"
    spread, lift = lifted(spread)
    shared, shared_lift = lifted(shared)
    return finish(
        layer.rows,
        (mean, x.mean_exponent + layer.rows.scale_exponent),
        (spread, 2 * (x.sigma_exponent + layer.rows.scale_exponent + layer.shift) - lift),
        (shared, exponent + layer.rows.spread_exponent - shared_lift),
    )


def lifted(sums: Whole) -> tuple[Whole, Whole]:
    """Sums moved left, so that the largest has all 28 bits: what they are rounded up by is small beside it."""
    lift = np.maximum(28 - bits(np.bitwise_or.reduce(sums, axis=1)), 0)
    return sums << lift[:, None], lift


def _spread(sigma: Whole, layer: LinearInts) -> Whole:
    """A row at a time: a batch of products of all rows would not fit memory."""
    rows = [np.square((sigma * row) >> layer.shift).sum(axis=1) for row in layer.weight]
    return np.stack(rows, axis=1)


def _weight_spread(x: Narrow, layer: LinearInts) -> tuple[Whole, Whole]:
    """What the variance of the weights is multiplied with, [n, 1] or [n, out], and its exponent."""
    if layer.form == "free":
        p, exponent = roots_of_second_moments(x, layer)
        rows = [np.square((p * row + 128) >> 8).sum(axis=1) for row in layer.free]
        return np.stack(rows, axis=1) + (exponent != NONE)[:, None], exponent
    if layer.form == "none":
        return np.zeros((len(x.mean), 1), np.int64), np.full(len(x.mean), NONE)
    return shared_sum(x, layer)


def shared_sum(x: Narrow, layer: LinearInts) -> tuple[Whole, Whole]:
    """B = sum of beta^2 (E^2 + V), one for all outputs; 2 more for each input make up for what is rounded down."""
    top = np.maximum(x.mean_exponent, x.sigma_exponent)
    parts = ((x.mean, x.mean_exponent), (x.sigma, x.sigma_exponent))
    square = held(sum(down(part * part, apart(2 * top, 2 * exponent)[:, None]) for part, exponent in parts))
    if layer.columns.size:
        square = scale(scale(square, layer.columns), layer.columns)
    total = held(down(square, layer.fold).sum(1) + SHARED_MORE * square.shape[1])
    return np.where(top == NONE, 0, total)[:, None], 2 * (top + layer.column_exponent) + layer.fold


def roots_of_second_moments(x: Narrow, layer: LinearInts) -> tuple[Whole, Whole]:
    """p = c sqrt(E^2 + V) with free_bits bits to nearest, at least 1, and the exponent of ((u p) >> 8)^2.

    Rounded up they would be too large by a share that counts: most are far below the largest.
    """
    square, var = 2 * x.mean_exponent + 2, 2 * x.sigma_exponent
    top = np.maximum(square, var)
    total = up(up(x.mean * x.mean, 2), apart(top, square)[:, None]) + up(x.sigma * x.sigma, apart(top, var)[:, None])
    lift, exponent = even_lift(total.max(axis=1), top)
    _, sigma, h = root(np.maximum(total, 1) << np.where(exponent == NONE, 0, lift)[:, None])
    drop = np.minimum(31 - layer.free_bits + h, SHIFT)
    p = np.where(total > 0, np.maximum(near(held(sigma * layer.columns), drop), 1), 0)
    return p, np.where(exponent == NONE, NONE, 2 * (exponent + layer.column_exponent + 15 - layer.free_bits) + 16)


def even_lift(largest: Whole, exponent: Whole) -> tuple[Whole, Whole]:
    """How far left variances move to have 29 or 30 bits, and the exponent of their roots."""
    assert np.all(exponent % 2 == 0), "a variance has an odd exponent"
    lift = (30 - bits(largest)) & ~1
    return lift, np.where(largest > 0, (exponent - lift) >> 1, NONE)


def finish(rows: Rows, mean: tuple[Whole, Any], spread: tuple[Whole, Any], shared: tuple[Whole, Any]) -> Wide:
    """Sums and their exponents become wide values: scaled, with the bias, at one exponent a layer."""
    bias, noise = stored_bias(rows), rows.c * (1 << 12)
    top = np.maximum(mean[1], rows.bias_exponent)
    signed = np.where(rows.negative == 1, -mean[0], mean[0])
    e = down(down(scale(signed, rows.m), rows.km), apart(top, mean[1])[:, None])
    e = e + down(down(down(bias, 2), rows.kb), apart(top, rows.bias_exponent)[:, None])
    var_top = (np.maximum(np.maximum(spread[1], shared[1]), rows.noise_exponent) + 1) & ~1
    v = up(up(scale_up(spread[0], rows.square), 2 * rows.km), apart(var_top, spread[1])[:, None])
    v = v + up(up(scale_up(shared[0], rows.a), rows.ka), apart(var_top, shared[1])[:, None])
    v = v + up(up(noise, rows.kc), apart(var_top, rows.noise_exponent)[:, None])
    return Wide(held(e), top, held(v), var_top)


def int_affine(x: Wide, rows: Rows) -> Wide:
    """E' = s E + t;  V' = s^2 V. A bit of the mean and two of the variance make room for the shift."""
    exponents = x.mean_exponent + 1 + rows.scale_exponent, x.var_exponent + 2 + 2 * rows.scale_exponent
    nothing = np.zeros((len(x.mean), 1), np.int64), np.full(len(x.mean), NONE)
    return finish(rows, (down(x.mean, 1), exponents[0]), (up(x.var, 2), exponents[1]), nothing)


def widen(x: Narrow) -> Wide:
    """V = sigma^2, exactly."""
    return Wide(x.mean * (1 << 15), x.mean_exponent - 15, x.sigma * x.sigma, 2 * x.sigma_exponent)


def root(v: Whole) -> tuple[Whole, Whole, Whole]:
    """(y, sigma, h) for 0 < v < 2^30: 1/sqrt(v) = y 2^(h - 30), sqrt(v) = sigma 2^-h, within 2.5e-4."""
    assert np.all((v > 0) & (v < 1 << 30)), "a variance leaves its bits"
    h = (30 - bits(v)) >> 1
    full = v << (2 * h)
    cell = (full >> 23) - 32
    y = _ROOTS[cell] - (((_ROOTS[cell] - _ROOTS[cell + 1]) * ((full >> 7) & 0xFFFF)) >> 16)
    return y, fits_unsigned((full >> 15) * y + 32767) >> 15, h


def narrow(x: Wide, mean_bits: int, sigma_bits: int, table: Whole | None = None) -> Narrow:
    """The value with 15 bits, or with a table its leaky-ReLU: E' = m E + k sigma I1, sigma' = sigma sqrt(g)."""
    largest, some = size(x.mean).max(axis=1), x.var.max(axis=1) > 0
    lift, sigma_exponent = even_lift(x.var.max(axis=1), x.var_exponent)
    drop = mean_drop(largest, sigma_exponent - x.mean_exponent, mean_bits, table is not None)
    v = x.var << np.where(some, lift, 0)[:, None]
    y, sigma, h = root(np.maximum(v, 1))
    sigma = np.where(x.var > 0, sigma, 0)
    mean, gain = near(x.mean, np.minimum(drop, SHIFT)[:, None]), np.full_like(v, 1 << 15)
    if table is not None:
        mean, gain = _leaky(x, mean, (y, sigma, h), sigma_exponent, drop, table)
    assert np.all(np.abs(mean) < 1 << mean_bits), "a mantissa leaves its bits"
    s = up(up(fits_unsigned(sigma * gain), 30 - sigma_bits), h)
    exponent = np.where(some, sigma_exponent + 15 - sigma_bits, NONE)
    return Narrow(mean, x.mean_exponent + drop, s, exponent)


def mean_drop(largest: Whole, ahead: Whole, mean_bits: int, activated: bool) -> Whole:
    """How many bits of the means are dropped: what remains, with half the largest sigma, has mean_bits bits.

    `ahead` is the exponent of 15-bit sigmas less that of the means.
    """
    half = 14 + ahead if activated else np.full_like(ahead, -1)
    top = largest + np.where(half >= 0, 1 << np.clip(half, 0, 30), 0)
    top = fits_unsigned(top + (top >> (mean_bits - 2)) + 1)
    return np.where(half > 30, half + 2 - mean_bits, np.maximum(bits(top) - mean_bits, 1))


def _leaky(x: Wide, mean: Whole, roots: Any, sigma_exponent: Whole, drop: Whole, table: Whole) -> tuple[Whole, Whole]:
    """The mean of max(a, l a), and sqrt(g)."""
    y, sigma, h = roots
    ahead = (sigma_exponent - x.mean_exponent)[:, None]
    cell, part = _cell(scale(size(x.mean), y), 2 + ahead - h)
    excess = _between(table, cell, part)
    side = np.where(x.mean < 0, 2, 1) * (TAIL_CELLS + 1)
    slope, slope_shift = table[-2], table[-1]
    below = near(mean * slope, slope_shift)
    shift = np.clip(17 - (ahead - drop[:, None]), 17, SHIFT)
    added = near(held(sigma * excess) >> h, shift)
    return np.where(x.mean < 0, below, mean) + added, _between(table, side + cell, part)


def _cell(p: Whole, right: Whole) -> tuple[Whole, Whole]:
    """The cell of z = p / 2^(right + 12) and where in it, in 1/256; z is below 4."""
    moved = below_four(p >> np.clip(right, 0, SHIFT))
    z = np.where(right >= 0, moved, below_four(below_four(p) << np.clip(-right, 0, 15)))
    return z >> 8, z & 255


def below_four(x: Whole) -> Whole:
    """x, at most the last number of 14 bits: the end of the activation's tables."""
    found: Whole = np.minimum(x, TAIL_CELLS * 256 - 1)
    return found


def _between(table: Whole, cell: Whole, part: Whole) -> Whole:
    return table[cell] + (((table[cell + 1] - table[cell]) * part) >> 8)
