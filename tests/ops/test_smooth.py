"""Smooth activations: the rule against quadrature for every mean and sigma, its limits, its gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lbnn import Moments
from lbnn.base.errors import LbnnError
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.smooth_functions import FUNCTIONS
from lbnn.ops.torch import TORCH, compute
from smooth_errors import FARTHEST, mean_error, true_moments

SMOOTH, POINT = OPS["smooth"], OPS["smooth_point"]
MEANS = np.linspace(-10.0, 10.0, 27)


def run(name: str, mean: object, var: object) -> Moments[np.ndarray]:
    return SMOOTH.formula(NUMPY, Moments(np.asarray(mean, float), np.asarray(var, float)), function=name, scale=1.0)


def errors(name: str, sigma: float) -> tuple[float, float]:
    """Of the mean in units of the result's sd, and of the variance relative to it."""
    mean = MEANS[FARTHEST.get(name, -10.0) <= MEANS]
    truth = true_moments(name, mean, sigma)
    got = run(name, mean, np.full_like(mean, sigma**2))
    return mean_error(got, truth), float(np.max(np.abs(got.var / truth.var - 1)))


# sigma, mean, variance: what docs/layers.md promises; tanh has its bend in half the width.
BARS = [
    (1e-4, 1e-5, 1e-6),
    (0.1, 1e-6, 1e-6),
    (0.5, 1e-5, 1e-4),
    (1.0, 1e-4, 6e-3),
    (2.0, 3e-4, 4e-3),
    (10.0, 1e-5, 1e-5),
    (100.0, 1e-6, 1e-5),
]


@pytest.mark.parametrize("sigma, of_mean, of_var", BARS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_rule_has_the_moments_of_the_quadrature(name, sigma, of_mean, of_var):
    mean, var = errors(name, sigma)
    assert mean <= of_mean and var <= of_var


@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_rules_meet_where_they_are_mixed(name):
    """No step in the result as sigma passes the limits, near zero and where the limit grows."""
    sigma = np.linspace(0.3, 4.0, 4000)
    for mean in (max(-9.0, FARTHEST.get(name, -9.0)), -1.0, 0.3, 7.5):
        out = run(name, np.full_like(sigma, mean), sigma**2)
        ratio = out.var[1:] / out.var[:-1]
        assert np.max(np.abs(np.diff(np.log(ratio)))) < 2e-3


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_known_value_has_no_variance_and_the_value_of_the_function(name):
    x = np.array([-1e6, -50.0, -3.0, -1e-30, 0.0, 1e-30, 0.7, 3.0, 50.0, 1e6])
    out = run(name, x, np.zeros_like(x))
    np.testing.assert_array_equal(out.mean, POINT.formula(NUMPY, x, function=name, scale=1.0))
    np.testing.assert_allclose(out.mean, FUNCTIONS[name].oracle(torch.tensor(x)).numpy(), rtol=1e-12, atol=1e-15)
    assert not out.var.any()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_little_variance_is_passed_on_by_the_slope_also_in_float32(name):
    x = torch.linspace(-6.0, 6.0, 25, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(FUNCTIONS[name].oracle(x).sum(), x)
    narrow = Moments(x.detach().float(), torch.full((25,), 1e-12))
    out = compute(SMOOTH, narrow, function=name, scale=1.0)
    torch.testing.assert_close(out.var.double(), slope**2 * 1e-12, rtol=2e-5, atol=0.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_variance_is_negative_or_lost(name):
    mean, sigma = (part.ravel() for part in np.meshgrid(np.linspace(-20, 20, 81), 10.0 ** np.linspace(-3, 3, 61)))
    for out in (
        run(name, mean, sigma**2),
        compute(SMOOTH, Moments(torch.tensor(mean).float(), torch.tensor(sigma**2).float()), function=name, scale=1.0),
    ):
        assert bool((out.var > 0).all() if name not in FARTHEST else (out.var >= 0).all())


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("var", [0.0, 1e-10, 0.05, 0.6, 1.5, 30.0])
def test_gradients_are_those_of_the_true_moments_down_to_no_variance(name, var):
    """Price: dE'/dE = E f', dE'/dV = E f''/2 and so on, against differences of the rule in float64."""
    mean = torch.linspace(-3.0, 3.0, 12, dtype=torch.float64)
    parts = [mean.clone().requires_grad_(), torch.full_like(mean, var).requires_grad_()]
    out = compute(SMOOTH, Moments(*parts), function=name, scale=1.0)
    for kind in ("mean", "var"):
        gradients = torch.autograd.grad(getattr(out, kind).sum(), parts, retain_graph=True)
        for i, (step, gradient) in enumerate(zip((1e-5, 1e-5 * max(var, 0.01)), gradients, strict=True)):
            low = 0.0 if i == 1 and var < step else -step
            ends = [[p.detach().numpy().copy() for p in parts] for _ in range(2)]
            ends[0][i] += low
            ends[1][i] += step
            below, above = (getattr(run(name, *end), kind) for end in ends)
            np.testing.assert_allclose(gradient.numpy(), (above - below) / (step - low), rtol=2e-2, atol=3e-3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_finite_everywhere_in_float32(name):
    mean = torch.tensor([-1e4, -3.0, -1e-6, 0.0, 1e-6, 3.0, 1e4]).repeat(4).requires_grad_()
    var = torch.tensor([0.0, 1e-12, 1.0, 1e6]).repeat_interleave(7).requires_grad_()
    for call in (compute, lambda op, x, **attrs: op.formula(TORCH, x, **attrs)):
        out = call(SMOOTH, Moments(mean, var), function=name, scale=1.0)
        gradients = torch.autograd.grad((out.mean + out.var).sum(), [mean, var])
        assert all(bool(torch.isfinite(part).all()) for part in (*out, *gradients))


def test_compiled_and_transformed_calls_take_the_same_values():
    mean, var = torch.randn(6, 5), torch.rand(6, 5) * 4

    def total(m, v):
        return sum(part.sum() for part in compute(SMOOTH, Moments(m, v), function="silu", scale=1.0))

    wanted = torch.autograd.grad(total(mean.requires_grad_(), var), mean)[0]
    torch.testing.assert_close(torch.func.grad(total)(mean.detach(), var), wanted)


def test_a_scale_is_that_of_the_argument_and_of_the_result():
    x = Moments(np.array([-1.0, 0.4, 2.0]), np.array([0.1, 1.0, 5.0]))
    out = SMOOTH.formula(NUMPY, x, function="softplus", scale=3.0)
    inner = run("softplus", x.mean * 3.0, x.var * 9.0)
    np.testing.assert_allclose(out.mean, inner.mean / 3.0)
    np.testing.assert_allclose(out.var, inner.var / 9.0)


def test_half_precision_is_computed_in_float32():
    x = Moments(torch.randn(9).half(), torch.rand(9).half())
    out = compute(SMOOTH, x, function="tanh", scale=1.0)
    wide = compute(SMOOTH, Moments(*(part.float() for part in x)), function="tanh", scale=1.0)
    assert out.mean.dtype == torch.float16
    torch.testing.assert_close(out.var, wide.var.half())


@pytest.mark.parametrize("value", ["relu", 3, None, "lbnn_tanh"])
def test_an_unknown_function_is_refused(value):
    with pytest.raises(LbnnError, match="function must be one of sigmoid, tanh"):
        SMOOTH.attributes["function"]("function", value)
