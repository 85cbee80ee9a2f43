"""The integer kernels in numpy, for a batch: each is the mathematics of the C function of that name."""

from __future__ import annotations

from dataclasses import replace
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
    size,
    up,
)
from lbnn.graph.ints.quantise import PART_LIMIT, SUM_LIMIT, LinearInts, Rows, shared_more, stored_bias
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
    return finish(
        layer.rows,
        (mean, x.mean_exponent + layer.rows.scale_exponent + 1),
        (spread, 2 * (x.sigma_exponent + layer.rows.scale_exponent + layer.shift)),
        (shared, exponent + layer.rows.spread_exponent),
    )


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
    return shared_sum(x, layer.columns, layer.column_exponent)


def shared_sum(x: Narrow, columns: Whole, column_exponent: int) -> tuple[Whole, Whole]:
    """B = sum of beta^2 (E^2 + V), one for all outputs; beta E and beta sigma are rounded to nearest."""
    top = np.maximum(x.mean_exponent, x.sigma_exponent)
    sums = ((_factored(x.mean, columns), x.mean_exponent), (_factored(x.sigma, columns), x.sigma_exponent))
    total = sum(up(part, apart(2 * top, 2 * exponent)) for part, exponent in sums) + shared_more(len(columns))
    return np.where(top == NONE, 0, held(total))[:, None], 2 * (top + column_exponent + 1)


def _factored(x: Whole, columns: Whole) -> Whole:
    """sum(((x beta + 2^15) >> 16)^2)."""
    return held(np.square(down(x * columns + (1 << 15), 16)).sum(axis=1))


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
    """Sums and their exponents become wide values: scaled, with the bias, at one exponent a layer.

    The parts of a variance are rounded down, with one more for all.
    """
    bias, noise = stored_bias(rows), rows.c * (1 << 12)
    top = np.maximum(mean[1], rows.bias_exponent)
    signed = np.where(rows.negative == 1, -mean[0], mean[0])
    e = down(down(scale(signed, rows.m), rows.km), apart(top, mean[1])[:, None])
    e = e + down(down(down(bias, 2), rows.kb), apart(top, rows.bias_exponent)[:, None])
    var_top = (np.maximum(np.maximum(spread[1], shared[1]), rows.noise_exponent) + 1) & ~1
    v = down(down(scale(spread[0], rows.square), 2 * rows.km), apart(var_top, spread[1])[:, None])
    v = v + down(down(scale(shared[0], rows.a), rows.ka), apart(var_top, shared[1])[:, None])
    v = v + down(down(noise, rows.kc), apart(var_top, rows.noise_exponent)[:, None])
    some = (np.maximum(np.maximum(spread[1], shared[1]), rows.noise_exponent) > NONE // 2).astype(np.int64)
    return Wide(held(e), top, held(v + some[:, None]), var_top)


def int_affine(x: Wide, rows: Rows) -> Wide:
    """E' = s E + t;  V' = s^2 V. Two bits of the variance make room for what it is rounded up by."""
    exponents = x.mean_exponent + 1 + rows.scale_exponent, x.var_exponent + 2 + 2 * rows.scale_exponent
    nothing = np.zeros((len(x.mean), 1), np.int64), np.full(len(x.mean), NONE)
    wide = finish(rows, (x.mean, exponents[0]), (up(x.var, 2), exponents[1]), nothing)
    return replace(wide, var=np.where(x.var > 0, wide.var, 0))


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
    coarse = np.clip(ahead - 29, 0, SHIFT)  # means that are far below the sigmas drop bits first
    place, part = cell(scale(down(size(x.mean), coarse), y), np.minimum(2 + ahead, SHIFT) - h)
    excess = between(table, place, part)
    side = np.where(x.mean < 0, 2, 1) * (TAIL_CELLS + 1)
    slope, slope_shift = table[-2], table[-1]
    below = near(mean * slope, slope_shift)
    shift = np.clip(17 - (ahead - drop[:, None]), 17, SHIFT)
    added = near(held(sigma * excess) >> h, shift)
    return np.where(x.mean < 0, below, mean) + added, between(table, side + place, part)


def cell(p: Whole, right: Whole) -> tuple[Whole, Whole]:
    """The cell of z = p / 2^(right + 12) and where in it, in 1/256; z is below 4."""
    moved = below_four(p >> np.clip(right, 0, SHIFT))
    z = np.where(right >= 0, moved, below_four(below_four(p) << np.clip(-right, 0, 15)))
    return z >> 8, z & 255


def below_four(x: Whole) -> Whole:
    """x, at most the last number of 14 bits: the end of the activation's tables."""
    found: Whole = np.minimum(x, TAIL_CELLS * 256 - 1)
    return found


def between(table: Whole, place: Whole, part: Whole) -> Whole:
    """The table between two of its numbers, part / 256 of the way."""
    return table[place] + (((table[place + 1] - table[place]) * part) >> 8)
