"""Units far from zero, dead units, layers without variance: every backend keeps the contract or the bound stated here.

Behind a ReLU a unit at E / sigma = -x passes on a variance of about 2 phi(x) / x^3 of its own: 4e-25 at x = 10. Where
that is all there is, the errors below are relative to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lbnn import nn as bnn
from lbnn.graph.reference import predict
from lbnn.measure import backends
from lbnn.measure.parity import FLOAT32_TOLERANCE, errors, judge
from lbnn.measure.samples import Samples, draw_samples
from lbnn.model.file import Model, read_model

BACKENDS = ("torch", "onnx", "c", "cortex-m4")
NO_SIGMA = -300.0  # softplus(rho)^2 is 0 in float32


def linear(weight: Any, bias: Any, weight_rho: float = NO_SIGMA, bias_rho: Any = NO_SIGMA) -> bnn.Linear:
    """A layer with these means; without more said its weights are known exactly."""
    weight = torch.as_tensor(weight, dtype=torch.float32)
    layer = bnn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight_mu.copy_(weight)
        layer.weight_rho.fill_(weight_rho)
        layer.bias_mu.copy_(torch.as_tensor(bias, dtype=torch.float32))
        layer.bias_rho.copy_(torch.as_tensor(bias_rho, dtype=torch.float32))
    return layer


ONE = float(np.log(np.expm1(1.0)))  # rho of sigma = 1


def units_at(places: Any, slope: float) -> Model:
    """Units with sigma = 1 at these places, through the activation, each to an output of its own."""
    places = np.asarray(places, np.float32)
    count = len(places)
    first = linear(np.zeros((count, 1)), places, bias_rho=ONE)
    return read_model(bnn.Sequential(first, bnn.LeakyReLU(slope), linear(np.eye(count), np.zeros(count))), (1,))


def run(backend: str, model: Model, inputs: Any = ((0.0,), (1.0,))) -> tuple[Any, Any, Any, Any]:
    """Answers, errors of mean and variance, and the reference."""
    samples = Samples(np.array(inputs, np.float32), None, ("given",) * len(inputs))
    outcome = backends.BACKENDS[backend].run(model, samples)
    wanted = predict(model.graph, samples.mean)
    return outcome, *errors(outcome, wanted), wanted


# The largest relative error of the variance that a dead unit alone may show, by how dead it is.
DEAD = {
    "torch": {9.0: 1e-5, 11.99: 1e-5},
    "onnx": {9.0: 1e-5, 11.99: 2e-3},
    "c": {9.0: 1e-5, 11.99: 1e-5},
    "cortex-m4": {9.0: 1e-5, 11.99: 1e-5},
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_dead_unit_passes_on_is_right_to_twelve_sigma(backend: str) -> None:
    for limit, bound in DEAD[backend].items():
        _, mean_error, var_error, _ = run(backend, units_at(np.linspace(-limit, limit, 97), slope=0.0))
        assert mean_error.max() <= FLOAT32_TOLERANCE
        assert var_error.max() <= bound, (limit, var_error.max())


@pytest.mark.parametrize("backend", BACKENDS)
def test_beyond_twelve_sigma_a_dead_unit_passes_on_next_to_nothing(backend: str) -> None:
    outcome, mean_error, _, wanted = run(backend, units_at([-12.01, -13, -20, -38, -1e2, -1e4, -1e6], slope=0.0))
    assert mean_error.max() <= FLOAT32_TOLERANCE
    assert wanted.var.max() < 1e-34 and outcome.var.max() < 1e-34 and outcome.var.min() >= 0.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_network_whose_variance_comes_from_dead_units_alone(backend: str) -> None:
    rng = np.random.default_rng(0)
    first = linear(0.1 * rng.normal(size=(16, 2)), rng.uniform(-8.5, -6.0, 16), bias_rho=ONE)
    model = read_model(bnn.Sequential(first, bnn.ReLU(), linear(rng.normal(size=(3, 16)), np.zeros(3))), (2,))
    _, mean_error, var_error, wanted = run(backend, model, rng.normal(size=(20, 2)))
    assert 0.0 < wanted.var.max() < 1e-8
    assert max(mean_error.max(), var_error.max()) <= FLOAT32_TOLERANCE


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("slope", [0.01, 0.1, 1.0])
def test_a_leaky_unit_keeps_its_slope_however_far_out(backend: str, slope: float) -> None:
    places = [-3.0, -5.5, -10.0, -12.0, -12.5, -1e2, -1e4, -1e6, 5.5, 12.0, 1e4, 1e6]
    outcome, mean_error, var_error, _ = run(backend, units_at(places, slope))
    assert max(mean_error.max(), var_error.max()) <= FLOAT32_TOLERANCE
    far = np.array(places) <= -12.5
    np.testing.assert_allclose(outcome.var[0, far], slope**2, rtol=1e-5)


def plain_network(activation: Any) -> Model:
    rng = np.random.default_rng(1)
    first = linear(rng.normal(size=(8, 3)), rng.normal(size=8))
    return read_model(bnn.Sequential(first, activation, linear(np.ones((2, 8)), np.zeros(2))), (3,))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("activation", [bnn.ReLU(), bnn.LeakyReLU(0.01)], ids=str)
def test_layers_without_variance_are_the_plain_network(backend: str, activation: Any) -> None:
    inputs = np.random.default_rng(2).normal(size=(10, 3))
    outcome, mean_error, _, wanted = run(backend, plain_network(activation), inputs)
    assert mean_error.max() <= FLOAT32_TOLERANCE
    assert not wanted.var.any() and not np.asarray(outcome.var).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_clamped_form_finds_variance_where_there_is_none_and_all_agree_on_it(backend: str) -> None:
    """Its known cost: alpha is clamped and E is not, so that a certain value counts as one at 3 sigma."""
    inputs = np.random.default_rng(2).normal(size=(10, 3))
    _, mean_error, var_error, wanted = run(backend, plain_network(bnn.LeakyReLU(0.1, clamp=3.0)), inputs)
    assert wanted.var.min() > 0.0
    assert max(mean_error.max(), var_error.max()) <= FLOAT32_TOLERANCE


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rho", [-20.0, -43.0, -48.0])
def test_variances_down_to_denormals(backend: str, rho: float) -> None:
    """sigma = e^rho: variances of 4e-18, 5e-38 and 2e-42."""
    rng = np.random.default_rng(2)
    first = linear(rng.normal(size=(8, 3)), rng.normal(size=8), rho, rho)
    network = bnn.Sequential(first, bnn.LeakyReLU(0.1), linear(rng.normal(size=(2, 8)), np.zeros(2)))
    _, mean_error, var_error, wanted = run(backend, read_model(network, (3,)), rng.normal(size=(10, 3)))
    assert wanted.var.min() > 0.0
    assert max(mean_error.max(), var_error.max()) <= FLOAT32_TOLERANCE


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_of_zero(backend: str) -> None:
    network = bnn.Sequential(linear(np.zeros((4, 3)), np.zeros(4)), bnn.ReLU(), linear(np.zeros((2, 4)), 0.0, ONE, ONE))
    outcome, mean_error, var_error, _ = run(backend, read_model(network, (3,)), [[0, 0, 0], [1, -2, 3]])
    assert mean_error.max() == 0.0 and var_error.max() <= FLOAT32_TOLERANCE
    np.testing.assert_allclose(outcome.var, 1.0, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_network_without_bias_vanishes_with_its_input(backend: str) -> None:
    """Variances of denormal inputs are below float32, and so counted as nothing."""
    torch.manual_seed(0)
    network = bnn.Sequential(bnn.Linear(3, 4, bias=False), bnn.LeakyReLU(0.1), bnn.Linear(4, 2, bias=False))
    model = read_model(network, (3,))
    row = judge(
        backend,
        backends.BACKENDS[backend].run,
        model,
        draw_samples(model, 21, seed=0),
        FLOAT32_TOLERANCE,
    )
    assert row.passed, row
