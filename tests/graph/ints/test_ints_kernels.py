"""The integer kernels held to the mathematics: roots, activation, softplus, floats there and back."""

import numpy as np
import pytest

from lbnn.base.moments import Moments
from lbnn.graph.ints import ends, fixed, kernels, others
from lbnn.graph.ints.tables import tail_table
from lbnn.graph.ints.values import Wide
from lbnn.graph.reference import NUMPY
from lbnn.ops.leaky_relu import leaky_relu


def test_rounding_is_what_it_says():
    rng = np.random.default_rng(0)
    x, k, m = rng.integers(0, 2**31, 2000), rng.integers(1, 32, 2000), rng.integers(0, 2**16, 2000)
    exact = x.astype(object)
    assert np.array_equal(fixed.up(x, k), [-(-a // 2**b) for a, b in zip(exact, k.tolist(), strict=True)])
    assert np.array_equal(fixed.scale_up(x, m), [-(-a * b // 2**16) for a, b in zip(exact, m.tolist(), strict=True)])
    assert np.array_equal(fixed.scale(-x, m), [-a * b // 2**16 for a, b in zip(exact, m.tolist(), strict=True)])
    with pytest.raises(AssertionError, match="leaves int32"):
        fixed.held(2**31)
    with pytest.raises(AssertionError, match="shift"):
        fixed.down(1, 32)


def test_roots_are_near_and_never_zero():
    drawn = np.random.default_rng(0).integers(1, 2**30, 50000)
    v = np.unique(np.concatenate([np.arange(1, 5000), drawn, [2**30 - 1]]))
    y, sigma, h = kernels.root(v)
    exact = np.sqrt(v.astype(float))
    assert np.abs(sigma / 2.0**h / exact - 1.0).max() < 2.5e-4 and sigma.min() > 0
    assert np.all(np.abs(y * 2.0 ** (h - 30.0) * exact - 1.0) < 1.5e-4)
    assert sigma.max() <= 2**15


@pytest.mark.parametrize(("slope", "most"), [(0.0, 0.02), (0.01, 0.013), (0.1, 0.004), (0.5, 0.004)])
def test_the_activation_is_that_of_the_formula(slope, most):
    z = np.linspace(-3.9, 3.9, 4001)
    size = 2.0**20
    x = Wide(np.rint(z * size).astype(np.int64)[None], np.array([-20]), np.full((1, 4001), 2**29), np.array([-28]))
    scale = np.sqrt(2.0)
    got = kernels.narrow(x, 15, 14, tail_table(slope))
    mean, sigma = got.mean * 2.0 ** got.mean_exponent[:, None], got.sigma * 2.0 ** got.sigma_exponent[:, None]
    exact = leaky_relu(NUMPY, Moments(z, np.full(4001, scale**2)), slope)
    assert np.abs(mean[0] - exact.mean).max() < 9.6e-4 * scale
    active = np.sqrt(exact.var) > 0.01 * scale  # below it a mantissa of 14 bits is what limits
    ratio = sigma[0, active] ** 2 / exact.var[active]
    assert ratio.min() > 1.0 - most and ratio.max() < 1.0 + 2.0 * most
    assert np.all(got.sigma > 0)


def test_far_beyond_the_kink_a_unit_is_linear_or_nearly_off():
    x = Wide(np.array([[2**29, -(2**29)]]), np.array([0]), np.array([[2**20, 2**20]]), np.array([0]))
    got = kernels.narrow(x, 15, 14, tail_table(0.25))
    sigma = got.sigma[0] * 2.0 ** got.sigma_exponent[0]
    assert np.allclose(sigma, [2.0**10, 2.0**8], rtol=1e-3)
    assert np.allclose(got.mean[0] * 2.0 ** got.mean_exponent[0], [2.0**29, -(2.0**27)], rtol=1e-4)


def test_softplus_within_its_error():
    x = np.concatenate([np.linspace(-60, 60, 20001), [-1e4, 3e4, 1e6]])
    for exponent in (-53, -30, -20, -12):
        mean = np.rint(np.clip(x * 2.0**-exponent, 1 - 2.0**31, 2.0**31 - 1)).astype(np.int64)
        mean = mean[np.abs(mean) < 2**31]
        exact = np.logaddexp(0.0, mean * 2.0**exponent)
        mantissa, own = others.int_softplus(mean, np.full(mean.shape, exponent))
        seen = exact > 0
        assert np.abs(mantissa[seen] * 2.0 ** own[seen].astype(float) / exact[seen] - 1.0).max() < 6e-4
        assert np.all(mantissa > 0)


def test_floats_come_back_bit_for_bit_and_what_is_beyond_is_told():
    rng = np.random.default_rng(0)
    x = (rng.choice([-1, 1], 5000) * 10.0 ** rng.uniform(-44, 38, 5000)).astype(np.float32)
    pattern = ends.float_bits(x)
    mantissa, field = ends.unpack(pattern)
    signed = np.where(pattern >> 31, -mantissa, mantissa)
    back = ends.from_bits(ends.to_bits(signed, field - 150, upwards=False))
    assert np.array_equal(back.view(np.uint32), x.view(np.uint32))
    assert ends.to_bits(np.array([1]), 128, upwards=True)[0] == ends.INFINITE
    assert ends.to_bits(np.array([1]), -1000, upwards=True)[0] == 1  # never zero
    assert ends.to_bits(np.array([1]), -1000, upwards=False)[0] == 0
