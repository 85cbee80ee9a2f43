"""Convolutions that write over their input: less memory and the same bits, in every form of the kernels."""

import numpy as np
import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.overlaps import over_inputs
from lbnn.model.file import read_model
from lbnn.ops.memory import MEAN, VAR
from uneven import uneven

FORMS = {
    "lanes": (),
    "scalar": ("-DLBNN_NO_SIMD",),
    "strict": ("-DLBNN_NO_SIMD", "-DLBNN_STRICT"),
    "small": ("-DLBNN_NO_SIMD", "-DLBNN_OPTIMIZE_SIZE"),
}


def depthwise(channels, stride=1):
    return bnn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels)


def network(variance="full"):
    """Widths that are no multiple of a block, channels that grow and shrink, depthwise with both strides."""
    layers = [bnn.Conv2d(1, 3, 3, padding=1), bnn.ReLU(), depthwise(3), bnn.ReLU(), bnn.Conv2d(3, 7, 1), bnn.ReLU()]
    layers += [depthwise(7, 2), bnn.ReLU(), bnn.Conv2d(7, 9, 1), depthwise(9), bnn.Conv2d(9, 4, 1), bnn.Flatten()]
    torch.manual_seed(3)
    return read_model(uneven(bnn.Sequential(*layers), variance), (1, 9, 11))


def overwritten(program):
    """Layers whose arrays share floats with those of their input."""

    def floats(name, part):
        start, size = program.plan.places[name, part].offset, np.prod(program.graph.values[name].shape)
        return range(start, start + int(size))

    convs = [node for node in program.graph.nodes if node.op == "conv"]
    pairs = [
        (node.name, floats(node.name, part), floats(node.inputs[0], part)) for node in convs for part in (MEAN, VAR)
    ]
    return {name for name, own, read in pairs if set(own) & set(read)}


@pytest.fixture
def apart(monkeypatch):
    """Results have memory of their own from here on."""
    return lambda: monkeypatch.setattr("lbnn.exporters.c.overlaps._ahead", lambda node, graph: None)


@pytest.mark.parametrize("variance", ["full", "rank1"])
@pytest.mark.parametrize("flags", FORMS.values(), ids=list(FORMS))
def test_results_over_their_inputs_have_the_same_bits(flags, variance, apart):
    model, x = network(variance), np.random.default_rng(3).normal(size=(3, 1, 9, 11)).astype(np.float32)
    together, got = lower(model, COptions()), lbnn.compile(model, flags=("-O2", *flags))(x)
    apart()
    separate, want = lower(model, COptions()), lbnn.compile(model, flags=("-O2", *flags))(x)
    assert overwritten(together) and not overwritten(separate)
    assert together.work_len < separate.work_len
    assert np.array_equal(got.mean, want.mean) and np.array_equal(got.var, want.var)


@pytest.mark.parametrize("variance", ["full", "rank1", "row"])
def test_every_depthwise_and_1x1_convolution_may_write_over_its_input(variance):
    program = lower(network(variance), COptions())
    shapes = {node.name: program.graph.values[node.name].shape for node in program.graph.nodes if node.op == "conv"}
    ahead = over_inputs(program.graph, {})
    plane = 9 * 11
    assert [ahead[name] for name in shapes] == [0, 4 * plane, 0, 2 * 5 * 6, 0, 0]


def test_kernels_that_read_inputs_again_have_memory_of_their_own():
    """The small kernel does, and convolutions with a window, which one of a single channel with factors is."""
    model = network()
    assert (
        over_inputs(lower(model, COptions(optimize="size")).graph, dict.fromkeys(n.name for n in model.graph.nodes))
        == {}
    )
    assert not overwritten(lower(model, COptions(optimize="size")))
    torch.manual_seed(0)
    windows = (bnn.Conv2d(1, 4, 3, padding=1), bnn.Conv2d(4, 1, 3, padding=1), bnn.Conv2d(1, 1, 3, padding=1))
    for variance, places in (("full", 1), ("rank1", 0)):
        found = lower(read_model(uneven(bnn.Sequential(*windows), variance), (1, 6, 6)), COptions())
        assert len(over_inputs(found.graph, {})) == places and (places or not overwritten(found))
