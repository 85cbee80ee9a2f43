"""Max pooling in integers beside the exact moments of the larger of two, and windows beside float64's tournament."""

import re

import numpy as np
import pytest

from lbnn.base.moments import Moments
from lbnn.graph.ints.maps import Windows
from lbnn.graph.ints.max_pool import FINER, int_match, int_max_pool
from lbnn.graph.ints.tables import match_table
from lbnn.graph.ints.values import Narrow
from lbnn.graph.reference import NUMPY
from lbnn.ops.max_pool import larger, max_pool
from places import ROOT


def drawn(ahead, count=40000, decades=3.0):
    """Pairs up to five a apart, of sigmas that differ by up to three powers of ten."""
    rng = np.random.default_rng(ahead)
    s = np.maximum(1, (2**14 * 10 ** -rng.uniform(0, decades, (2, count))).astype(np.int64))
    a = np.hypot(*s) * 2.0**-ahead
    e = rng.integers(-30000, 30000, count)
    f = np.clip(e + np.rint(a * rng.uniform(-5, 5, count)).astype(np.int64), -32767, 32767)
    return e, f, s, a


def matched(e, f, s, ahead):
    """Mean and variance that integers find, and the exact ones."""
    mean, var = int_match((e << FINER, s[0] ** 2), (f << FINER, s[1] ** 2), np.full(len(e), ahead))
    exact = larger(NUMPY, *(Moments(x.astype(float), (own * 2.0**-ahead) ** 2) for x, own in ((e, s[0]), (f, s[1]))))
    return Moments(mean * 2.0**-FINER, var * 4.0**-ahead), exact


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_a_match_is_the_exact_one(ahead):
    e, f, s, a = drawn(ahead, decades=1.0)
    found, exact = matched(e, f, s, ahead)
    assert np.abs((found.mean - exact.mean) / a).max() < 4e-4
    near = np.abs(e - f) < 3.9 * a  # beyond the end of the tables the gain has its end
    ratio = (found.var / exact.var)[near & (a >= 8)]
    assert ratio.min() > 0.996 and ratio.max() < 1.02


@pytest.mark.parametrize("ahead", [0, 3, 6, 9, 12, 15, 20, 40])
def test_no_match_is_surer_than_it_should_be(ahead):
    """However coarse the means are beside the sigmas, and however much the sigmas differ."""
    e, f, s, _ = drawn(ahead)
    found, exact = matched(e, f, s, ahead)
    assert np.all(found.var >= 0.99 * exact.var) and np.all(found.var > 0)
    assert np.all(found.var <= (s.max(axis=0) * 2.0**-ahead) ** 2)


def test_means_that_mantissas_can_not_tell_apart_keep_the_larger_variance():
    """A tenth of a mantissa's unit apart is 10 sigmas here; rounding to the same number must not halve the variance."""
    found = int_match(
        (np.array([5 << FINER]), np.array([400])), (np.array([5 << FINER]), np.array([100])), np.array([30])
    )
    assert found[1].tolist() == [400]


def test_known_values_and_missing_ones():
    none = np.array([0])
    five, seven = (np.array([5 << FINER]), none), (np.array([7 << FINER]), none)
    assert [int(part[0]) for part in int_match(five, seven, np.array([1 << 20]))] == [7 << FINER, 0]
    missing = (none, np.array([-1]))
    for pair in ((five, missing), (missing, five)):
        assert [int(part[0]) for part in int_match(*pair, none)] == [5 << FINER, 0]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [((2, 2), (2, 2), (0, 0), (1, 1)), ((3, 5), (2, 1), (1, 2), (1, 1)), ((2, 3), (1, 2), (0, 1), (3, 2))],
)
def test_windows_are_those_of_float64(kernel, stride, padding, dilation):
    rng = np.random.default_rng(0)
    size, channels = (8, 9), 3
    mean, sigma = rng.integers(-9000, 9000, (2, channels, *size)), rng.integers(2000, 9000, (2, channels, *size))
    geometry = dict(kernel_size=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=False)
    exact = max_pool(NUMPY, Moments(mean * 1.0, sigma.astype(float) ** 2), **geometry)
    last = [np.moveaxis(part, 1, -1).reshape(2, -1) for part in (mean, sigma)]
    exponent = np.zeros(2, np.int64)
    window = Windows(channels, size, exact.mean.shape[2:], kernel, stride, padding, dilation)
    found = int_max_pool(Narrow(last[0], exponent, last[1], exponent), window)
    for part, scale, wanted, most in (
        (found.mean, 2.0**-FINER, exact.mean, 2e-3 * 9000),
        (found.var, 1.0, exact.var, 2e-3 * 9000**2),
    ):
        shown = np.moveaxis((part * scale).reshape(2, *exact.mean.shape[2:], channels), -1, 1)
        assert np.abs(shown - wanted).max() < most


def test_the_table_of_c_is_that_of_the_reference():
    text = (ROOT / "c_runtime/lbnn_int_maxpool.h").read_text()
    numbers = re.search(r"lbnn_int_matches\[195\][^{]*\{([^}]*)\}", text)
    assert [int(word) for word in numbers[1].split(",")] == match_table().tolist()
