"""Feature maps in integers: in memory the channels of a pixel stand beside each other, whatever torch's order is.

Pixels are computed one after the other, each with exponents of its own in 16 bits; `level` brings them to common ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from lbnn.graph.ints.fixed import NONE, SHIFT, Whole, near, up
from lbnn.graph.ints.values import Narrow
from lbnn.ops import Shape

LEAST, MOST = -32768, 32767
"""Exponents of a pixel; what is below stands for nothing at all."""

CHUNK = 32
"""Elements that an operator on each element takes at once; LBNN_INT_CHUNK in lbnn_int_map.h."""


@dataclass(frozen=True)
class Windows:
    """Where a convolution or a pool looks: sizes of the map, of the result, of the kernel, and steps, as (h, w)."""

    channels: int
    size: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    start: tuple[int, int]
    dilation: tuple[int, int] = (1, 1)

    @property
    def taps(self) -> int:
        """Places that a window has."""
        return prod(self.kernel)

    @property
    def pixels(self) -> int:
        """Pixels of the result."""
        return prod(self.out)

    @property
    def in_pixels(self) -> int:
        """Pixels of the map."""
        return prod(self.size)


def pixel_places(window: Windows) -> Whole:
    """[pixels of the result, taps]: which pixel of the map each tap meets, -1 outside of it."""
    rows, columns = (_axis(window, axis) for axis in (0, 1))
    found = rows[:, None, :, None] * window.size[1] + columns[None, :, None, :]
    outside = (rows[:, None, :, None] < 0) | (columns[None, :, None, :] < 0)
    places: Whole = np.where(outside, -1, found).reshape(window.pixels, window.taps)
    return places


def _axis(window: Windows, axis: int) -> Whole:
    """[places of the result, taps] along one axis, -1 outside."""
    starts = np.arange(window.out[axis]) * window.stride[axis] - window.start[axis]
    at = starts[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
    found: Whole = np.where((at >= 0) & (at < window.size[axis]), at, -1)
    return found


def element_places(window: Windows, first: int, count: int) -> Whole:
    """[pixels of the result, taps count]: elements of `count` channels from `first` on; the last + 1 outside."""
    pixels = pixel_places(window)[:, :, None]
    elements = pixels * window.channels + first + np.arange(count)
    outside = window.in_pixels * window.channels
    return np.where(pixels < 0, outside, elements).reshape(window.pixels, -1)


def window_values(values: Whole, places: Whole) -> Whole:
    """[n, elements] -> [n pixels, places]; zeros outside."""
    padded = np.concatenate([values, np.zeros((len(values), 1), np.int64)], axis=1)
    return padded[:, places].reshape(-1, places.shape[1])


def channels_last(shape: Shape) -> Whole | None:
    """Which element of torch's order stands at each place of a map; None if that is the same."""
    if len(shape) < 2 or shape[0] == 1 or prod(shape[1:]) == 1:
        return None
    return np.arange(prod(shape)).reshape(shape[0], -1).T.reshape(-1)


def same_order(a: Whole | None, b: Whole | None) -> bool:
    """Whether two values stand in memory in the same order."""
    return (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))


def stored_exponents(x: Narrow) -> Narrow:
    """The value with exponents that 16 bits hold."""
    assert np.all(x.mean_exponent <= MOST) and np.all(x.sigma_exponent <= MOST), "an exponent leaves its 16 bits"
    return Narrow(x.mean, np.maximum(x.mean_exponent, LEAST), x.sigma, np.maximum(x.sigma_exponent, LEAST))


def level(pixels: Narrow, samples: int) -> Narrow:
    """[samples pixels, elements] with exponents of their own -> [samples, all elements] with common ones."""
    kept = stored_exponents(pixels)
    tops = [part.reshape(samples, -1).max(axis=1) for part in (kept.mean_exponent, kept.sigma_exponent)]
    by, wide = (
        np.minimum(np.repeat(top, len(own) // samples) - own, SHIFT)[:, None]
        for top, own in zip(tops, (kept.mean_exponent, kept.sigma_exponent), strict=True)
    )
    mean = np.where(by > 0, near(kept.mean, np.maximum(by, 1)), kept.mean)
    sigma = up(kept.sigma, wide)
    exponents = [np.where(top == LEAST, NONE, top) for top in tops]
    return Narrow(mean.reshape(samples, -1), exponents[0], sigma.reshape(samples, -1), exponents[1])


def chunks(values: Whole) -> Whole:
    """[n, elements] -> [n chunks, CHUNK], the last one filled with zeros."""
    return np.pad(values, ((0, 0), (0, -values.shape[1] % CHUNK))).reshape(-1, CHUNK)


def in_chunks(x: Narrow) -> Narrow:
    """A value as chunks, each a sample of its own."""
    count = -(-x.mean.shape[1] // CHUNK)
    exponents = (np.repeat(part, count) for part in (x.mean_exponent, x.sigma_exponent))
    return Narrow(chunks(x.mean), next(exponents), chunks(x.sigma), next(exponents))


def of_chunks(parts: Narrow, samples: int, elements: int) -> Narrow:
    """Chunks at common exponents, without what filled the last one."""
    whole = level(parts, samples)
    return Narrow(whole.mean[:, :elements], whole.mean_exponent, whole.sigma[:, :elements], whole.sigma_exponent)
