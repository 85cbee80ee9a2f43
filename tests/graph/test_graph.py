"""The graph: validation that names the node, the listing, and the choice of an operator's form."""

import numpy as np
import pytest

from lbnn import LbnnError, Moments
from lbnn.graph import Graph, GraphBuilder, Node, Value
from lbnn.graph.reference import predict


def gaussian(*shape):
    rng = np.random.default_rng(0)
    return Moments(rng.normal(size=shape), rng.uniform(0.1, 1.0, size=shape))


def dense(builder, name, source, out):
    size = builder.values[source].shape[-1]
    return builder.add(name, "linear", [source], {}, {"weight": gaussian(out, size), "bias": gaussian(out)})


def test_the_listing_reads_line_by_line():
    builder = GraphBuilder("net", (3,), random=False)
    hidden = builder.add("act", "leaky_relu", [dense(builder, "fc1", "input", 4)], {"negative_slope": 0.1})
    graph = builder.finish(builder.add("sum", "add", [hidden, dense(builder, "fc2", hidden, 4)]))
    assert str(graph) == (
        "net(input: point[3]) -> sum\n"
        "  fc1   = linear_point(input, weight[4x3], bias[4]) : random[4]\n"
        "  act   = leaky_relu(fc1, negative_slope=0.1) : random[4]\n"
        "  fc2   = linear(act, weight[4x4], bias[4]) : random[4]\n"
        "  sum   = add(act, fc2) : random[4]"
    )


def test_a_known_value_picks_the_cheaper_form():
    builder = GraphBuilder("net", (2,), random=False)
    assert builder.nodes == []
    dense(builder, "fc", "input", 2)
    builder.add("sum", "add", ["input", "fc"])
    builder.add("both", "concat", ["input", "fc"], {"axis": 0})
    assert [str(node) for node in builder.nodes][1:] == [
        "shift(fc, input)",
        "lift(input)",
        "concat(input_lifted, fc, axis=0)",
    ]


@pytest.mark.parametrize("op", ["add", "shift"])
def test_a_sum_takes_the_form_that_its_inputs_ask_for_whatever_it_was(op):
    builder = GraphBuilder("net", (2,), random=False)
    dense(builder, "fc", "input", 2)
    for inputs in (["fc", "fc"], ["fc", "input"], ["input", "fc"], ["input", "input"]):
        builder.add("sum", op, inputs)
    sums = ["add(fc, fc)", "shift(fc, input)", "shift(fc, input)", "add_point(input, input)"]
    assert [str(node) for node in builder.nodes][1:] == sums


def test_names_are_made_unique():
    builder = GraphBuilder("net", (2,), random=True)
    assert [builder.add("a b", "flatten", ["input"]) for _ in range(3)] == ["a_b", "a_b_2", "a_b_3"]


def node(**changes):
    fields = {
        "name": "fc",
        "op": "linear",
        "inputs": ("input",),
        "params": {"weight": gaussian(2, 3), "bias": gaussian(2)},
    }
    return Node(**{**fields, **changes})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (node(op="gelu", params={}), "node 'fc': unknown operator 'gelu'"),
        (node(inputs=("nothing",)), "node 'fc': its input 'nothing' is not computed before it"),
        (node(inputs=("input", "input")), r"node 'fc': linear takes 1 input\(s\), got 2"),
        (node(params={"weight": gaussian(2, 3)}), "node 'fc': linear needs the parameters"),
        (node(params={"weight": gaussian(2, 4), "bias": gaussian(2)}), "node 'fc': linear: input"),
        (
            node(params={"weight": np.ones((2, 3)), "bias": gaussian(2)}),
            "node 'fc': parameter 'weight' must have a variance",
        ),
        (node(params={"weight": Moments(np.full((2, 3), np.nan), np.ones((2, 3))), "bias": gaussian(2)}), "NaN"),
        (node(params={"weight": Moments(np.ones((2, 3)), -np.ones((2, 3))), "bias": gaussian(2)}), "negative"),
        (node(params={"weight": gaussian(2, 3), "bias": Moments(np.array([0.0, np.inf]), np.ones(2))}), "NaN"),
        (node(params={"weight": gaussian(2, 3), "bias": Moments(np.zeros(2), np.array([1.0, np.nan]))}), "NaN"),
        (node(params={"weight": gaussian(2, 3), "bias": Moments(np.zeros(2), np.array([1.0, -1e-9]))}), "negative"),
        (node(params={"weight": gaussian(2, 3), "bias": Moments(np.zeros(2), np.ones(3))}), "of another shape"),
        (node(op="concat", inputs=(), params={}, attrs={"axis": 0}), r"concat takes at least one input\(s\), got 0"),
        (node(attrs={"stride": 2}), "node 'fc': linear does not take these attributes"),
        (node(op="linear_point"), "node 'fc': linear_point does not take random"),
        (node(name="input"), "node 'input': the name is used twice"),
    ],
)
def test_a_faulty_node_is_named(bad, message):
    with pytest.raises(LbnnError, match=message):
        Graph("net", Value((3,), True), (bad,), bad.name)


def test_the_output_must_exist():
    with pytest.raises(LbnnError, match="its output 'nowhere' is not one of its values"):
        Graph("net", Value((3,), True), (node(),), "nowhere")


def test_a_known_result_has_no_variance():
    builder = GraphBuilder("net", (2, 1), random=False)
    graph = builder.finish(builder.add("flat", "flatten", ["input"]))
    out = predict(graph, np.array([[[1.0], [-2.0]], [[3.0], [4.0]]]))
    assert out.mean.tolist() == [[1.0, -2.0], [3.0, 4.0]] and out.var.tolist() == [[0.0, 0.0]] * 2
