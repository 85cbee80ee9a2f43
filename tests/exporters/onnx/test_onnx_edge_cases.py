"""The ONNX backend where numbers or graphs are unusual: saturated units, zero variance, results without variance."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from test_onnx import SHA, assert_parity, run

from lbnn import LbnnError, Moments
from lbnn.exporters.onnx import to_onnx
from lbnn.graph import Graph, GraphBuilder, Node, Value
from lbnn.graph.reference import predict


def one(op: str, shape: tuple[int, ...], attrs: dict | None = None, params: dict | None = None, random: bool = True):
    builder = GraphBuilder("one", shape, random)
    return builder.finish(builder.add("op", op, ["input"], attrs, params))


def float32(*values) -> list[np.ndarray]:
    return [np.asarray(value, np.float32).astype(np.float64) for value in values]


RATIOS = np.concatenate([np.linspace(0.0, 12.0, 241), np.logspace(-6, 4, 101)])


@pytest.mark.parametrize("sigma", [1e-12, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("slope", [0.01, 0.1, 0.3])
def test_saturated_units_keep_their_variance(slope, sigma):
    graph = one("leaky_relu", (2,), {"negative_slope": slope})
    mean, var = float32(np.stack([RATIOS, -RATIOS], 1) * sigma, np.full((len(RATIOS), 2), sigma**2))
    assert_parity(run(to_onnx(graph, SHA), mean, var), predict(graph, mean, var), tolerance=5e-6)


def test_a_dead_relu_keeps_its_tiny_variance():
    graph = one("leaky_relu", (1,), {"negative_slope": 0.0})
    mean, var = float32(-np.linspace(0.0, 8.0, 161)[:, None], np.ones((161, 1)))
    assert_parity(run(to_onnx(graph, SHA), mean, var), predict(graph, mean, var), tolerance=1e-5)


def test_zero_variance_gives_the_plain_function_and_never_a_nan():
    model = to_onnx(one("leaky_relu", (7,), {"negative_slope": 0.01}), SHA)
    mean = np.array([[0.0, -0.0, 1.0, -1.0, 1e-30, -1e30, 1e30]], np.float32)
    var = np.zeros_like(mean)
    with np.errstate(over="ignore", invalid="raise"):
        reference = Moments(*ReferenceEvaluator(model).run(None, {"input": mean, "input_variance": var}))
    for got in (run(model, mean, var), reference):
        np.testing.assert_allclose(got.mean, np.where(mean < 0, 0.01 * mean, mean), rtol=1e-6)
        np.testing.assert_array_equal(got.var, 0.0)


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_a_negative_scale_in_front_of_an_activation_turns_it_round(slope):
    builder = GraphBuilder("turned", (3,), random=True)
    turned = builder.add("turned", "affine", ["input"], {}, {"scale": np.array(-2.0), "shift": np.zeros(())})
    graph = builder.finish(builder.add("act", "leaky_relu", [turned], {"negative_slope": slope}))
    mean, var = float32([[1.0, -1.0, 0.25]], [[0.5, 0.5, 2.0]])
    assert_parity(run(to_onnx(graph, SHA), mean, var), predict(graph, mean, var))


def test_the_clamped_form_agrees_at_zero_variance_and_beyond_the_clamp():
    graph = one("leaky_relu_clamped", (6,), {"negative_slope": 0.01, "clamp": 3.0})
    mean, var = float32([[0.0, 1.0, -1.0, 30.0, -30.0, -0.5]] * 2, [[0.0] * 6, [1.0] * 6])
    assert_parity(run(to_onnx(graph, SHA), mean, var), predict(graph, mean, var))


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1e6, 1e18])
def test_sizes_at_the_ends_of_float32_stay_finite(scale):
    graph = one("leaky_relu", (4,), {"negative_slope": 0.1})
    mean, var = float32(np.array([[1.0, -1.0, 3.0, -3.0]]) * scale, np.full((1, 4), scale**2))
    got = run(to_onnx(graph, SHA), mean, var)
    assert np.all(np.isfinite(got.mean)) and np.all(got.var >= 0.0)
    if scale > 1e-30:
        assert_parity(got, predict(graph, mean, var))


def test_the_learned_noise_is_right_for_very_negative_features():
    graph = one("variance_head", (2,))
    mean = np.stack([np.zeros(60), np.linspace(-80.0, 80.0, 60)], 1)
    mean, var = float32(mean, np.zeros_like(mean))
    assert_parity(run(to_onnx(graph, SHA), mean, var), predict(graph, mean, var))


def test_slope_one_costs_no_node():
    builder = GraphBuilder("line", (3,), random=True)
    act = builder.add("act", "leaky_relu", ["input"], {"negative_slope": 1.0})
    graph = builder.finish(builder.add("twice", "add", [act, act]))
    assert [node.op_type for node in to_onnx(graph, SHA).graph.node] == ["Mul", "Mul"]  # 2 E, 4 V


def test_a_result_without_variance_gives_zeros():
    graph = one("leaky_relu_point", (3,), {"negative_slope": 0.5}, random=False)
    got = run(to_onnx(graph, SHA), np.array([[1.0, -2.0, 0.0]]))
    np.testing.assert_array_equal(got.mean, [[1.0, -1.0, 0.0]])
    np.testing.assert_array_equal(got.var, 0.0)


@pytest.mark.parametrize("random", [False, True])
def test_a_graph_that_gives_back_its_input_is_still_a_file(random):
    model = to_onnx(Graph("nothing", Value((2,), random), (), "input"), SHA)
    x = np.array([[1.0, 2.0]])
    got = run(model, x, x if random else None)
    np.testing.assert_array_equal(got.mean, x)
    np.testing.assert_array_equal(got.var, x if random else 0 * x)


def test_a_constant_result_is_repeated_for_each_sample():
    graph = Graph("fixed", Value((2,), False), (Node("c", "constant", (), {}, {"value": np.array([3.0, 4.0])}),), "c")
    got = run(to_onnx(graph, SHA), np.zeros((5, 2)))
    np.testing.assert_array_equal(got.mean, [[3.0, 4.0]] * 5)
    np.testing.assert_array_equal(got.var, np.zeros((5, 2)))


def test_what_nothing_reads_is_left_out():
    builder = GraphBuilder("net", (3,), random=True)
    builder.add("unread", "leaky_relu", ["input"], {"negative_slope": 0.1})
    graph = builder.finish(builder.add("read", "leaky_relu", ["input"], {"negative_slope": 0.2}))
    nodes = to_onnx(graph, SHA).graph.node
    read = {name for node in nodes for name in node.input} | {"mean", "variance"}
    assert nodes and all(read & set(node.output) for node in nodes)


def test_mean_and_variance_may_be_the_same_numbers():
    builder = GraphBuilder("same", (1,), random=False)
    ones = Moments(np.ones((1, 1)), np.zeros((1, 1)))
    layer = builder.add("layer", "linear", ["input"], {}, {"weight": ones, "bias": Moments(np.zeros(1), np.zeros(1))})
    got = run(to_onnx(builder.finish(layer), SHA), np.array([[2.0]]))
    assert (got.mean, got.var) == (2.0, 0.0)


def test_a_pool_behind_wide_padding_runs():
    builder = GraphBuilder("wide", (2, 3), random=True)
    padded = builder.add("pad", "pad", ["input"], {"padding": ((4, 2),)})
    attrs = dict(kernel_size=(2,), stride=(2,), padding=(1,), ceil_mode=True, count_include_pad=False)
    graph = builder.finish(builder.add("pool", "avg_pool", [padded], attrs))
    mean, var = float32(np.random.default_rng(0).normal(size=(3, 2, 3)), np.ones((3, 2, 3)))
    assert_parity(run(to_onnx(graph, SHA), mean, var), predict(graph, mean, var))


def test_a_weight_beyond_float32_is_refused_with_the_layer_s_name():
    huge = Moments(np.full((1, 1), 1e39), np.zeros((1, 1)))
    graph = one("linear", (1,), {}, {"weight": huge, "bias": Moments(np.zeros(()), np.zeros(()))}, random=False)
    with pytest.raises(LbnnError, match="layer 'op': a constant does not fit float32"):
        to_onnx(graph, SHA)


def test_names_in_a_model_can_not_break_the_file():
    weight = Moments(np.ones((1, 1)), np.ones((1, 1)))
    names = ("mean", "variance", "mean/Mul", "a\nb/../c", "input_variance")
    params = {"weight": weight, "bias": Moments(np.zeros(1), np.ones(1))}
    nodes, source, op = [], "input", "linear_point"
    for name in names:
        nodes.append(Node(name, op, (source,), {}, params))
        source, op = name, "linear"
    graph = Graph('hostile "name"\n', Value((1,), False), tuple(nodes), source)
    model = to_onnx(graph, SHA)
    onnx.checker.check_model(model, full_check=True)
    x = np.array([[0.5]])
    assert_parity(run(model, x), predict(graph, x))
