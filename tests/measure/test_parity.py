"""Parity: what counts as an error, what passes, and that a fault is found at the node that has it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lbnn import Moments
from lbnn import nn as bnn
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
@given(networks(), st.booleans())
def test_torch_and_onnx_agree_with_float64_on_random_networks(case, input_variance):
    network, shape = case
    model = read_model(network, shape)
    x = inputs_for(shape, 8, 3).numpy()
    var = np.abs(inputs_for(shape, 8, 4).numpy()) if input_variance else None
    samples = Samples(x, var, ("random",) * len(x))
    for name in ("torch", "onnx"):
        row = judge(name, BACKENDS[name].run, model, samples, FLOAT32_TOLERANCE)
        assert row.passed, (row, str(model.graph))


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
    row = Verdict("c", 1e-6, 2e-5, "#0", 1e-5, Cost())
    assert not row.passed
    assert replace(row, var_error=1e-5).passed
