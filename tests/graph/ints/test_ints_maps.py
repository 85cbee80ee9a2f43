"""Feature maps in integers beside float64: what convolutions lose, bounds of their sums, orders in memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bench_models import MODELS, build
from int_maps import MAPS, map_network
from int_models import hostile_inputs, with_variances
from int_stored import stored_weights
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.graph.ints import conv, kernels
from lbnn.graph.ints.chains import find_chains
from lbnn.graph.ints.maps import Windows, channels_last, element_places, level, window_values
from lbnn.graph.ints.quantise import check_bounds
from lbnn.graph.ints.quantise_conv import quantise_conv, windows_last
from lbnn.graph.ints.reference import predict_integers
from lbnn.graph.ints.study import study
from lbnn.graph.ints.values import Narrow
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.measure.loss import measure_loss
from lbnn.model.file import read_model


def m2(form):
    return with_variances(read_model(build("m2"), MODELS["m2"][1]), form, 0)


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_those_of_torch(seed):
    rng = np.random.default_rng(seed)
    channels, size = int(rng.integers(1, 4)), tuple(map(int, rng.integers(4, 8, 2)))
    kernel, stride, dilation, pad = (tuple(map(int, rng.integers(low, 3, 2))) for low in (1, 1, 1, 0))
    x = rng.integers(-9, 9, (2, channels, *size))
    wanted = F.unfold(torch.tensor(x).double(), kernel, dilation, pad, stride).numpy()
    out = tuple(
        (s + 2 * p - d * (k - 1) - 1) // j + 1
        for s, p, d, k, j in zip(size, pad, dilation, kernel, stride, strict=True)
    )
    window = Windows(channels, size, out, kernel, stride, pad, dilation)
    order = channels_last(x.shape[1:])
    flat = x.reshape(2, -1)
    found = window_values(flat if order is None else flat[:, order], element_places(window, 0, channels))
    taps = found.reshape(2, window.pixels, window.taps, channels).transpose(0, 3, 2, 1)
    assert np.array_equal(taps.reshape(2, -1, window.pixels), wanted)


@pytest.mark.parametrize("form", ["full", "rank1", "row"])
def test_the_arithmetic_alone_loses_next_to_nothing(form):
    """Against float64 with the weights that integers have."""
    graph = prepare(m2(form).graph, False)
    x = np.random.default_rng(0).normal(size=(40, 1, 16, 16)).astype(np.float32)
    found = predict_integers(graph, 8, x)
    loss = measure_loss(predict(stored_weights(graph), x), Moments(found.mean, found.var))
    assert loss.kl_mean <= 2e-5


@pytest.mark.parametrize("factor", [10, 1000])
@pytest.mark.parametrize("form", ["full", "rank1", "row"])
def test_far_outside_the_variance_is_at_least_nine_tenths(form, factor):
    graph = prepare(m2(form).graph, False)
    x = (factor * np.random.default_rng(0).normal(size=(20, 1, 16, 16))).astype(np.float32)
    assert np.all(predict_integers(graph, 8, x).var >= 0.9 * predict(graph, x).var)


@pytest.mark.parametrize("name", MAPS)
def test_no_variance_becomes_zero_and_none_is_far_too_small(name):
    form = ("full", "rank1", "row")[list(MAPS).index(name) % 3]
    graph = prepare(map_network(name, form, 5).graph, False)
    x = hostile_inputs(int(np.prod(graph.input.shape)), 120).reshape(120, *graph.input.shape)
    found, exact = predict_integers(graph, 8, x), predict(graph, x).var.reshape(120, -1)
    held = ~found.saturated & np.isfinite(exact).all(axis=1)
    assert np.all(found.var[held][exact[held] > 0] > 0)
    seen = exact[held] > 1e-36  # below it float has no digits
    assert np.all(found.var[held][seen] >= 0.9 * exact[held][seen])


def layer(groups=1, form="full", bits=8, channels=8, outputs=16, kernel=3, seed=0):
    rng = np.random.default_rng(seed)
    inputs = channels // groups
    shape = (outputs, kernel * kernel * inputs)
    spread = (
        rng.uniform(1e-4, 1.0, shape) if form == "full" else np.outer(rng.uniform(0.1, 1, outputs), np.ones(shape[1]))
    )
    bias = Moments(rng.normal(size=outputs), rng.uniform(0, 1e-3, outputs))
    window = Windows(channels, (5, 5), (5, 5), (kernel, kernel), (1, 1), (1, 1))
    return quantise_conv(Moments(rng.normal(size=shape), spread), bias, bits, window, groups, (None,) * groups)


@pytest.mark.parametrize("bits", [8, 12])
@pytest.mark.parametrize(("groups", "form"), [(1, "full"), (1, "row"), (4, "full"), (8, "full"), (2, "row")])
def test_the_worst_of_all_maps_stays_inside_the_bounds(groups, form, bits):
    found = layer(groups, form, bits)
    largest, sigma = (1 << found.layer.mean_bits) - 1, 1 << found.layer.sigma_bits
    exponent = np.zeros(1, np.int64)
    for row in found.layer.weight:
        taps = row.reshape(3, 3, found.inputs)
        worst = np.zeros((5, 5, found.window.channels), np.int64)
        for group in range(groups):
            worst[1:4, 1:4, group * found.inputs : (group + 1) * found.inputs] = np.where(taps < 0, -largest, largest)
        x = Narrow(worst.reshape(1, -1), exponent, np.full((1, worst.size), sigma), exponent)
        conv.int_conv(x, found, np.arange(found.window.pixels)[:, None])  # which asserts every sum


def test_one_bit_more_than_the_weights_allow_is_refused():
    found = layer(channels=64)
    for name in ("mean_bits", "sigma_bits", "free_bits"):
        with pytest.raises(LbnnError, match="sums beyond 32 bits"):
            check_bounds(replace(found.layer, **{name: getattr(found.layer, name) + 1}))
    grouped = layer(2, "row", channels=128)
    with pytest.raises(LbnnError, match="sums beyond 32 bits"):
        check_bounds(replace(grouped.layer, columns=2 * grouped.layer.columns))


def test_pixels_come_to_the_largest_exponent_and_no_sigma_to_zero():
    pixels = Narrow(np.array([[1000, -7], [1, 3]]), np.array([0, 4]), np.array([[5, 0], [9, 1]]), np.array([-50, -2]))
    found = level(pixels, 1)
    assert found.mean.tolist() == [[63, 0, 1, 3]] and found.mean_exponent.tolist() == [4]
    assert found.sigma.tolist() == [[1, 0, 9, 1]] and found.sigma_exponent.tolist() == [-2]


def test_a_pool_divides_by_what_it_counts():
    rng = np.random.default_rng(0)
    x = Narrow(rng.integers(-32767, 32767, (1, 30)), np.array([-3]), rng.integers(1, 16384, (1, 30)), np.array([2]))
    window = Windows(2, (3, 5), (2, 3), (2, 2), (2, 2), (0, 0))
    counts = np.array([4, 4, 2, 2, 2, 1])
    for correlated in (False, True):
        wide = conv.int_pool(conv.pixels_of(x, 15), window, counts, correlated)
        maps = (x.mean.reshape(3, 5, 2) * 2.0**-3, x.sigma.reshape(3, 5, 2) * 2.0**2)
        for pixel in range(6):
            y, at = 2 * (pixel // 3), 2 * (pixel % 3)
            mean, sigma = (part[y : y + 2, at : at + 2].reshape(-1, 2) for part in maps)
            spread = (sigma.sum(0) / counts[pixel]) ** 2 if correlated else (sigma**2).sum(0) / counts[pixel] ** 2
            assert np.allclose(
                wide.mean[pixel] * 2.0 ** wide.mean_exponent[pixel], mean.sum(0) / counts[pixel], atol=1e-3
            )
            ratio = wide.var[pixel] * 2.0 ** wide.var_exponent[pixel] / spread
            assert np.all((ratio > 0.9999) & (ratio < 1.001))


def test_activation_and_pool_are_computed_with_the_layer_before_them():
    graph = prepare(m2("rank1").graph, False)
    chains, facts = find_chains(graph), study(graph, 8)
    assert [(chain.leaky is not None, chain.pool is not None) for chain in chains.values()] == [(True, True)] * 2
    assert len(facts.inner) == 4
    shared = prepare(map_network("branches", "full").graph, False)
    assert [chain.pool for chain in find_chains(shared).values()] == [None] * 3


def test_weights_stand_as_maps_do():
    weight = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
    assert windows_last(weight)[1].tolist() == weight[1].transpose(1, 2, 0).reshape(-1).tolist()
    assert channels_last((2, 3)).tolist() == [0, 3, 1, 4, 2, 5]
    assert channels_last((1, 3)) is None and channels_last((3, 1, 1)) is None
    assert kernels.bits(np.array([0, 1, 4])).tolist() == [0, 1, 3]
