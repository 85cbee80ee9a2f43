"""Weights as half floats: what is rounded and how far, what is scaled or refused, and that C computes with that."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import lbnn
from c_models import STRICT, export, generated, read, run, sources
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.footprint import footprint
from lbnn.exporters.c.halves import half_words, halve
from lbnn.exporters.c.pack import PAD
from lbnn.graph import INPUT, GraphBuilder
from lbnn.graph.reference import predict
from lbnn.measure.backends import find_runner
from lbnn.measure.parity import FLOAT32_TOLERANCE, judge
from lbnn.measure.samples import Samples, draw_samples
from lbnn.measure.stored import as_stored
from lbnn.model.file import Model, read_model
from places import need


def linear(mean, sigma, bias=0.0, bias_sd=0.0):
    """A linear layer of known inputs as a graph."""
    mean = np.atleast_2d(np.asarray(mean, float))
    weight = Moments(mean, np.broadcast_to(np.asarray(sigma, float) ** 2, mean.shape).copy())
    offset = Moments(np.full(len(mean), bias), np.full(len(mean), bias_sd**2))
    builder = GraphBuilder("net", mean.shape[1:], random=False)
    return builder.finish(builder.add("layer", "linear", [INPUT], params={"weight": weight, "bias": offset}))


def stored(graph):
    """The moments of the weights that are computed with, scaled back."""
    scale = np.ones(1)
    for node in graph.nodes:
        if node.op == "affine":
            scale = node.params["scale"].reshape(-1, 1)
    weight = graph.nodes[0].params["weight"]
    return Moments(weight.mean * scale, weight.var * scale**2)


@pytest.mark.parametrize("size", [1.0, 1e-3, 3e4, 1e-9, 1e12])
def test_means_are_off_by_2_to_the_minus_11_and_sigmas_up_by_2_to_the_minus_10(size):
    rng = np.random.default_rng(0)
    mean, sigma = size * rng.normal(size=(40, 50)), size * 10.0 ** rng.uniform(-3.5, 0.0, (40, 50))
    got = stored(halve(linear(mean, sigma)))
    assert np.all(np.abs(got.mean - mean) <= np.maximum(2.0**-11 * np.abs(mean), 2.0**-11 * sigma))
    ratio = np.sqrt(got.var) / sigma
    assert ratio.min() >= 1.0 - 1e-15 and 1.0004 < ratio.max() <= 1.0 + 2.0**-10


def test_a_sigma_that_a_half_float_holds_stays_and_the_next_larger_number_goes_up():
    exact = 2.0**-14 * (1.0 + np.arange(1024) / 1024.0)
    assert np.array_equal(stored(halve(linear(np.zeros(1024), exact))).var, exact[None] ** 2)
    above = stored(halve(linear(np.zeros(1024), exact * (1.0 + 1e-12))))
    assert np.array_equal(above.var, (exact + 2.0**-24)[None] ** 2)


def test_what_fits_is_not_scaled_and_one_power_of_two_serves_a_layer_where_it_can():
    ordinary = halve(linear([[0.5, -2.0]], 0.1))
    assert [node.op for node in ordinary.nodes] == ["linear_point"]
    small = halve(linear([[1e-6, 2e-6], [3e-5, 0.0]], 1e-6))
    assert [node.op for node in small.nodes] == ["linear_point", "affine"]
    assert len(set(small.nodes[1].params["scale"].reshape(-1))) == 1
    far = halve(linear([[1e9, 2e9], [1e-9, 2e-9]], [[1e8], [1e-10]]))
    assert len(set(far.nodes[1].params["scale"].reshape(-1))) == 2
    assert np.log2(far.nodes[1].params["scale"]).tolist() == np.round(np.log2(far.nodes[1].params["scale"])).tolist()


def test_a_scaled_layer_computes_the_same_moments_with_its_bias():
    graph = linear([[1e-6, 2e-6], [3e-6, 0.0]], 1e-6, bias=1e-5, bias_sd=1e-7)
    x = np.array([[1.0, -3.0]])
    before, after = predict(graph, x, None), predict(halve(graph), x, None)
    np.testing.assert_allclose(after.mean, before.mean, rtol=2e-3)
    np.testing.assert_allclose(after.var, before.var, rtol=2.1e-3)


def test_sigmas_that_half_floats_do_not_span_are_refused_with_their_layer():
    with pytest.raises(
        LbnnError, match=r"layer layer: .* output 1 go from sigmas of 1e-10 up to 1, .* --weights source"
    ):
        halve(linear([[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1e-10]]))


def test_a_known_weight_keeps_its_digits_and_a_dead_one_costs_nothing():
    tiny = stored(halve(linear([[1e-5, 1.2345e-7]], 0.0)))
    np.testing.assert_allclose(tiny.mean, [[1e-5, 1.2345e-7]], rtol=2.0**-11)
    assert tiny.var.tolist() == [[0.0, 0.0]]
    dead = halve(linear([[1.0, 1e-30]], 0.0))
    assert len(dead.nodes) == 1


def test_every_word_holds_its_two_halves():
    weight = Moments(np.array([[-1.5, 65504.0, -0.0]]), np.array([[0.25, 2.0**-28, 0.0]]))
    assert [f"{word:08x}" for word in half_words(weight)[0]] == ["3800be00", "04007bff", "00008000"]
    with pytest.raises(AssertionError, match="rounded before"):
        half_words(Moments(np.array([[0.1]]), np.array([[0.0]])))


def test_rounding_what_was_rounded_changes_nothing():
    graph = lower(read("zoo"), COptions(weights="half")).graph
    again = halve(graph)
    for node, same in zip(graph.nodes, again.nodes, strict=True):
        assert all(np.array_equal(np.asarray(node.params[key]), np.asarray(same.params[key])) for key in node.params)


@pytest.mark.parametrize("power", [0.0, 2.0])
def test_outputs_of_transposed_convolutions_are_rounded_and_scaled_by_their_own_weights(tmp_path, power):
    """Their weights stand input by input; from 1e-9 to 10 each output has a power of two of its own."""
    scale = 1e-9 * 10.0 ** (power * torch.arange(6.0).reshape(6, 1, 1))
    layers = (bnn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), bnn.Affine(scale, torch.zeros_like(scale)))
    model = read_model(bnn.Sequential(*layers), (4, 5, 5))
    samples = draw_samples(model, 8, 0, True)
    inputs = [part.reshape(len(samples), -1) for part in (samples.mean, samples.var)]
    result = run_model("c", generated(model, tmp_path / "c", name="net", weights="half", input_variance=True), *inputs)
    want = predict(model.graph, samples.mean, samples.var)
    np.testing.assert_allclose(result.variance.reshape(want.var.shape), want.var, rtol=2.1e-3)


def test_a_weight_takes_four_bytes():
    model = read("gas_sensor")
    floats, halves = (lower(model, COptions(weights=weights)) for weights in ("source", "half"))
    weights = sum(node.params["weight"].mean.size for node in floats.graph.nodes if "weight" in node.params)
    assert footprint(floats).weight_bytes - footprint(halves).weight_bytes == 4 * weights
    biases = sum(node.params["bias"].mean.size for node in floats.graph.nodes if "bias" in node.params)
    assert 4 * halves.weight_len == 4 * weights + 8 * biases + 4 * 3 * PAD


CASES = [(name, optimize) for name in ("gas_sensor", "series", "zoo") for optimize in ("speed", "size")]


@pytest.mark.parametrize(("name", "optimize"), CASES)
@pytest.mark.parametrize("variance", [False, True])
def test_c_computes_with_just_the_rounded_weights(tmp_path, name, optimize, variance):
    model = read(name)
    options = dict(name="net", weights="half", optimize=optimize, input_variance=variance)
    graph, samples = lower(model, COptions(**options)).graph, draw_samples(model, 8, 0, variance)
    inputs = [None if part is None else part.reshape(len(samples), -1) for part in (samples.mean, samples.var)]
    result = run_model("c", generated(model, tmp_path / "c", **options), *inputs)
    want = predict(graph, samples.mean, samples.var)
    sd = np.sqrt(want.var)
    assert np.all(np.abs(result.mean.reshape(sd.shape) - want.mean) <= 1e-5 * (np.abs(want.mean) + sd))
    np.testing.assert_allclose(result.variance.reshape(sd.shape), want.var, rtol=1e-5)


@pytest.mark.parametrize("device", ["cortex-m0", "cortex-m4", "mps3-an547"])
def test_devices_keep_the_parity_contract(device):
    if device == "mps3-an547":
        need("arm-none-eabi-gcc")
        need("qemu-system-arm")
    model = as_stored(read("zoo"), "half")
    samples = draw_samples(model, 7, 0)
    verdict = judge(device, find_runner(device, "half"), model, samples, FLOAT32_TOLERANCE)
    assert verdict.passed, verdict


def test_streams_keep_the_parity_contract():
    model = read("series")
    samples = draw_samples(model, 7, 0)
    verdict = judge("c", find_runner("c-stream", "half"), as_stored(model, "half"), samples, FLOAT32_TOLERANCE)
    assert verdict.passed, verdict


@pytest.mark.parametrize("weights", ["half", "half-binary"])
def test_a_folder_builds_warning_free_and_its_self_test_passes(tmp_path, weights):
    folder = export("zoo", tmp_path / "c", weights=weights)
    extra = [folder / "zoo_weights.S"] if weights == "half-binary" else []
    run("cc", *STRICT, *sources(folder, "zoo"), *extra, "-lm", "-o", tmp_path / "example", cwd=folder)
    assert "self-test: ok" in run(tmp_path / "example")
    size = (folder / "zoo_weights.bin").stat().st_size if extra else None
    assert size in (None, 4 * lower(read("zoo"), COptions(weights="half")).weight_len)


def test_one_file_as_c_plus_plus(tmp_path):
    folder = export("gas_sensor", tmp_path / "c", weights="half", single_file=True)
    flags = ("-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Wold-style-cast", "-Werror")
    run("g++", *flags, "-c", folder / "gas_sensor.c", "-o", tmp_path / "net.o", cwd=folder)


def test_transposed_convolutions_keep_the_parity_contract():
    torch.manual_seed(5)
    net = bnn.Sequential(bnn.Conv2d(1, 4, 3), bnn.ReLU(), bnn.ConvTranspose2d(4, 6, 3, stride=2, groups=2))
    model = read_model(net, (1, 5, 5))
    verdict = judge(
        "c", find_runner("c", "half"), as_stored(model, "half"), draw_samples(model, 7, 0), FLOAT32_TOLERANCE
    )
    assert verdict.passed, verdict
    words = [array for array in lower(model, COptions(weights="half")).weights if array.values.dtype == np.uint32]
    assert len(words) == 2


def scaled_model():
    """A network with a layer that half floats hold only scaled, over a matrix, and behind it an ordinary one."""
    torch.manual_seed(3)
    net = bnn.Sequential(bnn.Linear(4, 5), bnn.LeakyReLU(0.1), bnn.Linear(5, 3))
    model = read_model(net, (2, 4))
    nodes = []
    for node in model.graph.nodes:
        if node.name == model.graph.nodes[0].name:
            shrunk = {key: Moments(value.mean * 1e-7, value.var * 1e-14) for key, value in node.params.items()}
            node = replace(node, params=shrunk)
        nodes.append(node)
    return replace(model, graph=replace(model.graph, nodes=tuple(nodes)))


@pytest.mark.parametrize("variance", [False, True])
def test_scaled_layers_keep_the_parity_contract(variance):
    model = scaled_model()
    rounded = as_stored(model, "half", variance)
    assert any(node.op.startswith("affine") for node in rounded.graph.nodes)
    samples = draw_samples(model, 14, 0, variance)
    ordinary = [number for number, kind in enumerate(samples.kinds) if kind in ("ordinary", "10x out", "spike")]
    chosen = Samples(
        samples.mean[ordinary],
        None if samples.var is None else samples.var[ordinary],
        tuple(samples.kinds[number] for number in ordinary),
    )
    verdict = judge("c", find_runner("c", "half"), rounded, chosen, FLOAT32_TOLERANCE)
    assert verdict.passed, verdict


def test_python_compiles_with_half_floats_but_not_from_a_file():
    model = read("gas_sensor")
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    got, want = lbnn.compile(model, weights="half")(x), predict(as_stored(model, "half").graph, x, None)
    np.testing.assert_allclose(got.var, want.var, rtol=1e-5)
    assert not np.allclose(want.var, predict(model.graph, x, None).var, rtol=1e-5)
    with pytest.raises(LbnnError, match="compile with weights='source' or 'half'"):
        lbnn.compile(model, weights="half-binary")


def test_options_that_do_not_go_together_are_refused():
    with pytest.raises(LbnnError, match="binary weights are a file of their own"):
        COptions(weights="half-binary", single_file=True)
    with pytest.raises(LbnnError, match="backend 'onnx' has no --weights half"):
        find_runner("onnx", "half")


def test_a_model_is_its_own_stored_form_unless_it_is_rounded():
    model: Model = read("gas_sensor")
    assert as_stored(model, "binary") is model
    assert as_stored(model, "half") is not model
