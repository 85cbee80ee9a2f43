"""A linear layer as integers: means with a scale a row, variances by factors or free, and bits for its inputs.

`mean_bits` chooses the arithmetic: 8 for int8, 12 for means of 12 bits in int16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lbnn.base.arrays import Array
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.graph.ints.fixed import NONE, SHIFT, Whole
from lbnn.graph.ints.typical import Typical, rounded_weights, row_scales

SUM_LIMIT = 1 << 30
"""No sum of means goes beyond it, whatever the input."""

PART_LIMIT = 1 << 28
"""No part of a variance goes beyond it: three of them are below 2^30, which roots are taken of."""

LEAST_MEAN_BITS = 4
"""With fewer, what roundings and the largest sigma add to a mean does not fit 32 bits."""

FACTOR_BITS = 15
"""The most that a factor of variances has: with its sign it is a number of 16 bits."""

MOST_MEAN_BITS, MOST_SIGMA_BITS = 15, 14
"""Of mantissas: means below 2^15, sigmas at most 2^14, to fit int16."""

FACTORS_AGREE = 1e-5
"""Relative error up to which variances count as products of factors: what rounding to float32 leaves of them."""

SCALE_BITS = 15
"""Of a row's scale: with its sign it is a number of 16 bits."""

SCALE_SHIFT = 15
"""The largest shift of a row's scale: twice it is one that C can do."""

WEIGHT_MAX = {8: 127, 12: 2047}


@dataclass(frozen=True)
class Rows:
    """What is stored of each output. A number is mantissa 2^(exponent - shift), the exponent being the layer's.

    `m` scales the means (exponent G - 15) and `square` variances (2 G - 16, shift 2 km), `a` the variance of weights
    (GA - 16); `b` and `c` are mean and variance of the bias (GB + 6 and GC + 12). `negative` are rows of an affine map
    whose scale is below zero.
    """

    m: Whole
    km: Whole
    square: Whole
    a: Whole
    ka: Whole
    b: Whole
    kb: Whole
    c: Whole
    kc: Whole
    negative: Whole
    scale_exponent: int
    spread_exponent: int
    bias_exponent: int
    noise_exponent: int


@dataclass(frozen=True)
class LinearInts:
    """A linear layer: weights [out, in], rows, and the variance of the weights in one of three forms.

    form "factors": `columns` are beta; "free": `free` [out, in] are 8-bit sigmas and `columns` the scale of each input;
    "none": weights are known. `mean_bits`, `sigma_bits` and `free_bits` are those of the inputs' mantissas and of
    c_i sqrt(S_i).
    """

    weight: Whole
    shift: int
    rows: Rows
    form: str
    columns: Whole
    column_exponent: int
    free: Whole
    mean_bits: int
    sigma_bits: int
    free_bits: int


def quantise_linear(
    weight: Moments[Any], bias: Moments[Any], mean_bits: int, typical: Typical | None = None, free: bool = False
) -> LinearInts:
    """The layer with as many bits for its inputs as its own weights allow; `typical` are its usual inputs.

    Variances that are products of factors are stored so, unless they are to be `free`.
    """
    mean, var = (np.asarray(part, np.float64) for part in weight)
    outputs = len(mean)
    largest = WEIGHT_MAX[mean_bits]
    m, km, top = parts(row_scales(mean, largest, typical), SCALE_BITS, most=SCALE_SHIFT)
    unit = np.maximum(m * 2.0 ** (top - SCALE_BITS - km), np.finfo(np.float64).tiny)
    whole = rounded_weights(mean, unit, largest, typical).astype(np.int64)
    lost = 0.0 if typical is None else (mean - whole * unit[:, None]) @ typical.mean
    form, spread, columns, sigmas = _variances(var, free)
    a, ka, spread_exponent = parts(spread, 16, upwards=True)
    b, kb, bias_exponent = parts(np.broadcast_to(bias.mean, (outputs,)) + lost, 23)
    c, kc, noise_exponent = parts(np.broadcast_to(bias.var, (outputs,)), 16, upwards=True)
    exponents = (top, spread_exponent, shifted(bias_exponent, 29), shifted(noise_exponent, 28))
    rows = Rows(m, km, squared(m), a, ka, b, kb, c, kc, np.zeros(outputs, np.int64), *exponents)
    return check_bounds(with_bits(LinearInts(whole, mean_bits, rows, form, *common(columns), sigmas, 0, 0, 0), columns))


def quantise_affine(scale: Any, shift: Any) -> Rows:
    """s x + t with one row for each element."""
    m, km, top = parts(np.abs(scale), SCALE_BITS, most=SCALE_SHIFT)
    b, kb, bias_exponent = parts(shift, 23)
    none = np.zeros(len(m), np.int64)
    negative = (np.asarray(scale) < 0).astype(np.int64)
    return Rows(m, km, squared(m), none, none, b, kb, none, none, negative, top, NONE, shifted(bias_exponent, 29), NONE)


def shifted(exponent: int, by: int) -> int:
    """An exponent of numbers that are below 2^by where they were below 1."""
    return exponent if exponent == NONE else exponent - by


def squared(m: Whole) -> Whole:
    """m^2 with 16 bits, rounded up."""
    return -(-(m * m) >> (2 * SCALE_BITS - 16))


def parts(values: Any, width: int, upwards: bool = False, most: int = SHIFT) -> tuple[Whole, Whole, int]:
    """(mantissa, shift, exponent): value = mantissa / 2^width 2^(exponent - shift), mantissas of `width` bits."""
    values = np.asarray(values, np.float64)
    exponents = np.frexp(values)[1].astype(np.int64)
    if not np.any(values):
        none = np.zeros(values.shape, np.int64)
        return none, none, NONE
    top = int(exponents[values != 0].max())
    shift = np.where(values != 0, np.minimum(top - exponents, most), 0)
    exact = np.ldexp(values, (width - top + shift).astype(np.int32))
    whole = np.ceil(exact) if upwards else np.where(np.abs(exact) < 1.0, np.sign(exact), np.rint(exact))
    limit = (1 << width) - 1
    return np.clip(whole, -limit, limit).astype(np.int64), shift, top


Spread = tuple[str, Array, Array, Whole]
"""(form, a number for each row, one for each column, free variances)."""


def _variances(var: Array, free: bool) -> Spread:
    none = np.zeros(0, np.int64)
    if not np.any(var):
        return "none", np.zeros(len(var)), np.zeros(0), none
    found = None if free else factors_of(var)
    if found is not None:
        rows, columns = found
        return "factors", rows, np.sqrt(columns), none
    return _free(var)


def factors_of(var: Array) -> tuple[Array, Array] | None:
    """var = rows columns^T, or None if it is no such product."""
    n, i = np.unravel_index(int(var.argmax()), var.shape)
    rows, columns = var[:, i], var[n] / var[n, i]
    product = rows[:, None] * columns
    return (rows, columns) if np.all(np.abs(var - product) <= FACTORS_AGREE * product) else None


def _free(var: Array) -> Spread:
    """Sigmas of 8 bits with a scale a row and a column: linear variances of 8 bits would lose the small ones."""
    tiny = np.finfo(np.float64).tiny
    sigma = np.sqrt(var)
    level = np.log(np.maximum(sigma, sigma.max() * 2.0**-12))
    columns = np.exp((level - level.mean(axis=1, keepdims=True)).mean(axis=0))
    share = sigma / stored(columns)
    rows = share.max(axis=1) / 255.0
    free = np.clip(np.rint(share / np.maximum(rows, tiny)[:, None]), var > 0, 255).astype(np.int64)
    return "free", rows * rows, columns, free


def common(values: Array) -> tuple[Whole, int]:
    """Mantissas of 16 bits with one exponent, rounded up: value = mantissa 2^(exponent - 16)."""
    if not values.size:
        return values.astype(np.int64), 0
    exponent = int(np.frexp(values.max())[1])
    mantissas = np.minimum(np.ceil(np.ldexp(values, 16 - exponent)), 65535)
    return mantissas.astype(np.int64), exponent


def stored(values: Array) -> Array:
    """What `common` makes of numbers."""
    mantissas, exponent = common(values)
    return np.ldexp(mantissas.astype(np.float64), exponent - 16)


def with_bits(layer: LinearInts, columns: Array) -> LinearInts:
    """The layer with the most bits for its inputs, and for factors of variances, that keep sums inside their bounds."""
    mean_bits = _most(lambda n: mean_bound(layer, n) <= SUM_LIMIT, MOST_MEAN_BITS)
    sigma_bits = _most(lambda n: sigma_bound(layer, n) < PART_LIMIT, MOST_SIGMA_BITS)
    free_bits = _most(lambda n: free_bound(layer, n) < PART_LIMIT, MOST_SIGMA_BITS) if layer.form == "free" else 0
    bounded = replace(layer, mean_bits=mean_bits, sigma_bits=sigma_bits, free_bits=free_bits)
    if layer.form != "factors":
        return bounded
    factor_bits = _most(lambda n: shared_bound(_with_factors(bounded, columns, n)) < PART_LIMIT, FACTOR_BITS)
    return _with_factors(bounded, columns, factor_bits)


def _with_factors(layer: LinearInts, columns: Array, bits: int) -> LinearInts:
    """Factors of so many bits to nearest, but at least 1: value = mantissa 2^(exponent - 15)."""
    top = int(np.frexp(columns.max())[1])
    mantissas = np.clip(np.rint(np.ldexp(columns, bits - top)), columns > 0, (1 << bits) - 1)
    return replace(layer, columns=mantissas.astype(np.int64), column_exponent=top - bits + 15)


def _most(holds: Any, most: int) -> int:
    return next((n for n in range(most, 0, -1) if holds(n)), 0)


def mean_bound(layer: LinearInts, mean_bits: int) -> int:
    """The largest |sum of e w| of any row, for mantissas below 2^mean_bits."""
    return int(np.abs(layer.weight).sum(axis=1).max()) * ((1 << mean_bits) - 1)


def sigma_bound(layer: LinearInts, sigma_bits: int) -> int:
    """The largest sum of ((s w) >> shift)^2 of any row, for sigmas up to 2^sigma_bits: each term may be one more."""
    each = ((np.abs(layer.weight) << sigma_bits) >> layer.shift) + 1
    return int((each * each).sum(axis=1).max()) + 1


def free_bound(layer: LinearInts, free_bits: int) -> int:
    """The largest sum of ((u p + 128) >> 8)^2 of any row, for p up to 2^free_bits."""
    each = ((layer.free << free_bits) + 128) >> 8
    return int((each * each).sum(axis=1).max(initial=0)) + 1


def shared_more(inputs: int) -> int:
    """Added to a shared sum: more than what terms that are rounded to nothing come to."""
    return (inputs >> 2) + 1


def shared_bound(layer: LinearInts) -> int:
    """The largest sum of beta^2 (E^2 + V), with what is added to it; columns may be those of several groups."""
    inputs = layer.weight.shape[1]
    columns = layer.columns.reshape(-1, inputs) if layer.form == "factors" else np.zeros((1, inputs), np.int64)
    parts = (((columns << bits) + (1 << 15)) >> 16 for bits in (layer.mean_bits, layer.sigma_bits))
    return int(sum((part * part).sum(axis=1) for part in parts).max()) + shared_more(inputs)


def check_bounds(layer: LinearInts) -> LinearInts:
    """The layer, if no input whatever can carry one of its sums out of int32."""
    kept = (
        LEAST_MEAN_BITS <= layer.mean_bits <= MOST_MEAN_BITS
        and 1 <= layer.sigma_bits <= MOST_SIGMA_BITS
        and mean_bound(layer, layer.mean_bits) <= SUM_LIMIT
        and sigma_bound(layer, layer.sigma_bits) < PART_LIMIT
        and shared_bound(layer) < PART_LIMIT
        and (layer.form != "free" or (layer.free_bits >= 1 and free_bound(layer, layer.free_bits) < PART_LIMIT))
        and int(np.abs(layer.weight).max(initial=0)) <= WEIGHT_MAX[layer.shift]
    )
    if not kept:
        inputs = layer.weight.shape[1]
        raise LbnnError(f"a layer of {inputs} inputs has sums beyond 32 bits; export it with --dtype float32")
    return layer


def stored_bias(rows: Rows) -> Whole:
    """Mantissa and shift of the bias in one number, as C reads it: mantissa 2^8 + shift."""
    return rows.b * 256 + rows.kb
