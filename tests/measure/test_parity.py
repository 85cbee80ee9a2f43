"""Parity: what counts as an error, what passes, and that a fault is found at the node that has it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lbnn import Moments
from lbnn import nn as bnn
from lbnn.graph.reference import predict
from lbnn.measure.backends import BACKENDS
from lbnn.measure.cost import Cost
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, Verdict, errors, judge
from lbnn.measure.samples import Samples, draw_samples
from lbnn.measure.torch_backend import run_torch
from lbnn.model.file import read_model
from strategies import inputs_for, networks


def small_model():
    torch.manual_seed(3)
    return read_model(
        bnn.Sequential(bnn.Linear(3, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 8), bnn.LeakyReLU(0.1), bnn.Linear(8, 2)),
        (3,),
    )


def test_errors_are_those_of_the_contract():
    got = Outcome(np.array([[1.5, 2.0]]), np.array([[4.4, 1.0]]))
    mean_error, var_error = errors(got, Moments(np.array([[1.0, 2.0]]), np.array([[4.0, 1.0]])))
    np.testing.assert_allclose(mean_error, [[0.5 / 3.0, 0.0]])
    np.testing.assert_allclose(var_error, [[0.1, 0.0]])


@pytest.mark.parametrize(("mean", "var"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0)])
def test_what_is_not_a_number_never_passes(mean, var):
    both = errors(Outcome(np.array([[mean]]), np.array([[var]])), Moments(np.array([[1.0]]), np.array([[1.0]])))
    assert max(part.max() for part in both) == np.inf


def test_a_variance_where_there_should_be_none_is_an_infinite_error():
    zero = np.zeros((1, 1))
    assert errors(Outcome(zero, zero), Moments(zero, zero))[1].max() == 0.0
    assert errors(Outcome(zero, zero + 1e-9), Moments(zero, zero))[1].max() == np.inf


@settings(max_examples=80, deadline=None)
@given(networks(constant_outputs=True), st.booleans())
def test_torch_and_onnx_agree_with_float64_on_random_networks(case, input_variance):
    network, shape = case
    model = read_model(network, shape)
    x = inputs_for(shape, 8, 3).numpy()
    var = np.abs(inputs_for(shape, 8, 4).numpy()) if input_variance else None
    samples = Samples(x, var, ("random",) * len(x))
    for name in ("torch", "onnx"):
        row = judge(name, BACKENDS[name].run, model, samples, FLOAT32_TOLERANCE)
        assert row.passed, (row, str(model.graph))


CLAMPED = {
    "first": lambda: bnn.Sequential(bnn.LeakyReLU(0.1, clamp=0.5), bnn.Linear(3, 2)),
    "behind a scale": lambda: bnn.Sequential(bnn.Affine(2.0, 1.0), bnn.ReLU(clamp=2.0), bnn.Linear(3, 2)),
    "behind weights": lambda: bnn.Sequential(bnn.Linear(3, 4), bnn.LeakyReLU(0.1, clamp=0.5), bnn.Linear(4, 2)),
}


@pytest.mark.parametrize("input_variance", [False, True])
@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
@pytest.mark.parametrize("make", CLAMPED.values(), ids=CLAMPED)
def test_a_clamp_counts_only_where_a_value_has_a_variance(make, backend, input_variance):
    """The reference takes the form of the graph that is exported."""
    torch.manual_seed(1)
    model = read_model(make(), (3,))
    samples = draw_samples(model, 21, seed=2, input_variance=input_variance)
    row = judge(backend, BACKENDS[backend].run, model, samples, FLOAT32_TOLERANCE)
    assert row.passed, row


@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
def test_a_known_output_below_the_smallest_normal_float_may_lose_its_digits(backend):
    model = read_model(bnn.Sequential(bnn.LeakyReLU(0.01), bnn.Affine(0.3)), (3,))
    row = judge(backend, BACKENDS[backend].run, model, draw_samples(model, 70, seed=1), FLOAT32_TOLERANCE)
    assert row.passed, row


def test_a_mean_is_measured_by_at_least_the_smallest_normal_float():
    zero, tiny = np.zeros((1, 1)), float(np.finfo(np.float32).tiny)
    for truth in (0.0, 1e-44):
        got = Outcome(np.array([[truth + 1e-3 * tiny]]), zero)
        np.testing.assert_allclose(errors(got, Moments(np.array([[truth]]), zero))[0], 1e-3)


def test_the_reference_of_a_known_input_is_the_model_called_with_a_tensor():
    torch.manual_seed(1)
    module = bnn.Sequential(bnn.LeakyReLU(0.1, clamp=0.5), bnn.Linear(3, 2)).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    with torch.no_grad():
        want = module(x)
    got = predict(read_model(module, (3,)).graph, x.numpy())
    np.testing.assert_allclose(got.mean, want.mean, rtol=1e-6)
    np.testing.assert_allclose(got.var, want.var, rtol=1e-6)


def faulty(node, change):
    """The torch backend with one node's result changed."""

    def backend(model, samples):
        out = run_torch(model, samples)
        return change(out) if node in model.graph.by_name else out

    return backend


@pytest.mark.parametrize("node", ["0", "1", "2", "3", "4"])
def test_the_first_node_that_departs_is_named(node):
    model = small_model()
    samples = draw_samples(model, 14, seed=0)
    backend = faulty(node, lambda out: replace(out, var=out.var * 1.01))
    row = judge("faulty", backend, model, samples, FLOAT32_TOLERANCE)
    assert not row.passed
    assert row.departs_at == f"{node} ({model.graph.by_name[node].op})"


def test_a_right_backend_passes_and_names_no_node():
    model = small_model()
    row = judge("torch", run_torch, model, draw_samples(model, 28, seed=1), 1e-5)
    assert row.passed and row.departs_at is None


def test_a_row_beyond_its_tolerance_fails():
    row = Verdict("c", 1e-6, 2e-5, "#0", 1e-5, Cost(), allowed=1e-5, excess=2.0)
    assert not row.passed
    assert replace(row, excess=1.0).passed and not replace(row, excess=float("nan")).passed
