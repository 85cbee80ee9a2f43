"""Properties of the C kernels over all float32 bit patterns, stated in float64 apart from the fuzzer's own reference.

Finite inputs and variances that are not negative give a variance that is not negative, and a result that is not finite
only where a float32 may have overflowed: where the sum of the magnitudes of all terms, or a square on the way, is
beyond 3.4e38. A result that need not overflow is what float64 gives. What is not finite is never hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import erfcx, log1p
from test_kernels import BUILDS, Kernels, compile_kernels, kernels_folder

from lbnn.exporters.c.pack import pack_weights
from lbnn.exporters.c.shapes import ConvShape, PoolShape, small_shape

Array = np.ndarray[Any, Any]
LARGEST = float(np.finfo(np.float32).max)
LEAST = 2.0**-149
UNIT = 2.0**-24

# Vectors, none, and the small kernels.
TRIED = ("gcc-O2", "gcc-scalar", "gcc-Os-size-scalar")
PROPERTY = settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module", params=TRIED)
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return compile_kernels(BUILDS[request.param], kernels_folder(tmp_path_factory))


# ---- every bit pattern ----------------------------------------------------------------------------

PATTERNS = st.integers(0, 2**32 - 1)
CORNERS = st.sampled_from([
    0x00000000, 0x80000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x41400000, 0xC2AE0000,
    0x1F800000, 0x5F7FFFFF, 0x5F800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF,
])  # fmt: skip
ORDINARY = st.floats(-64, 64, width=32).map(lambda x: int(np.float32(x).view(np.uint32)))


def any_bits(count: int) -> st.SearchStrategy[Array]:
    """Float32 arrays of arbitrary bits; often all ordinary, or with the places where floats end."""
    elements = st.sampled_from([PATTERNS, CORNERS, ORDINARY, ORDINARY, CORNERS | ORDINARY | PATTERNS])
    arrays = elements.flatmap(lambda kind: hnp.arrays(np.uint32, count, elements=kind))
    return arrays.map(lambda bits: bits.view(np.float32).copy())


def finite(count: int) -> st.SearchStrategy[Array]:
    """Of those, the finite ones."""
    return any_bits(count).map(lambda x: np.where(np.isfinite(x), x, np.float32(1.5)))


def variances(count: int) -> st.SearchStrategy[Array]:
    """Finite and not negative."""
    return finite(count).map(np.abs)


def wide(*arrays: Array) -> list[Array]:
    return [array.astype(np.float64) for array in arrays]


# ---- what must hold -------------------------------------------------------------------------------


def assert_right(got: Array, value: Array, error: Array, size: Array) -> None:
    """Within `error` of float64 wherever `size`, the largest that can occur on the way, is a float32."""
    safe = size < LARGEST * (1 - 1e-5)
    assert np.isfinite(got[safe]).all(), (got, size)
    off = np.abs(got[safe].astype(np.float64) - value[safe])
    assert (off <= error[safe]).all(), (off, error[safe], got[safe], value[safe])


def assert_variance(var: Array) -> None:
    """Not negative; a NaN is for the check of finite results."""
    assert not (var < 0).any(), var


# ---- sums of products -----------------------------------------------------------------------------

# Weights are small in number so that hypothesis can shrink: 3 inputs, 10 outputs (a block of 8 and one of 2).
INPUTS, OUTPUTS = 3, 10
ROW = small_shape(ConvShape(1, 1, INPUTS, OUTPUTS, 1, 1, 1, INPUTS, 1, 1, 0, 0, 1, 1, 1))


def linear(kernels: Kernels, e: Array, v: Array, w: Array) -> tuple[Array, Array]:
    mean, var = np.empty(OUTPUTS, np.float32), np.empty(OUTPUTS, np.float32)
    kernels("lbnn_linear", e, v, w, mean, var, INPUTS, OUTPUTS)
    return mean, var


def linear_point(kernels: Kernels, e: Array, v: Array, w: Array) -> tuple[Array, Array]:
    mean, var = np.empty(OUTPUTS, np.float32), np.empty(OUTPUTS, np.float32)
    kernels("lbnn_linear_point", e, w, mean, var, INPUTS, OUTPUTS)
    v[:] = 0
    return mean, var


def linear_small(kernels: Kernels, e: Array, v: Array, w: Array) -> tuple[Array, Array]:
    mean, var = np.empty(OUTPUTS, np.float32), np.empty(OUTPUTS, np.float32)
    kernels("lbnn_conv2d_small", e, v, w, mean, var, ROW)
    return mean, var


@pytest.mark.parametrize("form", [linear, linear_point, linear_small])
@PROPERTY
@given(data=st.data())
def test_a_linear_layer_of_finite_numbers_overflows_only_where_it_must(
    kernels: Kernels, form: Callable[..., tuple[Array, Array]], data: st.DataObject
) -> None:
    e, v = data.draw(finite(INPUTS)), data.draw(variances(INPUTS))
    mu, spread = (data.draw(kind(OUTPUTS * INPUTS)).reshape(OUTPUTS, INPUTS) for kind in (finite, variances))
    bias, bias_var = data.draw(finite(OUTPUTS)), data.draw(variances(OUTPUTS))
    mean, var = form(kernels, e, v, pack_weights(mu, spread, bias, bias_var))
    e64, v64, mu64, spread64, bias64, bias_var64 = wide(e, v, mu, spread, bias, bias_var)
    square, second = mu64**2, v64 + e64**2
    true_var = bias_var64 + square @ v64 + spread64 @ second
    terms = np.abs(bias64) + np.abs(mu64) @ np.abs(e64)
    assert_variance(var)
    assert_right(mean, bias64 + mu64 @ e64, 8 * UNIT * terms + 8 * LEAST, terms)
    lost = LEAST * (8 + v64.sum() + spread64.sum(axis=1))  # by products that are denormal
    on_the_way = np.maximum(true_var, np.maximum(square.max(axis=1), second.max()))
    assert_right(var, true_var, 16 * UNIT * true_var + lost, on_the_way)


@PROPERTY
@given(data=st.data())
def test_a_linear_layer_hides_nothing(kernels: Kernels, data: st.DataObject) -> None:
    e, v = data.draw(any_bits(INPUTS)), data.draw(any_bits(INPUTS))
    mu, spread = (data.draw(kind(OUTPUTS * INPUTS)).reshape(OUTPUTS, INPUTS) for kind in (finite, variances))
    mean, var = linear(kernels, e, v, pack_weights(mu, spread))
    assert np.isfinite(e).all() or not np.isfinite(mean).any()
    assert (np.isfinite(e).all() and np.isfinite(v).all()) or not np.isfinite(var).any()


# ---- pooling --------------------------------------------------------------------------------------

POOL = PoolShape(1, 4, 5, 2, 2, 2, 2, 2, 2, 0, 0, 1)


@pytest.mark.parametrize("name", ["lbnn_avg_pool", "lbnn_avg_pool_2x2"])
@PROPERTY
@given(e=finite(20), v=variances(20))
def test_pooling_overflows_only_where_the_sum_of_a_window_does(kernels: Kernels, name: str, e: Array, v: Array) -> None:
    mean, var = np.empty(4, np.float32), np.empty(4, np.float32)
    kernels(name, e, v, mean, var, POOL)
    sums = [x.reshape(4, 5)[:, :4].reshape(2, 2, 2, 2).sum(axis=(1, 3)).ravel() for x in wide(e, np.abs(e), v)]
    assert_variance(var)
    assert_right(mean, sums[0] / 4, UNIT * 4 * sums[1] + 4 * LEAST, sums[1])
    assert_right(var, sums[2] / 16, UNIT * 4 * sums[2] + 4 * LEAST, sums[2])


# ---- activations ----------------------------------------------------------------------------------

SLOPES = st.sampled_from([0.0, 0.01, 0.1, 1.0]) | st.floats(0.0, 1.0, width=32)


def leaky_moments(e: Array, v: Array, slope: float) -> tuple[Array, Array, Array]:
    """The exact moments by the Mills ratio, and x = |E| / sigma."""
    sigma = np.sqrt(v)
    x = np.minimum(np.divide(np.abs(e), sigma, out=np.full_like(e, 40.0), where=sigma > 0), 40.0)
    phi = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    mills = np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
    i1, j2, tail = phi * (1 - x * mills), phi * ((1 + x * x) * mills - x), phi * mills
    m, s, a = np.where(e < 0, slope, 1.0), np.where(e < 0, -1.0, 1.0), 1 - slope
    return m * e + a * sigma * i1, v * (m * m - 2 * s * a * m * tail + a * a * (j2 - i1 * i1)), x


@PROPERTY
@given(e=finite(9), v=variances(9), slope=SLOPES)
def test_leaky_relu_never_overflows(kernels: Kernels, e: Array, v: Array, slope: float) -> None:
    true_mean, true_var, x = leaky_moments(*wide(e, v), float(np.float32(slope)))
    mean, var = e.copy(), v.copy()
    kernels("lbnn_leaky_relu", mean, var, 9, slope)
    assert_variance(var)
    relative = 5e-6 + 3e-7 * np.minimum(x, 12.25) ** 2  # rounding x moves the tail
    scale = np.abs(true_mean) + np.sqrt(true_var)
    nothing = np.zeros(9)
    assert_right(mean, true_mean, relative * scale + 1e-32 * np.sqrt(v.astype(float)) + LEAST, nothing)
    assert_right(var, true_var, 2 * relative * true_var + 1e-32 * v.astype(float) + LEAST, nothing)


@PROPERTY
@given(e=finite(9), v=variances(9), slope=SLOPES, clamp=st.floats(2**-20, 2**100, width=32))
def test_the_clamped_form_overflows_only_where_the_square_of_a_mean_does(
    kernels: Kernels, e: Array, v: Array, slope: float, clamp: float
) -> None:
    size = (np.abs(e.astype(np.float64)) + 3 * np.sqrt(v.astype(np.float64))) ** 2
    kernels("lbnn_leaky_relu_clamped", e, v, 9, slope, clamp)
    assert_variance(v)
    safe = size < LARGEST
    assert np.isfinite(e[safe]).all() and np.isfinite(v[safe]).all()


@pytest.mark.parametrize("name", ["lbnn_leaky_relu", "lbnn_leaky_relu_clamped"])
@PROPERTY
@given(e=any_bits(9), v=any_bits(9), slope=SLOPES)
def test_an_activation_hides_nothing(kernels: Kernels, name: str, e: Array, v: Array, slope: float) -> None:
    v = np.where(v < 0, -v, v)
    mean, var = e.copy(), v.copy()
    kernels(name, mean, var, 9, slope, *([3.0] if name.endswith("clamped") else []))
    assert not np.isfinite(mean[~np.isfinite(e)]).any()
    assert not np.isfinite(var[~np.isfinite(v)]).any()
    assert_variance(var)


# ---- pointwise ------------------------------------------------------------------------------------


@PROPERTY
@given(e=finite(6), v=variances(6), scale=finite(2), shift=finite(2))
def test_affine_overflows_only_where_a_product_or_the_square_of_the_scale_does(
    kernels: Kernels, e: Array, v: Array, scale: Array, shift: Array
) -> None:
    e64, v64, s, t = wide(e, v, np.repeat(scale, 3), np.repeat(shift, 3))
    kernels("lbnn_affine", e, v, scale, shift, 2, 3)
    terms, square = np.abs(s * e64) + np.abs(t), s**2
    assert_variance(v)
    assert_right(e, s * e64 + t, 2 * UNIT * terms + 2 * LEAST, terms)
    assert_right(v, square * v64, 4 * UNIT * square * v64 + LEAST * (1 + v64), np.maximum(square, square * v64))


@PROPERTY
@example(e=np.array([1, 1, -np.inf, 0], np.float32), v=np.zeros(4, np.float32))
@example(e=np.array([1, 1, np.nan, 0], np.float32), v=np.zeros(4, np.float32))
@given(e=any_bits(4), v=any_bits(4))
def test_the_head_hides_nothing_and_adds_softplus(kernels: Kernels, e: Array, v: Array) -> None:
    """-infinity as well: it is where a sum overflowed, perhaps on the way to a positive number."""
    v = np.where(v < 0, -v, v)
    mean, var = np.empty(2, np.float32), np.empty(2, np.float32)
    kernels("lbnn_variance_head", e, v, mean, var, 2)
    assert mean.tobytes() == e[:2].tobytes()
    used = np.isfinite(e[2:]) & np.isfinite(v[:2])
    assert not np.isfinite(var[~used]).any()
    assert_variance(var)
    s, own = wide(e[2:][used], v[:2][used])
    true = own + np.maximum(s, 0) + log1p(np.exp(-np.abs(s)))
    assert_right(var[used], true, 1e-5 * true + 2e-38, true)


@PROPERTY
@given(a=any_bits(5), b=any_bits(5))
def test_sums_are_those_of_the_processor(kernels: Kernels, a: Array, b: Array) -> None:
    out = np.empty(5, np.float32)
    kernels("lbnn_add_points", a, b, out, 5)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, a + b)


def test_a_sum_that_overflows_before_the_head_is_reported(kernels: Kernels) -> None:
    """The sum is 2e37, but float32 adds two products of -3.3e38 first; log(1 + e^-inf) would be a variance of 0."""
    e, mu = np.full(4, 1e19, np.float32), np.array([[0, 0, 0, 0], [-3.3e19, -3.3e19, 3.4e19, 3.4e19]], np.float32)
    mean, var = np.empty(2, np.float32), np.empty(2, np.float32)
    kernels("lbnn_linear_point", e, pack_weights(mu, np.full_like(mu, 1e-30)), mean, var, 4, 2)
    assert np.isfinite(var).all() and mean[1] == -np.inf
    kernels("lbnn_variance_head", mean, var, mean, var, 1)
    assert kernels("lbnn_emit", mean, var, np.empty(1, np.float32), np.empty(1, np.float32), 1) == -3


# ---- checks ---------------------------------------------------------------------------------------


@PROPERTY
@given(e=any_bits(5), v=any_bits(5))
def test_checks_say_what_numpy_says_and_bad_results_are_not_written(kernels: Kernels, e: Array, v: Array) -> None:
    right_mean, right_var = bool(np.isfinite(e).all()), bool((np.isfinite(v) & (v >= 0)).all())
    assert kernels("lbnn_is_finite", e, 5) == right_mean
    assert kernels("lbnn_is_variance", v, 5) == right_var
    mean, var = np.full(5, -7, np.float32), np.full(5, -7, np.float32)
    right = right_mean and right_var
    assert kernels("lbnn_emit", e, v, mean, var, 5) == (0 if right else -3)
    wanted = (e, v) if right else (np.full(5, -7, np.float32),) * 2
    assert mean.tobytes() == wanted[0].tobytes() and var.tobytes() == wanted[1].tobytes()
