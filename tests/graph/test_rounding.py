"""The bound of float32: never below what float32 really loses, and not so far above it that it excuses everything."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lbnn import nn as bnn
from lbnn import ops
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph import INPUT, Graph, GraphBuilder, Node
from lbnn.graph.reference import NUMPY, NumpyNamespace, evaluate, in_form
from lbnn.graph.rounding import bounds, costliest
from lbnn.graph.rounding_parts import UNIT
from lbnn.graph.rounding_rules import RULES
from lbnn.graph.rounding_tails import tail_error
from lbnn.measure.backends import BACKENDS
from lbnn.measure.parity import FLOAT32_TOLERANCE, expect
from lbnn.measure.samples import Samples, draw_samples
from lbnn.model.file import Model, read_model
from sharp import cnn, mlp, with_sigma
from strategies import networks

# ---- float32 in every order ------------------------------------------------------------------------------------------


def forward(terms: Any) -> Any:
    """One long chain, from the first to the last."""
    return np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1]


def pairwise(terms: Any) -> Any:
    """Halves of halves."""
    count = terms.shape[-1]
    if count == 1:
        return terms[..., 0]
    return pairwise(terms[..., : count // 2]) + pairwise(terms[..., count // 2 :])


ORDERS: dict[str, Any] = {
    "forward": forward,
    "reversed": lambda terms: forward(terms[..., ::-1]),
    "pairwise": pairwise,
    "by size": lambda terms: forward(np.take_along_axis(terms, np.abs(terms).argsort(axis=-1), axis=-1)),
}


class Float32(NumpyNamespace):
    """Linear layers in float32, every product rounded, summed in a given order; the rest in numpy's own."""

    def __init__(self, order: Any) -> None:
        self.order = order

    def linear(self, bias: Any, *terms: tuple[Any, Any]) -> Any:
        products = [x[..., None, :] * weight for x, weight in terms]
        start = np.broadcast_to(bias, products[0].shape[:-1])[..., None]
        return self.order(np.concatenate([start, *products], axis=-1).astype(np.float32))


def to_float32(value: Any) -> Any:
    if isinstance(value, Moments | Factored):
        return type(value)(*map(to_float32, value))
    return np.asarray(value, dtype=np.float32)


def run_float32(graph: Graph, xp: Any, mean: Any, var: Any = None) -> dict[str, Any]:
    """Every value of the graph with all numbers in float32."""
    values: dict[str, Any] = {INPUT: to_float32(mean if var is None else Moments(mean, var))}
    for node in in_form(graph, var is not None).nodes:
        params = {key: to_float32(param) for key, param in node.params.items()}
        found = ops.find(node.op).formula(xp, *(values[name] for name in node.inputs), **params, **node.attrs)
        found = to_float32(found)
        values[node.name] = found if node.inputs else np.broadcast_to(found, (len(mean), *found.shape))
    return values


def shares(model: Model, found: dict[str, Any], mean: Any, var: Any = None) -> dict[str, float]:
    """For every value of the graph the largest error over its bound."""
    exact, bound = evaluate(model.graph, mean, var), bounds(model.graph, mean, var)
    return {name: max(_share(*parts) for parts in _parts(found[name], exact[name], bound[name])) for name in exact}


def _parts(found: Any, exact: Any, bound: Moments[Any]) -> Any:
    if isinstance(exact, Moments):
        return zip(found, exact, bound, strict=True)
    return [(found, exact, bound.mean)]


def _share(found: Any, exact: Any, bound: Any) -> float:
    error = np.abs(found.astype(np.float64) - exact)
    return float(np.divide(error, bound, out=np.where(error > 0, np.inf, 0.0), where=bound > 0).max())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sigma", [0.1, 1.2e-4])
def test_no_order_of_summation_goes_beyond_the_bound(order: str, sigma: float) -> None:
    model = mlp(256, 64, 10, sigma=sigma)
    samples = draw_samples(model, 28, seed=0)
    found = run_float32(model.graph, Float32(ORDERS[order]), samples.mean)
    assert max(shares(model, found, samples.mean).values()) < 1.0


@settings(max_examples=60, deadline=None)
@given(networks(), st.booleans(), st.sampled_from([None, 1e-2, 1e-4, 1e-6]))
def test_float32_stays_within_the_bound_at_every_node_of_random_networks(case: Any, random: bool, sigma: Any) -> None:
    """Terms that are all equal round the same way: tests/c_runtime/test_long_sums.py has these."""
    network, shape = case
    model = read_model(network if sigma is None else with_sigma(network, sigma, spread=0.3), shape)
    samples = draw_samples(model, 14, seed=0, input_variance=random)
    found = run_float32(model.graph, NUMPY, samples.mean, samples.var)
    beyond = {name: share for name, share in shares(model, found, samples.mean, samples.var).items() if share > 1.0}
    assert not beyond, (beyond, str(model.graph))


# ---- how large it is -------------------------------------------------------------------------------------------------


def largest_bound(model: Model, count: int = 28) -> float:
    found = expect(model.graph, draw_samples(model, count, seed=0))
    return float(max(found.mean_bound.max(), found.var_bound.max()))


ORDINARY = {
    "16-64-64-1": lambda: mlp(16, 64, 64, 1),
    "256-64-10": lambda: mlp(256, 64, 10),
    "CNN": lambda: cnn(0.1),
}


@pytest.mark.parametrize("make", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_models_keep_the_contract(make: Any) -> None:
    assert largest_bound(make()) <= FLOAT32_TOLERANCE


@pytest.mark.parametrize("make", [lambda: mlp(256, 64, 10, sigma=1.2e-4), lambda: cnn(1.2e-4)], ids=["MLP", "CNN"])
def test_the_bound_is_within_two_orders_of_magnitude_of_the_error(make: Any) -> None:
    model = make()
    samples = draw_samples(model, 28, seed=0)
    found = shares(model, run_float32(model.graph, NUMPY, samples.mean), samples.mean)
    assert largest_bound(model) > 10 * FLOAT32_TOLERANCE
    assert all(share > 0.01 for share in found.values() if share > 0.0)


def cancelling(gap: float) -> Model:
    """(1 + gap) x - x of a known x, with hardly any variance."""
    layer = Moments(np.array([[1.0 + gap, -1.0]]), np.full((1, 2), 1e-20))
    builder = GraphBuilder("cancels", (2,), random=True)
    bias = Moments(np.zeros(1), np.zeros(1))
    builder.finish(out := builder.add("layer", "linear", ["input"], params=dict(weight=layer, bias=bias)))
    return Model(builder.finish(out), "", "cancels", {})


@pytest.mark.parametrize("gap", [1e-1, 1e-2, 1e-3])
def test_a_sum_that_cancels_ten_times_more_has_ten_times_the_bound(gap: float) -> None:
    def relative(gap: float) -> float:
        return float(
            expect(cancelling(gap).graph, Samples(np.ones((1, 2), np.float32), None, ("ones",))).mean_bound[0, 0]
        )

    assert relative(gap / 10) == pytest.approx(10 * relative(gap), rel=0.2)


def test_the_bound_scales_with_the_input() -> None:
    """Without bias a network of known weights is homogeneous, and powers of two round nothing."""
    torch.manual_seed(1)
    model = read_model(bnn.Sequential(bnn.Linear(8, 8, bias=False), bnn.ReLU(), bnn.Linear(8, 2, bias=False)), (8,))
    x = np.random.default_rng(0).normal(size=(4, 8))
    one, large = (bounds(model.graph, scale * x)[model.graph.output] for scale in (1.0, 1024.0))
    np.testing.assert_allclose(large.mean, 1024.0 * one.mean, rtol=1e-9)
    np.testing.assert_allclose(large.var, 1024.0**2 * one.var, rtol=1e-9)


def test_every_operator_has_a_rule() -> None:
    assert set(RULES) == set(ops.OPS)


def test_the_layer_that_costs_most_is_found() -> None:
    model = cancelling(1e-4)
    values = evaluate(model.graph, np.ones((1, 2)))
    assert costliest(model.graph, values, 0, 0).name == "layer"


# ---- single operators, against fifty digits --------------------------------------------------------------------------

PLACES = [(e, v) for e in (-6.0, -2.0, -0.3, 0.0, 0.4, 1.5, 7.0) for v in (1e-4, 1.0, 30.0)]


def exact_leaky_relu(e: Any, v: Any, slope: float) -> tuple[Any, Any]:
    """Mean and variance of max(a, slope a) from the normal distribution itself."""
    e, v, slope = mpmath.mpf(e), mpmath.mpf(v), mpmath.mpf(slope)
    sigma = mpmath.sqrt(v)
    p, phi = mpmath.ncdf(e / sigma), mpmath.npdf(e / sigma)
    first = [e * p + sigma * phi, e * (1 - p) - sigma * phi]
    second = [(e * e + v) * p + e * sigma * phi, (e * e + v) * (1 - p) - e * sigma * phi]
    mean = first[0] + slope * first[1]
    return mean, second[0] + slope**2 * second[1] - mean**2


@pytest.mark.parametrize("slope", [0.0, 0.1, -1.0])
@pytest.mark.parametrize("moved", [0.0, 1e-5, 0.3])
def test_an_activation_of_a_moved_input_stays_within_its_bound(slope: float, moved: float) -> None:
    """`moved` of a sigma and of the variance, either way: also where that is not small."""
    name, attrs = ("abs", {}) if slope < 0 else ("leaky_relu", {"negative_slope": slope})
    builder = GraphBuilder("one", (1,), random=True)
    graph = builder.finish(builder.add("act", name, ["input"], attrs))
    for e, v in PLACES:
        x, error = (
            Moments(np.array([[e]]), np.array([[v]])),
            Moments(np.array([[moved * v**0.5]]), np.array([[moved * v]])),
        )
        out = evaluate(graph, *x)["act"]
        bound = RULES[name](graph.nodes[0], [x], [error], out)
        for s in (-1, 1):
            for t in (-1, 1):
                with mpmath.workdps(50):
                    found = exact_leaky_relu(e + s * float(error.mean[0, 0]), v + t * float(error.var[0, 0]), slope)
                    off = [float(abs(f - mpmath.mpf(float(o[0, 0])))) for f, o in zip(found, out, strict=True)]
                assert off[0] <= bound.mean[0, 0] and off[1] <= bound.var[0, 0], (e, v, s, t, off, bound)


@pytest.mark.parametrize("operation", ["linear", "affine", "batch_norm", "variance_head", "avg_pool"])
def test_the_rounding_of_one_operator_is_not_beyond_its_bound(operation: str) -> None:
    """Float64 stands for the exact result: it is nine digits better."""
    torch.manual_seed(2)
    network: torch.nn.Module = {
        "linear": lambda: bnn.Linear(8, 8),
        "affine": lambda: bnn.Affine(torch.randn(8), 100.0 * torch.randn(8)),
        "batch_norm": lambda: bnn.BatchNorm(8),
        "variance_head": lambda: bnn.VarianceHead(),
        "avg_pool": lambda: bnn.AvgPool1d(4),
    }[operation]()
    if operation == "batch_norm":
        network.running_mean.copy_(100.0 * torch.randn(8))
    shape = (2, 8) if operation == "avg_pool" else (8,)
    model = read_model(network.eval(), shape)
    rng = np.random.default_rng(3)
    mean, var = (rng.normal(size=(500, *shape)).astype(np.float32) * 10.0 for _ in range(2))
    found = run_float32(model.graph, NUMPY, mean, np.abs(var))
    assert 0.0 < max(shares(model, found, mean, np.abs(var)).values()) < 1.0


@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
@pytest.mark.parametrize("slope", [0.0, 1e-5, 0.01, 0.3, 0.9, -1.0])
def test_no_backend_leaves_the_bound_of_a_kinked_line_anywhere(slope: float, backend: str) -> None:
    """Every |E| / sigma from 0 to 13 by thousandths, and just beside 0, at any sigma; -1 is the absolute value."""
    model = read_model(bnn.Sequential(bnn.Abs() if slope < 0 else bnn.LeakyReLU(slope)), (64,))
    rng = np.random.default_rng(4)
    ratio = np.concatenate([np.linspace(0.0, 13.0, 13_056), 10.0 ** rng.uniform(-9.0, -2.0, 512)])
    sigma = 10.0 ** rng.uniform(-3.0, 3.0, (2, ratio.size))
    mean = np.stack([ratio * sigma[0], -ratio * sigma[1]]).astype(np.float32).reshape(-1, 64)
    var = (sigma**2).astype(np.float32).reshape(-1, 64)
    found = BACKENDS[backend].run(model, Samples(mean, var, ("grid",) * len(mean)))
    exact, bound = evaluate(model.graph, mean, var)[model.graph.output], bounds(model.graph, mean, var)
    assert max(_share(*parts) for parts in _parts((found.mean, found.var), exact, bound[model.graph.output])) < 1.0


def test_the_tail_is_given_up_where_the_kernels_end_it() -> None:
    np.testing.assert_array_equal(tail_error(np.array([12.01, 40.0, np.inf])), 1.0)
    assert tail_error(np.array(0.0)) == 10.0 * UNIT and 1e-3 < tail_error(np.array(12.0)) < 4e-3


@pytest.mark.parametrize("clamp", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_the_bound_of_a_clamped_activation_covers_a_mean_of_0_between_its_ends(slope: float, clamp: float) -> None:
    """There the clamp does not act, and the variance may be larger than at both ends."""
    rng, attrs = np.random.default_rng(1), {"negative_slope": slope, "clamp": clamp}
    x = Moments(rng.normal(size=(1, 400)) * 1e-3, np.zeros((1, 400)))
    error = Moments(np.abs(x.mean) * rng.uniform(1.0, 9.0, x.mean.shape), 10.0 ** rng.uniform(-16, -2, x.mean.shape))
    node, formula = Node("act", "leaky_relu_clamped", (INPUT,), attrs), ops.find("leaky_relu_clamped").formula
    out, at_zero = (formula(NUMPY, place, **attrs) for place in (x, Moments(0.0 * x.mean, x.var + error.var)))
    bound = RULES["leaky_relu_clamped"](node, [x], [error], out)
    for moved, exact, most in zip(at_zero, out, bound, strict=True):
        assert np.all(np.abs(moved - exact) <= most)
