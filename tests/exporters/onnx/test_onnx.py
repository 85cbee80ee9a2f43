"""The ONNX backend: every operator alone, whole networks, and the contract of the file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from onnx.reference import ReferenceEvaluator

import lbnn
from lbnn import LbnnError, Moments, ops
from lbnn import nn as bnn
from lbnn.base.factored import Factored
from lbnn.exporters.onnx import export_onnx, to_onnx
from lbnn.exporters.options import OPSETS, OnnxOptions
from lbnn.graph import Graph, GraphBuilder, rebuild
from lbnn.graph.passes import prepare
from lbnn.graph.reference import predict
from lbnn.model.trace import trace
from network_checks import assert_within_bound
from oracles import draw
from strategies import inputs_for, networks

SHA = "0123456789abcdef" * 4


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: onnx.ModelProto, mean, var=None) -> Moments:
    feed = {"input": mean} if var is None else {"input": mean, "input_variance": var}
    return Moments(*session(model).run(["mean", "variance"], {k: np.asarray(v, np.float32) for k, v in feed.items()}))


def assert_parity(got: Moments, want: Moments, tolerance: float = 1e-5) -> None:
    """The parity contract; a variance that is zero must be zero exactly."""
    assert got.mean.shape == want.mean.shape and got.var.shape == want.var.shape
    assert np.all(np.isfinite(got.mean)) and np.all(np.isfinite(got.var))
    np.testing.assert_array_less(abs(got.mean - want.mean), tolerance * (abs(want.mean) + np.sqrt(want.var)) + 1e-30)
    np.testing.assert_array_less(abs(got.var - want.var), tolerance * want.var + 1e-30)


def rounded(value):
    """As the file stores it: float32, but in float64 for the reference."""
    if isinstance(value, (Moments, Factored)):
        return type(value)(*map(rounded, value))
    return np.asarray(value, np.float32).astype(np.float64)


def graph_of(op: ops.Op, sample: ops.Sample, rng: np.random.Generator) -> Graph:
    """A graph with one operator; operands behind the first are half the input, or constants of another shape."""
    params = {key: rounded(value) for key, value in draw(op, sample, rng)[1].items()}
    shape = sample.inputs[0] if sample.inputs else (2, 3)
    builder = GraphBuilder("one", shape, random=not op.point_inputs)
    operands = ["input"] if sample.inputs else []
    operands += [operand(builder, op, shape, other, rng) for other in sample.inputs[1:]]
    result = builder.add("op", op.name, operands, sample.attrs, params)
    return builder.finish(result if operands else builder.add("sum", "add", ["input", result]))


def operand(builder: GraphBuilder, op: ops.Op, shape: ops.Shape, wanted: ops.Shape, rng: np.random.Generator) -> str:
    if shape == wanted and op.name != "shift":
        return builder.add("half", "affine", ["input"], {}, {"scale": np.full((), 0.5), "shift": np.zeros(())})
    return builder.add("known", "constant", [], {}, {"value": rounded(rng.normal(size=wanted))})


def inputs_of(graph: Graph, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
    shape = (count, *graph.input.shape)
    return rounded(rng.normal(size=shape)), rounded(rng.uniform(0.05, 2.0, shape)) if graph.input.random else None


CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}") for op in ops.OPS.values() for i, sample in enumerate(op.samples)
]


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_every_operator_alone_agrees_with_float64(op, sample):
    rng = np.random.default_rng(3)
    graph = graph_of(op, sample, rng)
    mean, var = inputs_of(graph, 5, rng)
    assert_parity(run(to_onnx(graph, SHA), mean, var), predict(graph, mean, var))


@pytest.mark.parametrize("input_variance", [False, True])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(network=networks())
def test_random_networks_agree_with_float64_and_with_torch(input_variance, network):
    model, shape = network
    x = inputs_for(shape, 9, seed=1)
    var = torch.rand(x.shape) if input_variance else None
    graph = prepare(trace(model, shape, "net"), input_variance)
    got = run(to_onnx(graph, SHA), x.numpy(), None if var is None else var.numpy())
    with torch.no_grad():
        out = model(x if var is None else Moments(x, var))
    for answer in (got, Moments(*(part.numpy() for part in out))):
        assert_within_bound(graph, answer, x.numpy(), None if var is None else var.numpy())


def mlp(slope: float = 0.1, clamp: float | None = None) -> Graph:
    torch.manual_seed(0)
    layers = bnn.Linear(16, 64), bnn.LeakyReLU(slope, clamp), bnn.Linear(64, 64), bnn.LeakyReLU(slope, clamp)
    return prepare(trace(bnn.Sequential(*layers, bnn.Linear(64, 1)), (16,), "mlp"), False)


def cnn() -> Graph:
    torch.manual_seed(0)
    first = bnn.Conv2d(1, 8, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2)
    second = bnn.Conv2d(8, 16, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2)
    return prepare(
        trace(bnn.Sequential(*first, *second, bnn.Flatten(), bnn.Linear(256, 10)), (1, 16, 16), "cnn"), False
    )


def activations(model: onnx.ModelProto, layer: str) -> int:
    return sum(node.name.startswith(f"{layer}/") for node in model.graph.node)


@pytest.mark.parametrize("graph", [mlp(), cnn(), mlp(clamp=3.0), mlp(slope=0.0)], ids=["mlp", "cnn", "clamped", "relu"])
class TestContract:
    def test_any_batch_size_gives_the_same_rows(self, graph):
        model = to_onnx(graph, SHA)
        x, _ = inputs_of(graph, 7, np.random.default_rng(0))
        whole = run(model, x)
        for size in (1, 3):
            part = run(model, x[:size])
            np.testing.assert_allclose(part.mean, whole.mean[:size], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(part.var, whole.var[:size], rtol=1e-5)
        assert run(model, x[:0]).mean.shape == (0, *whole.mean.shape[1:])

    def test_the_reference_evaluator_agrees_with_onnxruntime(self, graph):
        model = to_onnx(graph, SHA)
        x, _ = inputs_of(graph, 4, np.random.default_rng(0))
        assert_parity(Moments(*ReferenceEvaluator(model).run(None, {"input": x.astype(np.float32)})), predict(graph, x))
        assert_parity(run(model, x), predict(graph, x))

    def test_inputs_and_outputs_have_their_names_and_a_free_batch_axis(self, graph):
        body = to_onnx(graph, SHA).graph
        assert [value.name for value in body.input] == ["input"]
        assert [value.name for value in body.output] == ["mean", "variance"]
        for value in (*body.input, *body.output):
            assert value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
            assert value.type.tensor_type.shape.dim[0].dim_param == "N"

    def test_only_standard_operators_named_after_their_layers(self, graph):
        model = to_onnx(graph, SHA)
        assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
        assert not model.functions and all(node.domain == "" for node in model.graph.node)
        layers = {node.name for node in graph.nodes}
        assert all(node.name.split("/")[0] in layers and node.op_type in node.name for node in model.graph.node)
        assert len({node.name for node in model.graph.node}) == len(model.graph.node)

    def test_full_checker_and_strict_shape_inference_pass(self, graph):
        model = to_onnx(graph, SHA)
        onnx.checker.check_model(model, full_check=True)
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        known = {value.name for value in inferred.graph.value_info} | {"mean", "variance"}
        assert all(name in known for node in inferred.graph.node for name in node.output)

    def test_the_same_model_gives_the_same_bytes(self, graph):
        assert to_onnx(graph, SHA).SerializeToString(deterministic=True) == to_onnx(graph, SHA).SerializeToString(
            deterministic=True
        )

    def test_no_node_does_nothing(self, graph):
        model = to_onnx(graph, SHA)
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        neutral = {"Mul": 1.0, "Div": 1.0, "Add": 0.0, "Sub": 0.0}
        for node in model.graph.node:
            assert node.op_type not in ("Identity", "Cast", "Constant")
            assert all(np.any(constants[name] != neutral[node.op_type]) for name in node.input if name in constants
                       and node.op_type in neutral)  # fmt: skip
        used = [name for node in model.graph.node for name in node.input]
        assert set(constants) <= set(used)
        assert all(set(node.output) & {*used, "mean", "variance"} for node in model.graph.node)

    def test_equal_constants_are_stored_once(self, graph):
        stored = [(t.data_type, tuple(t.dims), t.raw_data) for t in to_onnx(graph, SHA).graph.initializer]
        assert len(set(stored)) == len(stored)


def test_an_exact_activation_takes_at_most_21_nodes_and_one_more_where_the_variance_may_be_zero():
    assert [activations(to_onnx(mlp(), SHA), layer) for layer in ("1", "3")] == [21, 21]
    builder = GraphBuilder("one", (4,), random=True)
    model = to_onnx(builder.finish(builder.add("act", "leaky_relu", ["input"], {"negative_slope": 0.1})), SHA)
    assert activations(model, "act") == 22


def test_the_variance_of_a_pool_costs_no_node_beyond_the_pool():
    assert [node.op_type for node in to_onnx(cnn(), SHA).graph.node].count("AveragePool") == 4
    assert activations(to_onnx(cnn(), SHA), "2") == 2


def test_metadata_tells_version_model_name_and_command():
    model = to_onnx(mlp(), SHA, command="lbnn export mlp.pt --target onnx")
    notes = {entry.key: entry.value for entry in model.metadata_props}
    assert notes == {
        "lbnn_version": lbnn.__version__,
        "model_sha256": SHA,
        "name": "mlp",
        "command": "lbnn export mlp.pt --target onnx",
    }
    assert "command" not in {entry.key for entry in to_onnx(mlp(), SHA).metadata_props}


@pytest.mark.parametrize("opset", [OPSETS[0], OPSETS[-1]])
@pytest.mark.parametrize(("op", "sample"), CASES)
def test_every_operator_can_be_written_for_the_oldest_and_the_newest_opset(op, sample, opset):
    """to_onnx holds each to the standard of its opset; a constant is repeated for each sample where it stands alone."""
    graph = graph_of(op, sample, np.random.default_rng(3))
    for output in [node.name for node in graph.nodes]:
        assert to_onnx(rebuild(graph, graph.nodes, output), SHA, opset).graph.node


@pytest.mark.parametrize("opset", [OPSETS[0], 15, 18, 21, OPSETS[-1]])
def test_other_opsets_give_the_same_numbers(opset):
    x, _ = inputs_of(mlp(), 3, np.random.default_rng(0))
    assert_parity(run(to_onnx(mlp(), SHA, opset), x), predict(mlp(), x))


@pytest.mark.parametrize("opset", [9, OPSETS[-1] + 1])
def test_an_unknown_opset_is_refused(opset):
    with pytest.raises(LbnnError, match=f"opset {opset} is not supported; choose one from 13 to"):
        to_onnx(mlp(), SHA, opset=opset)


@pytest.mark.parametrize("input_variance", [False, True])
def test_export_writes_one_file_and_keeps_an_existing_one(tmp_path: Path, input_variance):
    model = SimpleNamespace(graph=trace(bnn.Sequential(bnn.Linear(3, 2)), (3,), "small"), sha256=SHA, metadata={})
    out = export_onnx(model, tmp_path / "small.onnx", OnnxOptions(input_variance=input_variance, command="lbnn export"))
    assert [path.name for path in tmp_path.iterdir()] == ["small.onnx"]
    names = [value.name for value in onnx.load(out).graph.input]
    assert names == (["input", "input_variance"] if input_variance else ["input"])
    with pytest.raises(LbnnError, match="--force"):
        export_onnx(model, out)
    export_onnx(model, out, force=True)


@pytest.mark.parametrize("random", [True, False])
@pytest.mark.parametrize("row", [0.0, 0.3])
def test_factors_that_are_the_same_for_all_outputs_keep_as_many_outputs(row, random):
    """A number that all elements are multiplied by is no node, and so gives nothing a shape."""
    rng = np.random.default_rng(0)
    weight = Factored(rounded(rng.normal(size=(3, 2, 2, 2))), rounded(np.full(3, row)), rounded(np.ones((1, 2, 2, 2))))
    attrs = dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)
    builder = GraphBuilder("one", (2, 3, 3), random=random)
    params = {"weight": weight, "bias": Moments(np.zeros(()), np.zeros(()))}
    graph = builder.finish(builder.add("op", "conv", ["input"], attrs, params))
    mean, var = inputs_of(graph, 4, rng)
    assert_parity(run(to_onnx(graph, SHA), mean, var), predict(graph, mean, var))
