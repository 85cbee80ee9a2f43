"""Max pooling in numpy integers: the tournament of pairs of lbnn/ops/max_pool.py, each match by three tables.

With a = sqrt(V + W), x = |gap of the means| / a, V of the larger mean and W of the other:

    E' = M + a I1(x)        V' = V (1 - 2 Q + J2 - I1^2)(x) + W (J2 - I1^2)(x)
"""

from __future__ import annotations

import numpy as np

from lbnn.graph.ints import kernels
from lbnn.graph.ints.fixed import SHIFT, Whole, down, held, near, scale, scale_up
from lbnn.graph.ints.maps import Windows, pixel_places
from lbnn.graph.ints.tables import TAIL_CELLS, match_table
from lbnn.graph.ints.values import Narrow, Wide

Rivals = tuple[Whole, Whole]
"""Means and variances; a variance below zero: there is nothing."""

FINER = 10
"""Bits that means have behind those of their mantissas."""

COARSE_MEANS = 8
"""Units of the means' mantissas: where a is below and the gap is below five times as many, they do not say by how many
a two values differ, and the larger variance, which is a bound, stands for that of the winner."""

_TABLE = match_table()


def int_max_pool(x: Narrow, window: Windows) -> Wide:
    """The winners of all windows: [samples pixels, channels]."""
    top = np.maximum(x.mean_exponent, x.sigma_exponent)
    by = np.minimum(top - x.mean_exponent, SHIFT)
    mean = down(x.mean * (1 << FINER), by[:, None])
    taps = [_taps(part, window, missing) for part, missing in ((mean, 0), (x.sigma * x.sigma, -1))]
    ahead = np.repeat(top - x.sigma_exponent, window.pixels)[:, None]
    rows = [
        _tournament([(taps[0][:, k], taps[1][:, k]) for k in range(first, first + window.kernel[1])], ahead)
        for first in range(0, window.taps, window.kernel[1])
    ]
    e, v = _tournament(rows, ahead)
    assert np.all(v >= 0), "a window lies outside of its map"
    exponents = np.repeat(top - FINER, window.pixels), np.repeat(2 * x.sigma_exponent, window.pixels)
    return Wide(held(e), exponents[0], held(v), exponents[1])


def _taps(part: Whole, window: Windows, missing: int) -> Whole:
    """[samples pixels of the result, taps, channels]."""
    whole = part.reshape(len(part), window.in_pixels, window.channels)
    padded = np.concatenate([whole, np.full((len(part), 1, window.channels), missing)], axis=1)
    return padded[:, pixel_places(window)].reshape(-1, window.taps, window.channels)


def _tournament(values: list[Rivals], ahead: Whole) -> Rivals:
    """Neighbours meet, then winners of neighbouring pairs; an odd one waits for the next round."""
    while len(values) > 1:
        met = [int_match(values[k], values[k + 1], ahead) for k in range(0, len(values) - 1, 2)]
        values = met + values[len(values) & ~1 :]
    return values[0]


def int_match(one: Rivals, other: Rivals, ahead: Whole) -> Rivals:
    """The moments of the larger; `ahead` is how far the exponent of means' mantissas is above that of sigmas'."""
    (e, v), (f, w) = one, other
    second = e < f
    won, own, lost = np.where(second, f, e), np.where(second, w, v), np.where(second, v, w)
    widest = np.maximum(v, w)
    total = held(np.maximum(v, 0) + np.maximum(w, 0))
    inverse, sigma, h = kernels.root(np.maximum(total, 1))
    gap = np.abs(held(e - f))
    cell, part = kernels.cell(scale(gap, inverse), 12 - ahead - h)
    excess, kept, gained = (kernels.between(_TABLE, k * (TAIL_CELLS + 1) + cell, part) for k in range(3))
    added = near(held(sigma * excess) >> h, np.minimum(7 + ahead, SHIFT))
    spread = scale_up(2 * np.maximum(own, 0), kept) + scale_up(scale_up(np.maximum(lost, 0), gained), gained)
    coarse = (sigma >> np.minimum(h + ahead, SHIFT) < COARSE_MEANS) & (gap < 5 * COARSE_MEANS << FINER)
    mean = np.where(total > 0, held(won + added), won)
    var = np.where(coarse, widest, np.minimum(spread, widest))
    return _there(mean, e, f, v, w), _there(var, v, w, v, w)


def _there(found: Whole, one: Whole, other: Whole, v: Whole, w: Whole) -> Whole:
    """The match where both are there, else the one that is."""
    chosen: Whole = np.where(w < 0, one, np.where(v < 0, other, found))
    return chosen
