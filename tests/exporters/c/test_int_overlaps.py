"""Integer convolutions that write over their input: no element is covered before it was read, and the same bits."""

import numpy as np
import pytest
import torch

import lbnn
from int_maps import MAPS, map_network
from lbnn import nn as bnn
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.dtype import find_dtype
from lbnn.exporters.c.int_memory import ahead_of
from lbnn.graph.ints.chains import pool_window
from lbnn.graph.ints.known import with_variances
from lbnn.graph.ints.maps import pixel_places
from lbnn.graph.passes import prepare
from lbnn.model.file import read_model


def studied(model):
    """The graph that integers compute, and what they know of it."""
    dtype = find_dtype("int8")
    graph = with_variances(dtype.round(prepare(model.graph, False)))
    return graph, dtype.study(graph)


def read_of(chain, graph, window):
    """For each pixel of the result the pixels that it is computed from."""
    rows, columns = window.out
    places = [set(row[row >= 0].tolist()) for row in pixel_places(window)]
    if chain.pool is None:
        return places
    pool, _ = pool_window(graph.by_name[chain.pool], graph)
    tiles = [(y, x) for y in range(pool.out[0]) for x in range(pool.out[1])]
    inside = [(i, j) for i in range(pool.kernel[0]) for j in range(pool.kernel[1])]
    assert pool.out[0] * pool.kernel[0] <= rows
    return [
        set().union(*(places[(y * pool.kernel[0] + i) * columns + x * pool.kernel[1] + j] for i, j in inside))
        for y, x in tiles
    ]


def covers_too_early(chain, graph, facts, ahead):
    """Whether the result of a pixel, with what shares its words, covers an element that a later one reads."""
    conv = facts.conv[chain.conv]
    given, made = conv.window.channels, conv.channels
    read = [{p * given + c for p in pixels for c in range(given)} for pixels in read_of(chain, graph, conv.window)]
    later = set()
    for i in reversed(range(len(read))):
        end = (i + 1) * made + made % 2
        if later and min(later) < end - 2 * ahead:
            return True
        later |= read[i]
    return False


@pytest.mark.parametrize("form", ["full", "rank1"])
@pytest.mark.parametrize("name", MAPS)
def test_what_a_pixel_covers_no_later_one_reads(name, form):
    graph, facts = studied(map_network(name, form))
    for chain in facts.chains.values():
        ahead = ahead_of(chain, graph, facts)
        if ahead is not None:
            assert not covers_too_early(chain, graph, facts, ahead)


LAYERS = {
    "same": (bnn.Conv2d(4, 4, 3, padding=1), (6 + 1) * 2),  # a row and a pixel, in words
    "more channels": (bnn.Conv2d(4, 8, 1), 6 * 5 * 2),  # so that the input lies at the end
    "fewer channels": (bnn.Conv2d(4, 2, 1), 0),
    "halves": (bnn.Conv2d(4, 4, 3, stride=2, padding=1), 0),
    "depthwise": (bnn.Conv2d(4, 4, 3, padding=1, groups=4), (6 + 1) * 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_results_begin_as_little_before_their_input_as_they_can(name):
    layer, ahead = LAYERS[name]
    torch.manual_seed(0)
    first = [bnn.Conv2d(1, 4, 1), bnn.LeakyReLU(0.1)]
    graph, facts = studied(read_model(bnn.Sequential(*first, layer, bnn.Flatten()), (1, 5, 6)))
    chain = list(facts.chains.values())[-1]
    assert ahead_of(chain, graph, facts) == ahead
    if ahead and name != "more channels":
        assert covers_too_early(chain, graph, facts, ahead - 1)


def network():
    """Channels that grow and shrink, odd ones too, windows, strides and a pool."""
    layers = [bnn.Conv2d(1, 6, 3, padding=1), bnn.LeakyReLU(0.1), bnn.Conv2d(6, 6, 3, padding=1, groups=6)]
    layers += [bnn.LeakyReLU(0.1), bnn.Conv2d(6, 9, 1), bnn.LeakyReLU(0.1), bnn.Conv2d(9, 9, 3, padding=1)]
    layers += [bnn.LeakyReLU(0.1), bnn.AvgPool2d(2), bnn.Conv2d(9, 3, 3, stride=2, padding=1), bnn.Flatten()]
    torch.manual_seed(4)
    return read_model(bnn.Sequential(*layers, bnn.Linear(18, 2)), (1, 9, 11))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("form", ["-O2", "-DLBNN_OPTIMIZE_SIZE"])
def test_results_over_their_inputs_take_less_memory_and_have_the_same_bits(dtype, form, monkeypatch):
    model, x = network(), np.random.default_rng(3).normal(size=(5, 1, 9, 11)).astype(np.float32)
    options = COptions(dtype=dtype)
    together, got = lower(model, options), lbnn.compile(model, dtype=dtype, flags=("-O2", form))(x)
    monkeypatch.setattr("lbnn.exporters.c.int_memory.ahead_of", lambda chain, graph, facts: None)
    apart, want = lower(model, options), lbnn.compile(model, dtype=dtype, flags=("-O2", form))(x)
    assert together.work_len < apart.work_len
    assert np.array_equal(got.mean, want.mean) and np.array_equal(got.var, want.var)
