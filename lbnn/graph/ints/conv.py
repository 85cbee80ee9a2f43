"""The integer kernels of feature maps in numpy: convolutions, pools, and operators on each element."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from lbnn.graph.ints import kernels
from lbnn.graph.ints.fixed import NONE, SHIFT, Whole, apart, bits, down, held, scale, up
from lbnn.graph.ints.maps import (
    Windows,
    element_places,
    in_chunks,
    level,
    of_chunks,
    pixel_places,
    stored_exponents,
    window_values,
)
from lbnn.graph.ints.others import int_add
from lbnn.graph.ints.quantise import PART_LIMIT, SUM_LIMIT, LinearInts, Rows
from lbnn.graph.ints.quantise_conv import ConvInts
from lbnn.graph.ints.values import Narrow, Wide

Bits = tuple[int, int]

MIDDLE: Bits = (15, 14)
"""Bits of what a pool takes that is computed together with the layer before it."""


def int_conv(x: Narrow, conv: ConvInts, blocks: Whole) -> Wide:
    """Sums of every pixel as those of a linear layer whose inputs are its window: [samples blocks, pixels channels].

    `blocks` [blocks, pixels] are the pixels that have exponents in common.
    """
    layer, pixels = conv.layer, conv.window.pixels
    exponents = np.repeat(x.mean_exponent, pixels), np.repeat(x.sigma_exponent, pixels)
    some = (exponents[1] != NONE).astype(np.int64)[:, None]
    parts = [_group_sums(x, conv, group, exponents) for group in range(conv.groups)]
    mean, spread = (np.concatenate([part[at] for part in parts], axis=1) for at in (0, 1))
    assert np.all(np.abs(mean) <= SUM_LIMIT), "a sum of means leaves its bound"
    spread = spread + some
    assert np.all(spread < PART_LIMIT), "a sum of squares leaves its bound"
    shared, exponent = _weight_spread(x, conv, exponents)
    assert np.all(shared <= PART_LIMIT), "a sum of second moments leaves its bound"
    shared = np.broadcast_to(shared, mean.shape)
    mean, spread, shared = (_in_blocks(part, blocks, pixels) for part in (mean, spread, shared))
    own = [np.repeat(part[::pixels], len(blocks)) for part in (*exponents, exponent)]
    return kernels.finish(
        tiled_rows(layer.rows, blocks.shape[1]),
        (mean, own[0] + layer.rows.scale_exponent + 1),
        (spread, 2 * (own[1] + layer.rows.scale_exponent + layer.shift)),
        (shared, own[2] + layer.rows.spread_exponent),
    )


def _in_blocks(sums: Whole, blocks: Whole, pixels: int) -> Whole:
    """[samples pixels, channels] -> [samples blocks, pixels of a block channels]."""
    found = sums.reshape(-1, pixels, sums.shape[1])[:, blocks]
    return found.reshape(-1, blocks.shape[1] * sums.shape[1])


def tiled_rows(rows: Rows, pixels: int) -> Rows:
    """The rows of several pixels, one behind the other."""
    values: list[Any] = [getattr(rows, each.name) for each in fields(rows)]
    tiled: list[Any] = [np.tile(value, pixels) if np.ndim(value) else value for value in values]
    return Rows(*tiled)


def _patch(x: Narrow, conv: ConvInts, group: int, exponents: tuple[Whole, Whole]) -> Narrow:
    places = element_places(conv.window, group * conv.inputs, conv.inputs)
    return Narrow(window_values(x.mean, places), exponents[0], window_values(x.sigma, places), exponents[1])


def _group_sums(x: Narrow, conv: ConvInts, group: int, exponents: tuple[Whole, Whole]) -> tuple[Whole, Whole]:
    """Sums of means and of squares of one group's outputs."""
    patch, weight = _patch(x, conv, group, exponents), conv.weight_of(group)
    mean = (patch.mean.astype(np.float64) @ weight.T.astype(np.float64)).astype(np.int64)  # exact: below 2^53
    return mean, _squares(patch.sigma, weight, 0, conv.layer.shift)


def _squares(x: Whole, weight: Whole, half: int, shift: int) -> Whole:
    """sum(((x w + half) >> shift)^2) of every row; a row at a time, or a batch would not fit memory."""
    sums = [np.square((x * row + half) >> shift).sum(axis=1) for row in weight]
    return np.stack(sums, axis=1)


def _weight_spread(x: Narrow, conv: ConvInts, exponents: tuple[Whole, Whole]) -> tuple[Whole, Whole]:
    """What the variances of the weights are multiplied with, and its exponent."""
    layer, pixels = conv.layer, conv.window.pixels
    if layer.form == "none":
        return np.zeros((len(x.mean) * pixels, 1), np.int64), np.full(len(x.mean) * pixels, NONE)
    if layer.form == "free":
        return _free_spread(x, conv)
    sums = []
    for group in range(conv.groups):
        patch = _patch(x, conv, group, exponents)
        total, exponent = kernels.shared_sum(patch, conv.columns_of(group), layer.column_exponent)
        sums.append(np.repeat(total, 1 if conv.groups == 1 else conv.outputs, axis=1))
    return np.concatenate(sums, axis=1), exponent


def _free_spread(x: Narrow, conv: ConvInts) -> tuple[Whole, Whole]:
    """Roots of second moments are found once for the map; they have the scale of their channel."""
    layer, pixels = conv.layer, conv.window.pixels
    p, exponent = kernels.roots_of_second_moments(x, tiled(layer, conv.window))
    found = np.repeat(exponent, pixels)
    sums = []
    for group in range(conv.groups):
        patch = window_values(p, element_places(conv.window, group * conv.inputs, conv.inputs))
        sums.append(_squares(patch, conv.free_of(group), 128, 8))
    return np.concatenate(sums, axis=1) + (found != NONE)[:, None], found


def tiled(layer: LinearInts, window: Windows) -> LinearInts:
    """The layer with a column for each element of its map."""
    return replace(layer, columns=np.tile(layer.columns, window.in_pixels))


def int_pool(pixels: Narrow, window: Windows, counts: Whole, correlated: bool) -> Wide:
    """E' = sum(E) / n, V' = sum(V) / n^2, or (sum(sigma) / n)^2: [samples pixels of the result, channels].

    `pixels` are [samples pixels of the map, channels] with exponents of their own; `counts` are n of each window.
    """
    places, samples = pixel_places(window), len(pixels.mean) // window.in_pixels
    room = int(bits(window.taps - 1))
    kept = stored_exponents(pixels)
    taps = [_taps(part, places, samples, window, missing) for part, missing in _parts(kept)]
    mean, x, sigma, y = taps
    top, wide = x.max(axis=1), y.max(axis=1)
    total = sum(down(mean[:, k] * (1 << (15 - room)), apart(top, x[:, k])[:, None]) for k in range(window.taps))
    spread, exponent = _spread_of_taps(sigma, y, wide, room, correlated)
    m, step = inverse(np.tile(counts, samples))
    e = scale(held(total), m[:, None])
    v = scale(scale(spread, m[:, None]) + 1, m[:, None]) + (spread > 0)
    return Wide(e, top - (15 - room) + 1 - step, v, exponent + 2 - 2 * step)


def _parts(x: Narrow) -> tuple[tuple[Whole, int], ...]:
    return (x.mean, 0), (x.mean_exponent[:, None], -32768), (x.sigma, 0), (x.sigma_exponent[:, None], -32768)


def _taps(part: Whole, places: Whole, samples: int, window: Windows, missing: int) -> Whole:
    """[samples pixels of the result, taps, channels], or without channels for exponents."""
    whole = part.reshape(samples, window.in_pixels, -1)
    padded = np.concatenate([whole, np.full((samples, 1, whole.shape[2]), missing)], axis=1)
    found = padded[:, places].reshape(samples * window.pixels, window.taps, -1)
    return found[:, :, 0] if missing else found


def _spread_of_taps(sigma: Whole, y: Whole, wide: Whole, room: int, correlated: bool) -> tuple[Whole, Whole]:
    moves = [apart(wide, y[:, k])[:, None] for k in range(sigma.shape[1])]
    if correlated:
        total = sum(up(sigma[:, k], move) for k, move in enumerate(moves))
        root = up(total, room)
        return root * root, 2 * (wide + room)
    spare = room & ~1
    twice = [np.minimum(2 * move, SHIFT) for move in moves]
    parts = (up(up(sigma[:, k] * sigma[:, k], spare), move) for k, move in enumerate(twice))
    return held(sum(parts)), 2 * wide + spare


def inverse(n: Whole) -> tuple[Whole, Whole]:
    """1/n = m 2^(-15 - step) with m of 16 bits, rounded up."""
    step = bits(n - 1)
    m: Whole = np.minimum(-(-(1 << (15 + step)) // n), 65535)
    return m, step


def pixels_of(x: Narrow, pixels: int) -> Narrow:
    """A map with common exponents as [samples pixels, channels]."""
    exponents = np.repeat(x.mean_exponent, pixels), np.repeat(x.sigma_exponent, pixels)
    samples = len(x.mean)
    return Narrow(
        x.mean.reshape(samples * pixels, -1), exponents[0], x.sigma.reshape(samples * pixels, -1), exponents[1]
    )


def chunk_leaky(x: Narrow, table: Whole, bits_: Bits) -> Narrow:
    """The leaky-ReLU of a map, a chunk at a time."""
    done = kernels.narrow(kernels.widen(in_chunks(x)), *bits_, table)
    return of_chunks(done, len(x.mean), x.mean.shape[1])


def chunk_add(a: Narrow, b: Narrow, bits_: Bits) -> Narrow:
    """The sum of two maps, a chunk at a time."""
    done = kernels.narrow(int_add(in_chunks(a), in_chunks(b)), *bits_)
    return of_chunks(done, len(a.mean), a.mean.shape[1])


def pixel_affine(x: Narrow, rows: Rows, pixels: int, bits_: Bits) -> Narrow:
    """E' = s E + t with s and t of a channel, a pixel at a time."""
    wide = kernels.int_affine(kernels.widen(pixels_of(x, pixels)), rows)
    return level(kernels.narrow(wide, *bits_), len(x.mean))
