"""Inputs in units of their own, from 100,000 to 0.5, lose no bits beside each other; C gives the reference's bits."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from c_models import generated
from int_models import same_bits
from lbnn import nn as bnn
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.graph.ints import known
from lbnn.graph.ints.balance import BALANCED, balanced
from lbnn.graph.ints.reference import predict_integers
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.model.file import read_model

UNITS = np.array([1e5, 20.0, 0.5, 1e-3])
"""A pressure in Pa, a temperature, a humidity, a current in A."""


def network(variance="full", units=UNITS):
    """What training finds that begins with weights as small as their inputs are large."""
    torch.manual_seed(0)
    first, units = bnn.Linear(4, 24, variance=variance), torch.tensor(units)
    with torch.no_grad():
        first.weight_mu.div_(units)
        rho = first.weight_rho if variance == "full" else first.weight_column_rho
        rho.copy_(inverse_softplus(F.softplus(rho) / units))
    return read_model(bnn.Sequential(first, bnn.LeakyReLU(0.1), bnn.Linear(24, 1, variance=variance)), (4,))


def inverse_softplus(sigma):
    return sigma + torch.log(-torch.expm1(-sigma))


def readings(count):
    return (UNITS * (1.0 + 0.2 * np.random.default_rng(1).normal(size=(count, 4)))).astype(np.float32)


@pytest.mark.parametrize("random", [False, True], ids=["known", "random"])
@pytest.mark.parametrize("variance", ["full", "rank1"])
def test_readings_in_units_of_their_own_keep_their_moments(variance, random):
    graph, x = prepare(network(variance).graph, random), readings(200)
    var = (1e-4 * UNITS**2 * np.ones((200, 4))).astype(np.float32) if random else None
    exact, found = predict(graph, x, var), predict_integers(graph, 8, x, var)
    assert np.abs(found.var / exact.var - 1.0).max() < 0.02
    assert np.abs((found.mean - exact.mean) / np.sqrt(exact.var)).max() < 0.02


def test_without_powers_of_two_their_variances_would_be_ten_times_too_large(monkeypatch):
    monkeypatch.setattr(known, "balanced", lambda graph: graph)
    graph, x = prepare(network().graph, False), readings(50)
    assert np.min(predict_integers(graph, 8, x).var / predict(graph, x).var) > 10.0


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e6])
def test_so_do_readings_that_are_all_tiny_or_all_huge(unit):
    units = np.full(4, unit)
    graph, x = prepare(network(units=units).graph, False), (readings(200) / UNITS * units).astype(np.float32)
    exact, found = predict(graph, x), predict_integers(graph, 8, x)
    assert np.abs(found.var / exact.var - 1.0).max() < 0.02
    assert np.abs((found.mean - exact.mean) / np.sqrt(exact.var)).max() < 0.02


def test_the_scaled_graph_computes_the_same_numbers():
    graph, x = prepare(network("rank1").graph, False), readings(20)
    scaled = balanced(graph)
    assert scaled.nodes[0].name == BALANCED
    for a, b in zip(predict(graph, x), predict(scaled, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_c_gives_the_bits_of_the_reference(dtype, tmp_path):
    model, x = network(), readings(50)
    program = lower(model, COptions(name="net", dtype=dtype))
    found = run_model("c", generated(model, tmp_path, name="net", dtype=dtype), x)
    assert same_bits(found, predict_integers(program.graph, program.dtype.mean_bits, x)).all()


def test_inputs_of_one_size_and_standardised_ones_are_left_as_they_are():
    for model in (network(units=np.array([1.0, 2.0, 4.0, 3.0])), standardised()):
        graph = prepare(model.graph, False)
        assert balanced(graph) is graph


def standardised():
    return read_model(
        bnn.Sequential(bnn.Standardize(torch.tensor(UNITS), torch.tensor(UNITS / 5)), bnn.Linear(4, 2)), (4,)
    )


def test_inputs_that_nothing_reads_need_nothing():
    first = bnn.Linear(4, 3)
    with torch.no_grad():
        first.weight_mu[:, 2], first.weight_rho[:, 2] = 0.0, -1e4
    graph = prepare(read_model(bnn.Sequential(first), (4,)).graph, False)
    assert balanced(graph) is graph
