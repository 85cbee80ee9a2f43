"""Integers beside float64: what they lose on the examples, far outside, on hostile networks; what they refuse."""

import numpy as np
import pytest

from int_models import branches, hostile_inputs, network
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.cli.demo_story import train
from lbnn.graph.ints.reference import predict_integers
from lbnn.graph.ints.study import study
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.measure.integer_verify import ordinary_loss
from lbnn.measure.loss import measure_loss
from lbnn.model.file import read_model
from lbnn.model.inputs import input_scale
from places import ROOT

EXAMPLES = {"thermometer": "sensor_firmware/thermometer.pt", "gas_sensor": "edge_onnx/gas_sensor.pt"}


def example(name):
    return read_model(ROOT / "examples" / EXAMPLES[name])


@pytest.mark.parametrize(("dtype", "most"), [("int8", 5e-3), ("int16", 5e-4)])
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_the_examples_lose(name, dtype, most):
    loss = ordinary_loss(example(name), dtype)
    assert loss.kl_mean <= most
    assert loss.least_ratio >= 0.9


@pytest.mark.parametrize(("mean_bits", "most"), [(8, 5e-3), (12, 5e-4)])
def test_what_the_paper_s_network_loses(paper_network, mean_bits, most):
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 1)).astype(np.float32)
    found = predict_integers(prepare(paper_network.graph, False), mean_bits, x)
    loss = measure_loss(predict(paper_network.graph, x), Moments(found.mean, found.var))
    assert loss.kl_mean <= most
    assert loss.least_ratio >= 0.9


@pytest.fixture(scope="module")
def paper_network():
    """As `lbnn demo --quick` trains it."""
    network, _ = train(epochs=300)
    return read_model(network.eval(), (1,))


@pytest.mark.parametrize("factor", [10, 1000])
@pytest.mark.parametrize("name", EXAMPLES)
def test_far_outside_the_variance_is_at_least_nine_tenths(name, factor):
    model = example(name)
    centre, spread = input_scale(model.graph)
    draws = np.random.default_rng(0).normal(size=(300, *model.graph.input.shape))
    x = (centre + factor * spread * draws).astype(np.float32)
    found = predict_integers(prepare(model.graph, False), 8, x)
    assert np.all(found.var >= 0.9 * predict(model.graph, x).var)


@pytest.mark.parametrize("form", ["full", "rank1", "row"])
def test_the_arithmetic_alone_loses_next_to_nothing(form):
    """Against float64 with the weights that integers have."""
    graph = prepare(network((16, 64, 64, 1), form).graph, False)
    x = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    found = predict_integers(graph, 8, x)
    loss = measure_loss(predict(stored_weights(graph), x), Moments(found.mean, found.var))
    assert loss.kl_mean <= 2e-5


def stored_weights(graph):
    """The graph with weights and biases as its integers say."""
    from dataclasses import replace

    from lbnn.graph import rebuild

    facts, nodes = study(graph, 8), []
    for node in graph.nodes:
        if node.name in facts.linear:
            layer = facts.linear[node.name]
            rows, unit = layer.rows, np.ldexp(1.0, facts.units.astype(int)) if node.name == graph.output else 1.0
            scale = unit * rows.m * 2.0 ** (rows.scale_exponent - 16 - rows.km)
            bias = unit * rows.b * 2.0 ** (rows.bias_exponent + 6.0 - rows.kb)
            params = {
                "weight": Moments(layer.weight * scale[:, None], node.params["weight"].var),
                "bias": Moments(bias, node.params["bias"].var),
            }
            node = replace(node, params=params)
        nodes.append(node)
    return rebuild(graph, nodes)


@pytest.mark.parametrize("seed", range(4))
def test_no_variance_becomes_zero_and_none_is_far_too_small(seed):
    rng = np.random.default_rng(seed)
    form = ["full", "rank1", "row", "full"][seed]
    model = network((3, 7, 5, 2), form, seed, slope=[0.01, 0.1, 0.3, 0.0][seed])
    graph = prepare(model.graph, False)
    x = hostile_inputs(3, 240, seed) * np.float32(10.0 ** rng.uniform(-2, 0))
    found = predict_integers(graph, 8, x)
    exact = predict(graph, x)
    held = ~found.saturated
    assert np.all(found.var > 0)
    assert np.all(found.var[held] >= 0.75 * exact.var[held])


def test_outputs_of_different_units_keep_their_digits():
    graph = prepare(branches().graph, False)
    x = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    found, exact = predict_integers(graph, 8, x), predict(graph, x)
    assert np.abs(found.var / exact.var - 1.0).max() < 0.05


@pytest.mark.parametrize(
    ("module", "shape", "says"),
    [
        (bnn.MaxPool2d(2), (1, 6, 6), "op 'max_pool' has no integer kernel; export with --dtype float32"),
        (bnn.Sequential(bnn.Linear(3, 2), bnn.GELU()), (3,), "op 'smooth' has no integer kernel"),
        (bnn.Sequential(bnn.ReLU(), bnn.Linear(3, 2)), (3,), "'leaky_relu' of the input itself"),
    ],
)
def test_what_has_no_kernel_is_refused_in_one_line(module, shape, says):
    with pytest.raises(LbnnError, match=says) as error:
        study(prepare(read_model(module, shape).graph, False), 8)
    assert "\n" not in str(error.value)
