"""Piecewise-linear functions of a Gaussian: variances from 1e-30 to 1e30, means on kinks, many kinks, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mpmath import mp

from lbnn import LbnnError, Moments
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.pieces import make_pieces
from lbnn.ops.piecewise import PIECEWISE_EXAMPLES
from lbnn.ops.torch import compute
from oracles import piecewise_moments

OP = OPS["piecewise"]
KINKS = np.float32(np.linspace(-4.0, 4.0, 16)).astype(float)
FITTED = {  # tanh by 16 kinks
    "kinks": tuple(KINKS.tolist()),
    "slopes": (0.0, *(np.diff(np.tanh(KINKS)) / np.diff(KINKS)).tolist(), 0.0),
    "value": float(np.tanh(-4.0)),
}
CASES = (*PIECEWISE_EXAMPLES, FITTED)


def grid(function, count=60, seed=0):
    """E on kinks, next to them and a few sigma away; sigma from 1e-15 to 1e15, half of them as large as pieces."""
    rng = np.random.default_rng(seed)
    sigma = 10.0 ** np.where(rng.random(count) < 0.5, rng.uniform(-1.5, 2.5, count), rng.uniform(-15, 15, count))
    away = rng.uniform(-6.0, 6.0, count) * rng.choice([0.0, 1e-3, 1.0, 1.0], count)
    mean = rng.choice((*function["kinks"], 0.0), count) + sigma * away
    return mean.astype(np.float32), (sigma**2).astype(np.float32)


def errors(out, function, mean, var):
    """The largest error of the mean over |E'| + sigma', and of the variance over itself."""
    worst = [mp.mpf(0), mp.mpf(0)]
    for e, v, got_mean, got_var in zip(mean, var, np.asarray(out.mean), np.asarray(out.var), strict=True):
        want_mean, want_var = piecewise_moments(float(e), float(v), **function)
        worst[0] = max(worst[0], abs(float(got_mean) - want_mean) / (abs(want_mean) + mp.sqrt(want_var)))
        worst[1] = max(worst[1], abs(float(got_var) - want_var) / want_var)
    return float(worst[0]), float(worst[1])


@pytest.mark.parametrize("function", CASES)
def test_float64_is_exact_at_every_variance(function):
    mean, var = grid(function)
    out = OP.formula(NUMPY, Moments(mean.astype(float), var.astype(float)), **function)
    of_mean, of_var = errors(out, function, mean, var)
    assert of_mean < 1e-8 and of_var < 1e-10  # the mean of FITTED: the float64 sum of its slopes is not exactly odd


@pytest.mark.parametrize("function", CASES)
def test_torch_float32_is_exact_at_every_variance(function):
    mean, var = grid(function)
    out = compute(OP, Moments(torch.tensor(mean), torch.tensor(var)), **function)
    of_mean, of_var = errors(out, function, mean, var)
    assert of_mean < 1e-6 and of_var < 1e-5


@pytest.mark.parametrize("function", CASES)
def test_saturation_and_certainty_are_the_plain_function(function):
    pieces, places = make_pieces(**function), np.array([-1e9, -77.0, 0.123, 5.0, 1e9])
    out = OP.formula(NUMPY, Moments(places, np.full(5, 1e-20)), **function)
    slopes = [pieces.slopes[int(np.searchsorted(pieces.kinks, place))] for place in places]
    np.testing.assert_allclose(out.mean, [pieces.at(place) for place in places], rtol=1e-12)
    np.testing.assert_allclose(out.var, 1e-20 * np.square(slopes), rtol=1e-12)


def test_small_values_beside_large_ones_are_not_lost():
    """Hard-tanh of 1e-12 +- 1e-13: a sum that starts at -1 would give zero."""
    x = Moments(torch.tensor([1e-12]), torch.tensor([1e-26]))
    out = compute(OP, x, **PIECEWISE_EXAMPLES[1])
    torch.testing.assert_close(out.mean, x.mean, rtol=1e-6, atol=0.0)
    torch.testing.assert_close(out.var, x.var, rtol=1e-6, atol=0.0)


def gradients(function, mean, var, dtype):
    x = [torch.tensor(part, dtype=dtype, requires_grad=True) for part in (mean, var)]
    out = compute(OP, Moments(*x), **function)
    return [grad for part in out for grad in torch.autograd.grad(part.sum(), x, retain_graph=True)]


@pytest.mark.parametrize("function", PIECEWISE_EXAMPLES)
def test_gradients_are_the_slopes_of_the_moments(function):
    """Differences of the 120-digit moments, on kinks too."""
    mean = np.array([*function["kinks"], *(kink + 0.4 for kink in function["kinks"]), -0.7])
    var = np.linspace(0.05, 9.0, len(mean))
    found = gradients(function, mean, var, torch.float64)
    step = mp.mpf(10) ** -30
    for i, (e, v) in enumerate(zip(mean, var, strict=True)):
        with mp.workdps(120):
            ends = [
                [piecewise_moments(e + s * de * step, v + s * dv * step, **function) for s in (mp.mpf(-1), mp.mpf(1))]
                for de, dv in ((1, 0), (0, 1))
            ]
            want = [(high[part] - low[part]) / (2 * step) for part in (0, 1) for low, high in ends]
        for grad, value in zip(found, want, strict=True):
            assert abs(float(grad[i]) - float(value)) < 1e-9 * (1.0 + abs(float(value)))


@pytest.mark.parametrize("function", CASES)
def test_gradients_are_finite_and_those_of_float64(function):
    mean, var = grid(function, 200)
    mean, var = np.append(mean, function["kinks"]), np.append(var, np.zeros(len(function["kinks"])))
    single, double = (gradients(function, mean, var, dtype) for dtype in (torch.float32, torch.float64))
    sd = np.sqrt(var.astype(float))
    scales = (1.0, 1.0 / np.maximum(sd, 1e-30), np.maximum(sd, 1e-30), 1.0)  # of E' and V' by E and V
    for one, other, scale in zip(single, double, scales, strict=True):
        assert torch.isfinite(one).all()
        assert np.max(np.abs(one.numpy() - other.numpy()) / scale) < 1e-4


def test_a_bound_of_zero_kinks_and_slopes_that_do_not_fit_are_refused():
    for kinks, slopes, message in (
        ([], [1.0], "1 to 64 numbers"),
        ([0.0, 0.0], [1.0, 2.0, 3.0], "must rise"),
        ([1.0, 1.0 + 1e-9], [1.0, 2.0, 3.0], "in float32 too"),
        ([0.0], [1.0], "1 kinks divide 2 pieces"),
        ([float("nan")], [1.0, 2.0], "number from"),
        ([-1e6, 1e6], [0.0, 1e6, 0.0], "passes 1e"),
    ):
        with pytest.raises(LbnnError, match=message):
            make_pieces(kinks, slopes, 0.0)
    with pytest.raises(LbnnError, match="divide"):
        OP.shape((3,), kinks=(0.0,), slopes=(1.0,), value=0.0)
