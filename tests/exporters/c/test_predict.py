"""What generated C computes: statuses, and both moments within the contract for any network."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lbnn
from c_models import MODELS, STRICT, Library, export, read, run
from lbnn.base.moments import Moments
from lbnn.exporters.c import COptions, export_c, generate, lower
from lbnn.graph import GraphBuilder
from lbnn.graph.reference import predict
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors
from lbnn.measure.samples import draw_samples
from lbnn.model.file import Model, read_model
from places import need
from plans import gaussian, graphs
from strategies import networks

GOOD = [0.5, -1.0, 2.0, 0.25]


def test_a_good_call_returns_ok_and_both_moments(library):
    status, mean, variance = library.predict(GOOD, [0.1] * 4)
    graph = lower(read("gas_sensor"), COptions(input_variance=True)).graph
    want = predict(graph, np.array([GOOD]), np.full((1, 4), 0.1))
    assert status == 0
    assert np.allclose(mean, want.mean, rtol=1e-5) and np.allclose(variance, want.var, rtol=1e-5)


@pytest.mark.parametrize("null", ["input", "input_variance", "mean", "variance", "work"])
def test_a_null_pointer_is_reported_and_outputs_stay(library, null):
    status, mean, variance = library.predict(GOOD, [0.1] * 4, null=null)
    assert status == -1
    assert np.all(mean == library.FILL) and np.all(variance == library.FILL)


@pytest.mark.parametrize(
    ("status", "x", "var"),
    [
        (-2, [np.nan, 0, 0, 0], [0] * 4),
        (-2, [0, 0, 0, np.inf], [0] * 4),
        (-2, [0, -np.inf, 0, 0], [0] * 4),
        (-2, GOOD, [0, 0, np.nan, 0]),
        (-2, GOOD, [0, 0, 0, np.inf]),
        (-2, GOOD, [0, -1e-30, 0, 0]),
        (-3, [3e38] * 4, [0] * 4),
    ],
)
def test_bad_numbers_are_reported_and_outputs_stay(library, status, x, var):
    got, mean, variance = library.predict(x, var)
    assert got == status
    assert np.all(mean == library.FILL) and np.all(variance == library.FILL)


def test_minus_zero_is_a_variance(library):
    assert library.predict(GOOD, [-0.0] * 4)[0] == 0


def parity(model, variance, flags):
    """The worst errors of compiled C against the float64 reference of the graph as traced."""
    samples = draw_samples(model, 40, seed=1, input_variance=variance)
    got = lbnn.compile(model, input_variance=variance, flags=flags)(samples.mean, samples.var)
    return worst(model, samples, got)


def worst(model, samples, got):
    want = predict(model.graph, samples.mean, samples.var)
    return [float(part.max()) for part in errors(Outcome(got.mean, got.var), want)]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(networks(constant_outputs=True), st.booleans(), st.sampled_from(["speed", "size"]))
def test_every_random_network_can_be_generated(network, variance, optimize):
    assert generate(read_model(*network), COptions(name="net", input_variance=variance, optimize=optimize))["net.c"]


VARYING = ((), (1,), (4,), (3, 1), (2, 1, 1), (2, 1, 4), (2, 3, 4))


@pytest.mark.parametrize("random", [False, True])
def test_scale_and_shift_may_vary_along_different_axes(random):
    """All pairs side by side in one network."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder("pairs", (2, 3, 4), random=True)
    pairs = [
        dict(scale=rng.uniform(0.5, 1.5, scale), shift=rng.uniform(1.0, 2.0, shift))
        for scale in VARYING
        for shift in VARYING
    ]
    maps = [builder.add("map", "affine", ["input"], params=params) for params in pairs]
    graph = builder.finish(builder.add("all", "concat", maps, {"axis": 0}))
    x = rng.uniform(0.5, 1.5, (3, 2, 3, 4)).astype(np.float32)  # no sum is the small rest of large terms
    var = x / 2 if random else None
    got = lbnn.compile(Model(graph, "", "pairs", {}), input_variance=random, flags=("-O0",))(x, var)
    want = predict(graph, x, var)
    assert max(part.max() for part in errors(Outcome(got.mean, got.var), want)) <= FLOAT32_TOLERANCE


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(random=True), st.booleans())
def test_networks_whose_branches_share_memory_keep_the_parity_contract(graph, variance):
    assert max(parity(Model(graph, "", "graph", {}), variance, ("-O0",))) <= FLOAT32_TOLERANCE


def test_rows_branches_and_three_parts_keep_the_parity_contract():
    """What random graphs meet now and then, in one."""
    builder = GraphBuilder("parts", (2, 3), random=True)
    rows = builder.add("rows", "linear", ["input"], params=dict(weight=gaussian(4, 3), bias=gaussian(4)))
    act = builder.add("act", "leaky_relu", [rows], {"negative_slope": 0.1})
    scales = dict(scale=np.array([[2.0], [0.5]]), shift=np.array(1.0))
    scaled = builder.add("scaled", "affine", [rows], params=scales)
    parts = builder.add("parts", "concat", [act, rows, scaled], {"axis": 1})
    flat = builder.add("flat", "flatten", [parts])
    graph = builder.finish(builder.add("out", "linear", [flat], params=dict(weight=gaussian(2, 24), bias=gaussian(2))))
    assert max(parity(Model(graph, "", "parts", {}), True, ("-O0",))) <= FLOAT32_TOLERANCE


def test_a_model_that_needs_no_memory_still_has_a_work_array():
    graph = GraphBuilder("same", (3,), random=True).finish("input")
    model = Model(graph, "0" * 64, "same", {})
    assert "#define SAME_WORK_LEN 1 " in generate(model, COptions(input_variance=True))["same.h"]
    mean, var = lbnn.compile(model, input_variance=True, flags=("-O0",))(np.array([[1.0, 2.0, 3.0]]), np.ones((1, 3)))
    assert mean.tolist() == [[1.0, 2.0, 3.0]] and var.tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_models_optimized_for_size_keep_the_parity_contract(tmp_path, name, variance):
    need("gcc")
    model = read(name)
    folder = export(name, tmp_path / "out", input_variance=variance, optimize="size")
    run("gcc", *STRICT, "-Os", "-shared", "-fPIC", f"{name}.c", "-o", "model.so", "-lm", cwd=folder)
    macros = dict(re.findall(rf"#define {name.upper()}_(\w+)_LEN (\d+)", (folder / f"{name}.h").read_text()))
    library = Library(folder / "model.so", name, *(int(macros[key]) for key in ("INPUT", "OUTPUT", "WORK")))
    samples = draw_samples(model, 20, seed=1, input_variance=variance)
    parts = (samples.mean, samples.var) if variance else (samples.mean,)
    results = [library.predict(*(part.reshape(-1) for part in sample)) for sample in zip(*parts, strict=True)]
    assert not any(status for status, _, _ in results)
    got = Moments(*(np.array(part) for part in list(zip(*results, strict=True))[1:]))
    assert max(worst(model, samples, got)) <= FLOAT32_TOLERANCE


@pytest.mark.parametrize("optimize", ["speed", "size"])
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=st.lists(networks(constant_outputs=True), min_size=3, max_size=3))
def test_random_networks_pass_their_self_tests_under_sanitizers(tmp_path_factory, optimize, found):
    need("gcc")
    folder = tmp_path_factory.mktemp("sanitized")
    names = [f"net_{number}" for number in range(len(found))]
    for name, (module, shape) in zip(names, found, strict=True):
        export_c(read_model(module, shape), folder / name, COptions(name=name, optimize=optimize))
    includes = "".join(f'#include "{name}/{name}.c"\n#include "{name}/{name}_selftest.c"\n' for name in names)
    calls = " ".join(
        f"{{ static float work[{name.upper()}_WORK_LEN]; if ({name}_selftest(work)) return {number + 1}; }}"
        for number, name in enumerate(names)
    )
    (folder / "main.c").write_text(f"{includes}int main(void) {{ {calls} return 0; }}\n")
    sanitize = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-g")
    run("gcc", *STRICT, "-O1", *sanitize, *(f"-I{name}" for name in names), "main.c", "-o", "a.out", "-lm", cwd=folder)
    run(folder / "a.out")


@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.parametrize("ending", [[], ["leaky_relu"], ["flatten"], ["lift"]], ids=str)
def test_a_constant_output_is_that_constant(ending, variance):
    builder = GraphBuilder("constant", (3,), random=True)
    name = builder.add("value", "constant", [], params={"value": np.array([[1.0, 2.0], [0.0, 0.5]])})
    for op in ending:
        name = builder.add(op, op, [name], {"negative_slope": 0.5} if op == "leaky_relu" else {})
    compiled = lbnn.compile(
        Model(builder.finish(name), "0" * 64, "constant", {}), input_variance=variance, flags=("-O0",)
    )
    mean, var = compiled(np.ones((2, 3)), np.ones((2, 3)) if variance else None)
    assert mean.reshape(2, -1).tolist() == [[1.0, 2.0, 0.0, 0.5]] * 2 and not var.any()


def test_a_model_without_variance_reports_zero():
    builder = GraphBuilder("certain", (3,), random=True)
    graph = builder.finish(builder.add("act", "leaky_relu", ["input"], {"negative_slope": 0.5}))
    compiled = lbnn.compile(Model(graph, "0" * 64, "certain", {}), flags=("-O0",))
    mean, var = compiled(np.array([[-2.0, 0.0, 3.0]]))
    assert mean.tolist() == [[-1.0, 0.0, 3.0]] and var.tolist() == [[0.0, 0.0, 0.0]]
