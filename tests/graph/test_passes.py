"""Each pass in text form before and after, and harmless on random networks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbnn import Moments
from lbnn.graph import GraphBuilder, passes
from lbnn.graph.reference import predict
from strategies import inputs_for, networks

RNG = np.random.default_rng(7)
POOL_OF_ONE = {"kernel_size": (1,), "stride": (1,), "padding": (0,), "ceil_mode": False, "count_include_pad": True}
CONV = {"stride": (1,), "padding": (0,), "dilation": (1,), "groups": 1}


def gaussian(*shape):
    return Moments(RNG.normal(size=shape), RNG.uniform(0.1, 1.0, size=shape))


def affine(*shape, shift=True):
    return {"scale": RNG.uniform(0.5, 2.0, size=shape), "shift": RNG.normal(size=shape) if shift else np.zeros(())}


def build(shape, *steps, random=True):
    """A chain of (op, attrs, params)."""
    builder, last = GraphBuilder("net", shape, random), "input"
    for i, (op, attrs, params) in enumerate(steps):
        last = builder.add(f"n{i}", op, [last], attrs, params)
    return builder.finish(last)


def linear(out, size):
    return ("linear", {}, {"weight": gaussian(out, size), "bias": gaussian(out)})


def conv(out, size, **attrs):
    return ("conv", {**CONV, **attrs}, {"weight": gaussian(out, size, 3), "bias": gaussian(out)})


def transposed(channels, out, groups=1, **attrs):
    """`out` channels from `channels`, the kernel 3."""
    geometry = {**CONV, "output_padding": (0,), "groups": groups, **attrs}
    return ("conv_transposed", geometry, {"weight": gaussian(channels, out // groups, 3), "bias": gaussian(out)})


def norm(channels):
    params = {key: RNG.uniform(0.5, 2.0, size=channels) for key in ("weight", "bias", "running_mean", "running_var")}
    return ("batch_norm", {"eps": 1e-5}, params)


def pads(*padding):
    return ("pad", {"padding": padding}, {})


CASES = {
    "specialize_point_inputs": (
        build((3,), ("affine", {}, affine(3)), linear(2, 3), ("leaky_relu", {"negative_slope": 0.0}, {})),
        [
            "affine_point(input, scale[3], shift[3])",
            "linear_point(n0, weight[2x3], bias[2])",
            "leaky_relu(n1, negative_slope=0)",
        ],
    ),
    "expand_batch_norm": (
        build((2, 5), norm(2), conv(1, 2)),
        [
            "affine(input, scale[2x1], shift[2x1])",
            "conv(n0, weight[1x2x3], bias[1], stride=1, padding=0, dilation=1, groups=1)",
        ],
    ),
    "merge_affine": (
        build((3,), ("affine", {}, affine(3)), ("affine", {}, affine()), ("affine", {}, affine(3))),
        ["affine(input, scale[3], shift[3])"],
    ),
    "fold_affine_back": (
        build((3,), linear(2, 3), ("affine", {}, affine(2)), ("affine", {}, affine())),
        ["linear(input, weight[2x3], bias[2])"],
    ),
    "fold_scale_forward": (
        build((4, 5), ("affine", {}, affine(4, 1, shift=False)), conv(2, 2, groups=2)),
        ["conv(input, weight[2x2x3], bias[2], stride=1, padding=0, dilation=1, groups=2)"],
    ),
    "turn_transposed": (
        build((4, 5), transposed(4, 6, 2, dilation=(2,), padding=(1,)), transposed(6, 2, stride=(2,))),
        [
            "conv(input, weight[6x2x3], bias[6], stride=1, padding=3, dilation=2, groups=2)",
            "conv_transposed(n0, weight[6x2x3], bias[2], stride=2, padding=0, dilation=1, groups=1, output_padding=0)",
        ],
    ),
    "merge_pads": (
        build((1, 5), pads((1, 0)), pads((1, 2)), conv(1, 1, padding=(1,))),
        ["conv(input, weight[1x1x3], bias[1], stride=1, padding=3, dilation=1, groups=1)"],
    ),
    "remove_identities": (
        build(
            (2, 4),
            pads((0, 0)),
            ("avg_pool", POOL_OF_ONE, {}),
            ("leaky_relu", {"negative_slope": 1.0}, {}),
            ("affine", {}, {"scale": np.ones(()), "shift": np.zeros(())}),
            ("flatten", {}, {}),
            ("flatten", {}, {}),
        ),
        ["flatten(input)"],
    ),
}


def check_moments(graph, after):
    """Both graphs give the same."""
    x = RNG.normal(size=(6, *graph.input.shape))
    var = RNG.uniform(size=x.shape) if after.input.random else None
    for before, now in zip(predict(graph, x, var), predict(after, x, var), strict=True):
        np.testing.assert_allclose(now, before, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_pass_gives_the_expected_listing_and_the_same_moments(name):
    graph, expected = CASES[name]
    after = getattr(passes, name)(graph)
    assert [str(node) for node in after.nodes] == expected
    check_moments(graph, after)


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_one_scale_or_one_for_each_input_is_folded_into_the_linear_layer_behind_it(shape):
    graph = build((3,), ("affine", {}, affine(*shape, shift=False)), linear(2, 3))
    after = passes.fold_scale_forward(graph)
    assert [str(node) for node in after.nodes] == ["linear(input, weight[2x3], bias[2])"]
    check_moments(graph, after)


@pytest.mark.parametrize("shift", [1.0, [1.0], [0.5, -1.0, 2.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]], ids=str)
def test_a_shift_is_not_folded_into_the_gaussian_weights_behind_it(shift):
    graph = build((3,), ("affine", {}, {**affine(3), "shift": np.array(shift)}), linear(2, 3))
    assert passes.fold_scale_forward(graph) == graph


def test_each_group_of_a_convolution_takes_the_scales_of_its_own_channels():
    graph = build((4, 5), ("affine", {}, affine(4, 1, shift=False)), conv(4, 2, groups=2))
    after = passes.fold_scale_forward(graph)
    x = RNG.normal(size=(3, 4, 5))
    assert len(after.nodes) == 1
    np.testing.assert_allclose(predict(after, x).mean, predict(graph, x).mean, rtol=1e-12)


def test_a_transposed_convolution_takes_the_scales_before_it_and_the_map_behind_it():
    before, after = ("affine", {}, affine(4, 1, shift=False)), ("affine", {}, affine(6, 1))
    graph = build((4, 5), before, transposed(4, 6, 2, stride=(2,)), after)
    folded = passes.fold_scale_forward(passes.fold_affine_back(graph))
    assert [node.op for node in folded.nodes] == ["conv_transposed"]
    check_moments(graph, folded)


@pytest.mark.parametrize("attrs", [{"padding": (3,)}, {"dilation": (2,), "output_padding": (1,)}], ids=str)
def test_a_transposed_convolution_that_is_cut_or_made_longer_at_one_end_stays_one(attrs):
    graph = build((2, 9), transposed(2, 3, **attrs))
    assert passes.turn_transposed(graph) == graph


@pytest.mark.parametrize(("scale", "shift"), [([1.0], [1.0, 0.0, 2.0]), ([1.0, 2.0, 1.0], [0.0]), ([0.0], [0.0])])
def test_a_map_that_changes_any_element_is_no_identity(scale, shift):
    graph = build((3,), ("affine", {}, {"scale": np.array(scale), "shift": np.array(shift)}))
    assert passes.remove_identities(graph) == graph


def test_an_identity_that_is_added_to_its_input_stays_independent_of_it():
    builder = GraphBuilder("net", (2, 3), True)
    first = builder.add("first", "upsample", ["input"], {"factors": (1,)})
    second = builder.add("second", "avg_pool", [first], POOL_OF_ONE)
    graph = builder.finish(builder.add("sum", "add", [second, "input"]))
    after = passes.remove_identities(graph)
    assert len(after.nodes) == 2
    check_moments(graph, after)


def test_a_layer_that_others_read_too_is_left_alone():
    builder = GraphBuilder("net", (3,), True)
    op, attrs, params = linear(3, 3)
    builder.add("fc", op, ["input"], attrs, params)
    builder.add("scaled", "affine", ["fc"], {}, affine(3))
    graph = builder.finish(builder.add("sum", "add", ["fc", "scaled"]))
    assert passes.fold_affine_back(graph) == graph


def test_a_layer_that_is_the_result_is_not_folded_into_a_node_that_nobody_reads():
    builder = GraphBuilder("net", (3,), True)
    op, attrs, params = linear(3, 3)
    builder.add("fc", op, ["input"], attrs, params)
    builder.add("unread", "affine", ["fc"], {}, affine(3))
    graph = builder.finish("fc")
    x = RNG.normal(size=(4, 3))
    np.testing.assert_array_equal(predict(passes.fold_affine_back(graph), x).mean, predict(graph, x).mean)


@pytest.mark.parametrize("shape, folds", [((2,), True), ((3, 1), False), ((1, 2), True), ((3, 2), False)])
def test_the_channels_of_a_linear_layer_are_its_last_axis(shape, folds):
    graph = build((3, 4), linear(2, 4), ("affine", {}, affine(*shape)))
    after = passes.fold_affine_back(graph)
    assert len(after.nodes) == (1 if folds else 2)
    x = RNG.normal(size=(4, 3, 4))
    np.testing.assert_allclose(predict(after, x).var, predict(graph, x).var, rtol=1e-12)


def test_constants_are_folded_into_a_shift():
    builder = GraphBuilder("net", (3,), True)
    builder.add("a", "constant", [], {}, {"value": np.array([1.0, 2.0, 3.0])})
    builder.add("b", "leaky_relu", ["a"], {"negative_slope": 0.5})
    graph = builder.finish(builder.add("sum", "add", ["input", "b"]))
    after = passes.remove_dead_nodes(passes.fold_constants(graph))
    assert [str(node) for node in after.nodes] == ["affine(input, scale[], shift[3])"]
    np.testing.assert_array_equal(predict(after, np.ones((1, 3))).mean, [[2.0, 3.0, 4.0]])


def test_dead_nodes_go():
    builder = GraphBuilder("net", (3,), True)
    builder.add("dead", "flatten", ["input"])
    graph = builder.finish(builder.add("live", "flatten", ["input"]))
    assert [node.name for node in passes.remove_dead_nodes(graph).nodes] == ["live"]


@settings(max_examples=120, deadline=None)
@given(networks(), st.booleans())
def test_prepared_random_networks_give_the_same_moments(case, input_variance):
    from lbnn.model.trace import trace

    model, shape = case
    graph = trace(model, shape)
    prepared = passes.prepare(graph, input_variance)
    x = inputs_for(shape, 8, 1).double().numpy()
    var = np.abs(inputs_for(shape, 8, 2).numpy()) if input_variance else None
    for before, now in zip(predict(graph, x, var), predict(prepared, x, var), strict=True):
        np.testing.assert_allclose(now, before, rtol=1e-9, atol=1e-9)
    assert not any(node.op.startswith("batch_norm") for node in prepared.nodes)


@pytest.mark.parametrize("padding", [(0,), (2,)], ids=str)
def test_padding_that_differs_at_both_ends_goes_into_a_convolution_for_c(padding):
    """A pad that something else reads too stays for that."""
    graph = build((2, 7), pads((1, 3)), conv(2, 2, padding=padding, stride=(2,)))
    folded = passes.fold_pads(graph)
    (node,) = folded.nodes
    assert node.attrs["padding"] == ((1 + padding[0], 3 + padding[0]),) and node.inputs == ("input",)
    x, var = np.random.default_rng(0).normal(size=(3, 2, 7)), np.ones((3, 2, 7))
    for got, want in zip(predict(folded, x, var), predict(graph, x, var), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
