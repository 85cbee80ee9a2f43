"""Parity: what counts as an error, what passes, and that a fault is found at the node that has it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.measure import parity
from lbnn.measure.parity import Outcome, Row, Samples
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
    mean_error, var_error = parity.errors(got, Moments(np.array([[1.0, 2.0]]), np.array([[4.0, 1.0]])))
    np.testing.assert_allclose(mean_error, [[0.5 / 3.0, 0.0]])
    np.testing.assert_allclose(var_error, [[0.1, 0.0]])


@pytest.mark.parametrize(("mean", "var"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0)])
def test_what_is_not_a_number_never_passes(mean, var):
    both = parity.errors(Outcome(np.array([[mean]]), np.array([[var]])), Moments(np.array([[1.0]]), np.array([[1.0]])))
    assert max(part.max() for part in both) == np.inf


def test_a_variance_where_there_should_be_none_is_an_infinite_error():
    zero = np.zeros((1, 1))
    assert parity.errors(Outcome(zero, zero), Moments(zero, zero))[1].max() == 0.0
    assert parity.errors(Outcome(zero, zero + 1e-9), Moments(zero, zero))[1].max() == np.inf


def test_samples_cover_every_kind_and_follow_the_seed():
    model = small_model()
    samples = parity.draw_samples(model, 21, seed=5)
    assert set(samples.kinds) == {"ordinary", "10x out", "zeros", "spike", "denormal", "1e6"}
    assert samples.mean.dtype == np.float32 and samples.mean.shape == (21, 3)
    np.testing.assert_array_equal(samples.mean, parity.draw_samples(model, 21, seed=5).mean)
    denormal = samples.mean[samples.kinds.index("denormal")]
    assert 0 < np.abs(denormal).max() < np.finfo(np.float32).tiny


def test_ordinary_inputs_are_those_the_first_layer_standardises():
    model = read_model(bnn.Sequential(bnn.Standardize([100.0], [5.0]), bnn.Linear(1, 1)), (1,))
    centre, spread = parity.input_scale(model.graph)
    np.testing.assert_allclose((centre, spread), ([100.0], [5.0]), rtol=1e-6)


@settings(max_examples=80, deadline=None)
@given(networks(), st.booleans())
def test_torch_and_onnx_agree_with_float64_on_random_networks(case, input_variance):
    network, shape = case
    model = read_model(network, shape)
    x = inputs_for(shape, 8, 3).numpy()
    var = np.abs(inputs_for(shape, 8, 4).numpy()) if input_variance else None
    samples = Samples(x, var, ("random",) * len(x))
    for name in ("torch", "onnx"):
        row = parity.compare(name, parity.backends()[name], model, samples, parity.FLOAT32_TOLERANCE)
        assert row.passed, (row, str(model.graph))


def faulty(node, change):
    """The torch backend with one node's result changed."""

    def backend(model, samples):
        out = parity.run_torch(model, samples)
        return change(out) if node in model.graph.by_name else out

    return backend


@pytest.mark.parametrize("node", ["0", "1", "2", "3", "4"])
def test_the_first_node_that_departs_is_named(node):
    model = small_model()
    samples = parity.draw_samples(model, 14, seed=0)
    backend = faulty(node, lambda out: replace(out, var=out.var * 1.01))
    row = parity.compare("faulty", backend, model, samples, parity.FLOAT32_TOLERANCE)
    assert not row.passed
    assert row.departs_at == f"{node} ({model.graph.by_name[node].op})"


def test_a_right_backend_passes_and_names_no_node():
    model = small_model()
    row = parity.compare("torch", parity.run_torch, model, parity.draw_samples(model, 28, seed=1), 1e-5)
    assert row.passed and row.departs_at is None


def test_a_row_beyond_its_tolerance_fails():
    row = Row("c", 1e-6, 2e-5, "#0", 1e-5, parity.Cost())
    assert not row.passed
    assert replace(row, var_error=1e-5).passed


def test_an_unknown_or_missing_backend_is_refused(monkeypatch):
    with pytest.raises(LbnnError, match="unknown backend 'gpu'"):
        parity.choose(["gpu"])
    monkeypatch.setattr(parity, "missing", lambda name: "apt install it" if name == "c" else "")
    with pytest.raises(LbnnError, match="backend 'c' is not available here: apt install it"):
        parity.choose(["c"])
    names, lacking = parity.choose(None)
    assert "c" not in names and lacking == {"c": "apt install it"}
