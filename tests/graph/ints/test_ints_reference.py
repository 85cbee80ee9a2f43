"""Integers beside float64: what they lose on the examples and on hostile networks; what they refuse."""

import numpy as np
import pytest

from int_models import branches, hostile_inputs, network
from int_stored import stored_weights
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.cli.demo_story import train
from lbnn.graph.ints import typical
from lbnn.graph.ints.quantise import SCALE_BITS, quantise_linear
from lbnn.graph.ints.reference import predict_integers
from lbnn.graph.ints.study import study, typical_inputs
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.measure.integer_verify import ordinary_loss, ordinary_samples
from lbnn.measure.loss import measure_loss
from lbnn.model.file import read_model
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


@pytest.mark.parametrize("form", ["full", "rank1", "row"])
def test_the_arithmetic_alone_loses_next_to_nothing(form):
    """Against float64 with the weights that integers have."""
    graph = prepare(network((16, 64, 64, 1), form).graph, False)
    x = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    found = predict_integers(graph, 8, x)
    loss = measure_loss(predict(stored_weights(graph), x), Moments(found.mean, found.var))
    assert loss.kl_mean <= 2e-5


@pytest.mark.parametrize("bits", [8, 12])
@pytest.mark.parametrize("file", ["edge_onnx/gas_sensor.pt", "stream_monitor/monitor.pt", "digits_cnn/digits.pt"])
def test_the_arithmetic_alone_loses_next_to_nothing_of_a_trained_network(file, bits):
    model = read_model(ROOT / "examples" / file)
    graph, x = prepare(model.graph, False), ordinary_samples(model, 60).mean
    found = predict_integers(graph, bits, x)
    loss = measure_loss(predict(stored_weights(graph, bits), x), Moments(found.mean, found.var))
    assert loss.kl_mean <= 2e-5


def test_a_row_s_scale_is_the_one_that_loses_least(monkeypatch):
    """Ten times less on a network of few inputs, of which each rounding counts."""
    model = example("thermometer")
    chosen = ordinary_loss(model, "int8").kl_mean
    monkeypatch.setattr(typical, "FEW_INPUTS", 0)
    assert chosen < 1e-3 < 4 * chosen < ordinary_loss(model, "int8").kl_mean


def test_scales_are_at_least_what_the_largest_weight_needs():
    rng = np.random.default_rng(0)
    mean = np.concatenate([rng.normal(size=(20, 6)), np.zeros((1, 6))])
    usual = typical.typical_of(rng.normal(size=(100, 6)), np.zeros((100, 6)))
    scales, least = typical.row_scales(mean, 127, usual), np.abs(mean).max(axis=1) / 127
    assert np.all(scales >= least) and np.all(scales <= typical.WIDEST * least) and scales[-1] == 0.0
    lost = [_lost(mean[:20], units[:20], usual) for units in (scales, least)]
    assert np.all(lost[0] <= lost[1]) and lost[0].sum() < 0.7 * lost[1].sum()
    assert np.array_equal(typical.row_scales(mean, 127, None), least)


def _lost(mean, units, usual):
    """Variance of what rounding changes for usual inputs."""
    error = mean - typical.rounded_weights(mean, units, 127, usual) * units[:, None]
    return np.einsum("ni,ij,nj->n", error, usual.covariance, error)


def test_a_layer_of_many_inputs_needs_no_covariance_and_its_bias_takes_what_rounding_loses():
    """The covariance of 30,000 inputs has 7 GB, and its inverse takes hours."""
    rng = np.random.default_rng(0)
    graph = prepare(network((30_000, 2), "rank1").graph, False)
    usual = typical_inputs(graph)[graph.nodes[0].name][0]
    assert usual.covariance is None and usual.mean.shape == (30_000,)
    x = rng.normal(size=(20, 30_000)).astype(np.float32)
    found = predict_integers(graph, 8, x)
    assert measure_loss(predict(graph, x), Moments(found.mean, found.var)).kl_mean <= 1e-3
    weight, bias = Moments(rng.normal(size=(3, 1025)), np.zeros((3, 1025))), Moments(np.zeros(3), np.zeros(3))
    rows = rng.normal(1.0, 0.1, (50, 1025))
    many = typical.typical_of(rows, np.zeros_like(rows))
    lost = [
        np.abs(_means(quantise_linear(weight, bias, 8, given), rows[:1]) - weight.mean @ rows[0])
        for given in (many, None)
    ]
    assert lost[0].max() < 0.2 * lost[1].max()


def _means(layer, x):
    """What a layer of known weights makes of x."""
    rows = layer.rows
    unit = rows.m * 2.0 ** (rows.scale_exponent - SCALE_BITS - rows.km)
    return x @ (layer.weight * unit[:, None]).T + rows.b * 2.0 ** (rows.bias_exponent + 29 - 23 - rows.kb)


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
        (
            bnn.Sequential(bnn.Linear(3, 2), bnn.ELU()),
            (3,),
            "layer '1': op 'elu' has no integer kernel; export with --dtype float32, or use ReLU or LeakyReLU in its",
        ),
        (bnn.Sequential(bnn.Linear(3, 2), bnn.Tanh()), (3,), r"layer '1': op 'smooth' \(tanh\) has .* ReLU or Leaky"),
        *(
            (bnn.Sequential(bnn.Linear(3, 2), layer), (3,), rf"layer '1': op 'piecewise' \({name}\) has no integer")
            for layer, name in (
                (bnn.ReLU6(), "ReLU6"),
                (bnn.Hardtanh(), "Hardtanh or Clamp"),
                (bnn.Clamp(-0.5, 2.0), "Hardtanh or Clamp"),
                (bnn.Clamp(max=2.0), "Clamp"),
                (bnn.Hardsigmoid(), "Hardsigmoid"),
                (bnn.PReLU(init=1.5), "PReLU"),
            )
        ),
        (
            bnn.Sequential(bnn.ConvTranspose2d(1, 1, 2, stride=2), bnn.Flatten()),
            (1, 3, 3),
            "layer '0': op 'conv_transposed' has no .* use UpsamplingNearest2d and Conv2d in its place",
        ),
    ],
)
def test_what_has_no_kernel_is_refused_in_one_line(module, shape, says):
    with pytest.raises(LbnnError, match=says) as error:
        study(prepare(read_model(module, shape).graph, False), 8)
    assert "\n" not in str(error.value)
