"""A convolution as integers: each pixel is a linear layer whose inputs are its window, and is bounded as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.graph.ints.fixed import Whole
from lbnn.graph.ints.maps import Windows
from lbnn.graph.ints.quantise import (
    SCALE_BITS,
    SCALE_SHIFT,
    WEIGHT_MAX,
    LinearInts,
    Rows,
    Spread,
    check_bounds,
    common,
    factors_of,
    parts,
    shifted,
    squared,
    stored,
    with_bits,
)
from lbnn.graph.ints.typical import Typical, rounded_weights, row_scales


@dataclass(frozen=True)
class ConvInts:
    """Weights [outputs, taps channels of a group] and rows of `layer`; where windows lie; groups of channels.

    Columns are those of each group's inputs where variances are factors, and of the map's channels where they are free.
    """

    layer: LinearInts
    window: Windows
    groups: int

    @property
    def inputs(self) -> int:
        """Channels that a group takes."""
        return self.window.channels // self.groups

    @property
    def outputs(self) -> int:
        """Channels that a group gives."""
        return len(self.layer.weight) // self.groups

    @property
    def channels(self) -> int:
        """Channels of the result."""
        return len(self.layer.weight)

    @property
    def length(self) -> int:
        """Numbers in a group's window."""
        return int(self.layer.weight.shape[1])

    def weight_of(self, group: int) -> Whole:
        """The weights of one group."""
        return self.layer.weight[group * self.outputs : (group + 1) * self.outputs]

    def free_of(self, group: int) -> Whole:
        """The sigmas of one group's weights."""
        return self.layer.free[group * self.outputs : (group + 1) * self.outputs]

    def columns_of(self, group: int) -> Whole:
        """The factors of one group's inputs."""
        return self.layer.columns[group * self.length : (group + 1) * self.length]


def windows_last(weight: Any) -> Array:
    """[out, in, *kernel] -> [out, taps in], as maps are laid out."""
    array = np.asarray(weight, np.float64)
    return np.moveaxis(array, 1, -1).reshape(len(array), -1)


def quantise_conv(
    weight: Moments[Any],
    bias: Moments[Any],
    mean_bits: int,
    window: Windows,
    groups: int,
    typical: tuple[Typical | None, ...],
) -> ConvInts:
    """The layer with as many bits for its inputs as its own weights allow; weights are [out, taps in].

    `typical` are the usual windows of each group.
    """
    mean, var = weight
    outputs, largest = len(mean), WEIGHT_MAX[mean_bits]
    scales = [row_scales(own, largest, usual) for own, usual in zip(np.split(mean, groups), typical, strict=True)]
    m, km, top = parts(np.concatenate(scales), SCALE_BITS, most=SCALE_SHIFT)
    unit = np.maximum(m * 2.0 ** (top - SCALE_BITS - km), np.finfo(np.float64).tiny)
    whole, lost = _rounded(mean, unit, largest, groups, typical)
    form, spread, columns, free = _variances(var, groups, window.channels // groups)
    a, ka, spread_exponent = parts(spread, 16, upwards=True)
    b, kb, bias_exponent = parts(np.broadcast_to(bias.mean, (outputs,)) + lost, 23)
    c, kc, noise_exponent = parts(np.broadcast_to(bias.var, (outputs,)), 16, upwards=True)
    exponents = (top, spread_exponent, shifted(bias_exponent, 29), shifted(noise_exponent, 28))
    rows = Rows(m, km, squared(m), a, ka, b, kb, c, kc, np.zeros(outputs, np.int64), *exponents)
    layer = LinearInts(whole, mean_bits, rows, form, *common(columns), free, 0, 0, 0)
    return ConvInts(check_bounds(with_bits(layer, columns)), window, groups)


def _rounded(
    mean: Array, unit: Array, largest: int, groups: int, typical: tuple[Typical | None, ...]
) -> tuple[Whole, Array]:
    """Weights of all groups, and what their rounding loses of usual windows."""
    whole, lost = [], []
    for own, units, usual in zip(np.split(mean, groups), np.split(unit, groups), typical, strict=True):
        rounded = rounded_weights(own, units, largest, usual)
        whole.append(rounded)
        lost.append(np.zeros(len(own)) if usual is None else (own - rounded * units[:, None]) @ usual.mean)
    return np.concatenate(whole).astype(np.int64), np.concatenate(lost)


def _variances(var: Array, groups: int, inputs: int) -> Spread:
    none = np.zeros(0, np.int64)
    if not np.any(var):
        return "none", np.zeros(len(var)), np.zeros(0), none
    found = _factors(var, groups)
    if found is None:
        return _free(var, groups, inputs)
    rows, columns = found
    return "factors", rows, np.sqrt(columns), none


def _factors(var: Array, groups: int) -> tuple[Array, Array] | None:
    """Rows, and columns of all groups; None if one is no such product, or has one output and nothing to share."""
    if len(var) == groups > 1 and np.any(var != var[:, :1]):
        return None
    found = [_group_factors(part) for part in np.split(var, groups)]
    known = [each for each in found if each is not None]
    if len(known) < groups:
        return None
    return np.concatenate([rows for rows, _ in known]), np.concatenate([columns for _, columns in known])


def _group_factors(var: Array) -> tuple[Array, Array] | None:
    return factors_of(var) if np.any(var) else (np.zeros(len(var)), np.ones(var.shape[1]))


def _free(var: Array, groups: int, inputs: int) -> Spread:
    """Sigmas of 8 bits with a scale a row and a channel of the map: taps share it, so that roots do too."""
    tiny = np.finfo(np.float64).tiny
    sigma = np.sqrt(var).reshape(groups, len(var) // groups, -1, inputs)
    level = np.log(np.maximum(sigma, sigma.max() * 2.0**-12))
    usual = (level - level.mean(axis=(2, 3), keepdims=True)).mean(axis=(1, 2))
    columns = np.exp(usual).reshape(-1)
    share = (sigma / stored(columns).reshape(groups, 1, 1, inputs)).reshape(var.shape)
    rows = share.max(axis=1) / 255.0
    free = np.clip(np.rint(share / np.maximum(rows, tiny)[:, None]), var > 0, 255).astype(np.int64)
    return "free", rows * rows, columns, free
