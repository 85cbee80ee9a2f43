"""Passes on weights with factors: the result stays, and so does the structure."""

import numpy as np
import pytest

from lbnn import Moments
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.graph import GraphBuilder, passes
from lbnn.graph.arithmetic import minimum
from lbnn.graph.reference import predict

RNG = np.random.default_rng(3)


def factored(groups, *shape):
    column = np.broadcast_to(RNG.uniform(0.2, 2.0, size=shape[1:]), (groups, *shape[1:]))
    return Factored(RNG.normal(size=shape), RNG.uniform(0.1, 1.0, size=shape[0]), column)


def gaussian(*shape):
    return Moments(RNG.normal(size=shape), RNG.uniform(0.1, 1.0, size=shape))


def conv(groups, weight, padding=0):
    attrs = {"stride": (1,), "padding": (padding,), "dilation": (1,), "groups": groups}
    return ("conv", attrs, {"weight": weight, "bias": gaussian(len(weight.mean))})


def scaled(channels, shift=0.0):
    return ("affine", {}, {"scale": RNG.normal(size=(channels, 1)), "shift": np.full((), shift)})


def norm(channels):
    params = {key: RNG.uniform(0.5, 2.0, size=channels) for key in ("weight", "bias", "running_mean", "running_var")}
    return ("batch_norm", {"eps": 1e-5}, params)


def build(shape, *steps):
    builder, last = GraphBuilder("net", shape, True), "input"
    for i, (op, attrs, params) in enumerate(steps):
        last = builder.add(f"n{i}", op, [last], attrs, params)
    return builder.finish(last)


GRAPHS = {
    "batch norm behind": build((4, 6), conv(1, factored(1, 3, 4, 3)), norm(3)),
    "batch norm behind groups": build((4, 6), conv(2, factored(2, 6, 2, 3), 1), norm(6)),
    "scale ahead": build((4, 6), scaled(4), conv(1, factored(1, 3, 4, 3))),
    "scale ahead of groups": build((4, 6), scaled(4), conv(2, factored(2, 6, 2, 3), 1)),
    "scale ahead of each channel": build((4, 6), scaled(4), conv(4, factored(4, 8, 1, 3), 1)),
    "padding ahead": build((4, 6), ("pad", {"padding": ((2, 2),)}, {}), conv(1, factored(1, 3, 4, 3))),
    "linear": build(
        (5,),
        ("affine", {}, {"scale": RNG.normal(size=5), "shift": np.zeros(())}),
        ("linear", {}, {"weight": factored(1, 3, 5), "bias": gaussian(3)}),
        ("affine", {}, {"scale": RNG.normal(size=3), "shift": RNG.normal(size=3)}),
    ),
}


@pytest.mark.parametrize("random", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_folding_keeps_the_result_and_the_factors(name, random):
    graph = GRAPHS[name]
    prepared = passes.prepare(graph, random)
    (node,) = prepared.nodes
    assert isinstance(node.params["weight"], Factored)
    mean = RNG.normal(size=(4, *graph.input.shape))
    x = (mean, RNG.uniform(0.1, 1.0, size=mean.shape)) if random else (mean,)
    whole = graph if random else passes.specialize_point_inputs(graph)
    for ours, theirs in zip(predict(prepared, *x), predict(whole, *x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


def test_scales_of_single_channels_go_to_the_rows_so_that_one_kernel_of_factors_serves_all():
    (node,) = passes.prepare(GRAPHS["scale ahead of each channel"], True).nodes
    column = node.params["weight"].column
    assert np.array_equal(column, np.broadcast_to(column[:1], column.shape))


def test_a_structured_layer_takes_fewer_instructions_than_a_full_one():
    structured = build((16,), ("linear", {}, {"weight": factored(1, 64, 16), "bias": gaussian(64)}))
    full = build((16,), ("linear", {}, {"weight": gaussian(64, 16), "bias": gaussian(64)}))
    few, many = (minimum(graph.nodes[0], graph) for graph in (structured, full))
    # 1024 fewer loads and products, 16 products into the shared sum, 64 with it, and the factors' 80 loads
    assert many - few == 2 * 1024 - 16 - 64 - 80


@pytest.mark.parametrize(
    ("weight", "groups", "says"),
    [
        (factored(2, 4, 2, 3), 1, "factors of 'weight' are for 2 groups"),
        (factored(1, 4, 4, 3)._replace(row=np.ones(3)), 1, "negative or of another shape"),
        (factored(1, 4, 4, 3)._replace(column=-np.ones((1, 4, 3))), 1, "negative or of another shape"),
        (factored(1, 4, 4, 3)._replace(column=np.full((1, 4, 3), np.nan)), 1, "NaN or an infinity"),
    ],
)
def test_factors_that_do_not_fit_are_refused(weight, groups, says):
    with pytest.raises(LbnnError, match=says):
        build((4, 6), conv(groups, weight))


def test_a_bias_has_no_factors():
    params = {"weight": factored(1, 3, 5), "bias": factored(1, 3, 1)}
    with pytest.raises(LbnnError, match="can't be products of factors"):
        build((5,), ("linear", {}, params))
