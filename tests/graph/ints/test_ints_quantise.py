"""Layers as integers: what is stored, and sums that no input carries out of 32 bits."""

from dataclasses import replace

import numpy as np
import pytest

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.graph.ints import kernels
from lbnn.graph.ints.quantise import check_bounds, parts, quantise_linear
from lbnn.graph.ints.values import Narrow


def layer(inputs, outputs=4, form="full", bits=8, seed=0):
    rng = np.random.default_rng(seed)
    spread = {
        "full": rng.uniform(1e-4, 1.0, (outputs, inputs)),
        "rank1": np.outer(rng.uniform(0.1, 1, outputs), rng.uniform(0.1, 1, inputs)),
        "row": np.outer(rng.uniform(0.1, 1, outputs), np.ones(inputs)),
        "none": np.zeros((outputs, inputs)),
    }[form]
    bias = Moments(rng.normal(size=outputs), rng.uniform(0, 1e-3, outputs))
    return quantise_linear(Moments(rng.normal(size=(outputs, inputs)), spread), bias, bits)


@pytest.mark.parametrize("bits", [8, 12])
@pytest.mark.parametrize("inputs", [1, 3, 64, 400, 784, 4096])
@pytest.mark.parametrize("form", ["full", "rank1", "none"])
def test_the_worst_of_all_inputs_stays_inside_the_bounds(form, inputs, bits):
    found = layer(inputs, form=form, bits=bits)
    largest, sigma = (1 << found.mean_bits) - 1, 1 << found.sigma_bits
    for row in found.weight:
        worst = np.where(row < 0, -largest, largest)[None]
        x = Narrow(worst, np.zeros(1, np.int64), np.full((1, inputs), sigma), np.zeros(1, np.int64))
        kernels.int_linear(x, found)  # which asserts every sum


def test_one_bit_more_than_the_weights_allow_is_refused():
    found = layer(784)
    for name in ("mean_bits", "sigma_bits", "free_bits"):
        with pytest.raises(LbnnError, match="sums beyond 32 bits; export it with --dtype float32"):
            check_bounds(replace(found, **{name: getattr(found, name) + 1}))
    factors = layer(784, form="rank1")
    with pytest.raises(LbnnError, match="beyond 32 bits"):
        check_bounds(replace(factors, columns=2 * factors.columns))
    with pytest.raises(LbnnError, match="beyond 32 bits"):
        check_bounds(replace(found, weight=2 * found.weight))


@pytest.mark.parametrize(
    ("form", "stored"), [("full", "free"), ("rank1", "factors"), ("row", "factors"), ("none", "none")]
)
def test_variances_are_stored_by_their_form(form, stored):
    found = layer(8, form=form)
    assert found.form == stored
    assert found.columns.size == (0 if form == "none" else 8)
    assert (found.free.size > 0) == (form == "full")


def test_stored_numbers_give_the_layer_back():
    rng = np.random.default_rng(1)
    mean, var = rng.normal(size=(6, 10)) * np.logspace(-4, 2, 6)[:, None], rng.uniform(1e-6, 1.0, (6, 10))
    found = quantise_linear(Moments(mean, var), Moments(np.zeros(6), np.zeros(6)), 8)
    rows = found.rows
    unit = rows.m * 2.0 ** (rows.scale_exponent - 15 - rows.km)
    assert np.all(np.abs(found.weight * unit[:, None] - mean) <= 0.51 * unit[:, None])
    spread = rows.a * 2.0 ** (rows.spread_exponent - 16 - rows.ka)
    sigma = found.free * np.sqrt(spread)[:, None] * found.columns * 2.0 ** (found.column_exponent - 16.0)
    step = np.sqrt(spread)[:, None] * found.columns * 2.0 ** (found.column_exponent - 16.0)
    assert np.all(np.abs(sigma - np.sqrt(var)) <= 0.51 * step)
    assert found.free.min() >= 1


def test_numbers_keep_their_digits_whatever_their_neighbours_are():
    values = np.array([1.0, 1e-6, 3e-5, 0.0, 123.0])
    mantissa, shift, exponent = parts(values, 16, upwards=True)
    back = mantissa * 2.0 ** (exponent - 16.0 - shift)
    assert np.all(back >= values) and np.all(back <= values * (1 + 2.0**-15))
    assert back[3] == 0.0


def test_no_sigma_and_no_column_is_lost():
    rng = np.random.default_rng(2)
    var = rng.uniform(0.1, 1.0, (4, 5))
    var[1, 2] = 1e-12
    none = Moments(np.zeros(4), np.zeros(4))
    assert quantise_linear(Moments(rng.normal(size=(4, 5)), var), none, 8).free[1, 2] == 1
    columns = np.array([1.0, 0.5, 0.3, 1e-14, 0.1])
    found = quantise_linear(Moments(rng.normal(size=(4, 5)), np.outer(np.ones(4), columns)), none, 8)
    unit = 2.0 ** (found.column_exponent - 15.0)
    assert found.columns.min() == 1
    assert np.all(np.abs(found.columns * unit - np.sqrt(columns)) <= unit) and unit < 1e-4
