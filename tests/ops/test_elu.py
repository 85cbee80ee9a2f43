"""ELU of a Gaussian: every mean and variance against 60 digits, saturation, certainty, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mpmath import mp

from elu_oracle import elu_moments
from lbnn import Moments
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.elu import ELU_EXAMPLES, LIMIT
from lbnn.ops.tail import NARROW_FLOAT32, NARROW_FLOAT64
from lbnn.ops.torch import TORCH, compute
from oracles import quadrature_moments

OP, POINT = OPS["elu"], OPS["elu_point"]
PLAIN = ELU_EXAMPLES[0]
CASES = (*ELU_EXAMPLES, {"alpha": 30.0, "beta": 1.0, "scale": 1.0}, {"alpha": 0.0, "beta": 1.0, "scale": 1.0})


def grid(attrs, count=80, seed=0):
    """E/sigma to +-10 and E/beta to -40; sigma from 1e-12 to 1e12, most of it around where forms change."""
    rng = np.random.default_rng(seed)
    middle = rng.random(count) < 0.6
    sigma = 10.0 ** np.where(middle, rng.uniform(-2.2, 0.8, count), rng.uniform(-12, 12, count))
    away = rng.uniform(-10.0, 10.0, count) * rng.choice([0.0, 1e-3, 0.1, 1.0, 1.0], count)
    mean = np.where(rng.random(count) < 0.2, rng.uniform(-40.0, 0.0, count), sigma * away)
    return (mean * attrs["beta"]).astype(np.float32), ((sigma * attrs["beta"]) ** 2).astype(np.float32)


def errors(out, attrs, mean, var):
    """Of each mean over |E'| + sigma', and of each variance over itself; a dead ReLU has none to speak of."""
    found = []
    for e, v, got_mean, got_var in zip(mean, var, np.asarray(out.mean), np.asarray(out.var), strict=True):
        want_mean, want_var = elu_moments(float(e), float(v), **attrs)
        spread = max(want_var, mp.mpf(1e-30))
        of_mean = abs(float(got_mean) - want_mean) / (abs(want_mean) + mp.sqrt(spread))
        found.append((float(of_mean), float(abs(float(got_var) - want_var) / spread)))
    return np.array(found).T


def test_the_oracle_is_the_quadrature():
    attrs = {"alpha": 0.7, "beta": 0.3, "scale": 2.0}
    for mean, var in ((-1.3, 0.4), (0.2, 1.0), (3.0, 5.0)):
        want = quadrature_moments(lambda a: OP.oracle(torch.as_tensor(a), **attrs).numpy(), mean, var, [0.0])
        np.testing.assert_allclose([float(part) for part in elu_moments(mean, var, **attrs)], want, rtol=1e-10)


@pytest.mark.parametrize("attrs", CASES)
def test_float64_is_exact_at_every_variance(attrs):
    mean, var = grid(attrs)
    out = OP.formula(NUMPY, Moments(mean.astype(float), var.astype(float)), **attrs)
    of_mean, of_var = errors(out, attrs, mean, var)
    assert of_mean.max() < 1e-13 and of_var.max() < 1e-11


@pytest.mark.parametrize("attrs", CASES)
def test_torch_float32_is_exact_at_every_variance(attrs):
    mean, var = grid(attrs)
    out = compute(OP, Moments(torch.tensor(mean), torch.tensor(var)), **attrs)
    of_mean, of_var = errors(out, attrs, mean, var)
    assert of_mean.max() < 2e-6 and of_var.max() < 2e-5 and np.median(of_var) < 1e-6


@pytest.mark.parametrize(("narrow", "dtype"), [(NARROW_FLOAT32, torch.float32), (NARROW_FLOAT64, torch.float64)])
def test_both_forms_meet_where_they_change(narrow, dtype):
    """On either side of the limit the moments differ by what sigma does, and rounding."""
    mean = torch.linspace(-6.0, 2.0, 81, dtype=dtype)
    below, above = ((LIMIT * narrow) ** 2 * (1.0 + step) for step in (-1e-6, 1e-6))
    for attrs in (PLAIN, {"alpha": 1.7, "beta": 1.0, "scale": 1.0}, {"alpha": 0.1, "beta": 1.0, "scale": 1.0}):
        ends = [compute(OP, Moments(mean, torch.full_like(mean, var)), **attrs) for var in (below, above)]
        rounding = 3e-6 if dtype == torch.float32 else 1e-11
        torch.testing.assert_close(ends[0].mean, ends[1].mean, rtol=rounding, atol=rounding + 1e-6 * LIMIT * narrow)
        torch.testing.assert_close(ends[0].var, ends[1].var, rtol=6e-6 + rounding, atol=0.0)


@pytest.mark.parametrize("attrs", CASES)
def test_certainty_is_the_plain_function_to_the_bit(attrs):
    x = np.array([-1e30, -87.0, -3.0, -0.1, -1e-6, -1e-30, -0.0, 0.0, 1e-30, 0.5, 3e38])
    for dtype in (torch.float32, torch.float64):
        mean = torch.tensor(x, dtype=dtype)
        out = compute(OP, Moments(mean, torch.zeros_like(mean)), **attrs)
        torch.testing.assert_close(out.mean, POINT.formula(TORCH, mean, **attrs), rtol=0.0, atol=0.0)
        assert not out.var.any()
    if attrs["beta"] == attrs["scale"] == 1.0:
        torch.testing.assert_close(out.mean, torch.nn.functional.elu(mean, attrs["alpha"]), rtol=1e-15, atol=0.0)


def test_far_below_zero_the_variance_is_that_of_an_exponential_down_to_the_end_of_floats():
    """V' = e^(2E + V) (e^V - 1), to what the rounding of E makes of it: 2 |E| units."""
    mean, var = (part.ravel() for part in np.meshgrid(-np.arange(5.0, 40.0), [1e-10, 1e-4, 0.1, 0.13, 0.4]))
    out = compute(OP, Moments(torch.tensor(mean).float(), torch.tensor(var).float()), **PLAIN)
    wanted = np.exp(2 * mean + var.astype(np.float32)) * np.expm1(var.astype(np.float32))
    inside = wanted > 1e-37
    np.testing.assert_allclose(out.var.numpy()[inside], wanted[inside], rtol=2e-5)
    assert inside.sum() > 130


@pytest.mark.parametrize("attrs", CASES)
def test_every_finite_input_has_a_finite_mean_and_a_variance_that_is_not_negative(attrs):
    rng, edge = np.random.default_rng(1), np.float32(3.4e38)
    bits = rng.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    mean = np.concatenate([bits[np.isfinite(bits)], [edge, -edge, 0.0, -0.0, edge, -edge, 0.0]]).astype(np.float32)
    var = np.abs(np.concatenate([rng.permutation(mean[:-7]), [edge, edge, edge, edge, 0.0, 0.0, 1e-45]]))
    room = max(attrs["scale"], 1.0) ** 2 * max(attrs["beta"] ** -2, 1.0)  # a scale may take the result out of floats
    mean, var = mean / np.float32(room), var.astype(np.float32) / np.float32(room)
    x = [torch.tensor(part, requires_grad=True) for part in (mean, var)]
    out = compute(OP, Moments(*x), **attrs)
    assert torch.isfinite(out.mean).all() and torch.isfinite(out.var).all() and (out.var >= 0.0).all()
    usual = (x[0].abs() < 1e36) & (x[1] < 1e36)  # products of the backward pass end there
    for part in out:
        for grad in torch.autograd.grad(part.sum(), x, retain_graph=True):
            assert torch.isfinite(grad[usual]).all()


def gradients(attrs, mean, var, dtype):
    x = [torch.tensor(part, dtype=dtype, requires_grad=True) for part in (mean, var)]
    out = compute(OP, Moments(*x), **attrs)
    return [grad.numpy() for part in out for grad in torch.autograd.grad(part.sum(), x, retain_graph=True)]


@pytest.mark.parametrize("attrs", ELU_EXAMPLES)
def test_gradients_are_the_slopes_of_the_moments(attrs):
    """Differences of moments in as many digits as it takes, far out in the tails and with little variance too."""
    mean = np.array([0.0, 0.3, -0.3, 1.0, -2.5, -30.0, 9.0, -1e-3, 2e-3, -9.0]) * attrs["beta"]
    var = np.array([0.5, 1e-3, 1e-3, 9.0, 2.0, 1e-2, 1.0, 1e-6, 1e-7, 1.5]) * attrs["beta"] ** 2
    found, step = gradients(attrs, mean, var, torch.float64), mp.mpf(10) ** -30
    for i, (e, v) in enumerate(zip(mean, var, strict=True)):
        with mp.workdps(120):
            ends = [
                [elu_moments(e + s * de * step, v + s * dv * step, **attrs) for s in (mp.mpf(-1), mp.mpf(1))]
                for de, dv in ((1, 0), (0, 1))
            ]
            want = [(high[part] - low[part]) / (2 * step) for part in (0, 1) for low, high in ends]
        for grad, value in zip(found, want, strict=True):
            assert abs(float(grad[i]) - float(value)) < 1e-9 * abs(float(value)) + 1e-14, (e, v)


def test_gradients_without_variance_are_those_of_the_function():
    """dE'/dE = f', dE'/dV = f''/2, dV'/dV = f'^2 away from the kink."""
    x = np.array([-30.0, -3.0, -0.2, 0.2, 5.0])
    slope, bend = np.where(x > 0, 1.0, 1.7 * np.exp(x)), np.where(x > 0, 0.0, 1.7 * np.exp(x))
    found = gradients({"alpha": 1.7, "beta": 1.0, "scale": 1.0}, x, np.zeros(5), torch.float64)
    for grad, wanted in zip(found, (slope, bend / 2, np.zeros(5), slope**2), strict=True):
        np.testing.assert_allclose(grad, wanted, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("attrs", CASES)
def test_gradients_are_finite_and_those_of_float64(attrs):
    mean, var = grid(attrs, 400)
    mean, var = np.append(mean, [0.0, -1.0, 1.0]), np.append(var, np.zeros(3, np.float32))
    single, double = (gradients(attrs, mean, var, dtype) for dtype in (torch.float32, torch.float64))
    sd, k = np.maximum(np.sqrt(var.astype(float)), 1e-30), attrs["scale"] * max(1.0, attrs["alpha"] / attrs["beta"])
    scales = (k, k / np.minimum(sd, attrs["beta"]), k * k * sd, k * k)  # of E' and V' by E and V
    for one, other, scale in zip(single, double, scales, strict=True):
        assert np.isfinite(one).all()
        assert np.max(np.abs(one - other) / scale) < 1e-4
