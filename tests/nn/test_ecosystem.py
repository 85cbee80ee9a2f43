"""Every layer under torch.compile, torch.export, torch.fx and torch.jit.trace, on known values and on Moments."""

import warnings

import pytest
import torch
from torch import Tensor, nn

import lbnn
from every_layer import every_layer, flat, kinds, network_of
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from places import need
from thorough import chosen

EVERY = every_layer()


def agree(one, other) -> None:
    assert kinds(one) == kinds(other)
    for a, b in zip(flat(one), flat(other), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.ecosystem("torch: torch.compile", "every layer", package="torch", result="the same numbers")
@pytest.mark.parametrize("name", EVERY)
def test_compile_takes_it_whole(name):
    network, x = network_of(name)
    torch._dynamo.reset()
    agree(torch.compile(network, fullgraph=True, backend="eager")(x), network(x))


@pytest.mark.parametrize("kind", chosen(("fast", "exact"), "fast"))
def test_the_default_backend_compiles_a_classifier(kind):
    """It writes C++: half a minute for the three layers of the exact one."""
    need("g++")
    network, x = nn.Sequential(bnn.Linear(4, 3, sigma=0.3), bnn.ReLU(), bnn.SoftmaxHead(kind)).eval(), torch.randn(5, 4)
    torch._dynamo.reset()
    with torch.no_grad():
        agree(torch.compile(network, fullgraph=True)(x), network(x))


@pytest.mark.ecosystem("torch: torch.export", "every layer", package="torch", result="the same numbers")
@pytest.mark.parametrize("name", EVERY)
def test_export_gives_a_program_for_any_batch(name):
    network, x = network_of(name)
    program = torch.export.export(network, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    longer = torch.cat([x, x * 2])
    agree(program.module()(longer), network(longer))


HEADED = {
    "softmax": (bnn.ReLU(), bnn.SoftmaxHead()),
    "fast": (bnn.LeakyReLU(0.1), bnn.SoftmaxHead("fast")),
    "sigmoid": (bnn.Abs(), bnn.SigmoidHead()),
}


@pytest.mark.parametrize("name", HEADED)
def test_an_exported_classifier_keeps_to_torch_s_core_operators(name):
    """ExecuTorch takes no others; torch checks there that tensors are what they were, which is left out on the way."""
    program = torch.export.export(nn.Sequential(bnn.Linear(4, 3), *HEADED[name]), (torch.randn(5, 4),))
    nodes = [node.target for node in program.run_decompositions().graph.nodes if node.op == "call_function"]
    called = {target for target in nodes if isinstance(target, torch._ops.OpOverload)}
    others = {str(target) for target in called if torch.Tag.core not in target.tags}
    assert len(called) > 10 and others <= {"aten._assert_tensor_metadata.default"}


@pytest.mark.ecosystem("torch: torch.fx", "every layer", package="torch", result="the same numbers")
@pytest.mark.parametrize("name", EVERY)
def test_fx_traces_it_symbolically(name):
    network, x = network_of(name)
    agree(torch.fx.symbolic_trace(network)(x), network(x))


class Flat(nn.Module):
    """What torch.jit.trace can return: tensors."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(flat(self.network(x)))


@pytest.mark.ecosystem("torch: torch.jit", "every layer", package="torch", result="the same numbers")
@pytest.mark.parametrize("name", EVERY)
def test_jit_traces_it(name):
    network, x = network_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that shapes become constants
        traced = torch.jit.trace(Flat(network), (x,), check_trace=False)
    for a, b in zip(traced(x * 2), flat(network(x * 2)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


class Own(nn.Module):
    """A forward with everything that Moments may be part of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = bnn.Linear(4, 4), bnn.Linear(4, 4), bnn.Linear(12, 2)
        self.act = bnn.ReLU()

    def forward(self, x):
        h = self.act(self.first(x))
        mean, var = self.second(h + x)
        return self.last(lbnn.cat([h, Moments(mean, var) * 0.5, x]))


def test_a_forward_of_ones_own_is_traced_compiled_and_exported():
    network, x = Own(), torch.randn(3, 4)
    graph = torch.fx.symbolic_trace(network)
    assert [node.target for node in graph.graph.nodes if node.op == "call_module"] == ["first", "act", "second", "last"]
    for other in (graph, torch.compile(network, fullgraph=True, backend="aot_eager")):
        agree(other(x), network(x))
    agree(torch.export.export(network, (x,)).module()(x), network(x))


def test_fx_takes_a_loaded_model_and_refuses_a_single_layer(tmp_path):
    network, x = bnn.Sequential(bnn.Linear(3, 4), bnn.Abs(), bnn.Linear(4, 2)), torch.randn(5, 3)
    lbnn.save(network, tmp_path / "net.pt", (3,))
    agree(torch.fx.symbolic_trace(lbnn.load(tmp_path / "net.pt"))(x), network(x))
    for alone in (bnn.Linear(3, 2), bnn.SigmoidHead(), bnn.Constant(1.0)):
        with pytest.raises(LbnnError, match="put it into a Sequential"):
            torch.fx.symbolic_trace(alone)


@pytest.mark.parametrize("layer", [bnn.Linear(3, 2), bnn.Conv1d(3, 2, 1)])
@pytest.mark.parametrize("as_moments", [False, True])
def test_numbers_of_another_dtype_are_refused_with_what_to_do(layer, as_moments):
    double = r"use x.to\(torch.float32\), or model.double\(\)"
    for dtype, message in ((torch.float64, double), (torch.int64, r"use x.to\(torch.float32\)$")):
        x = torch.ones(2, 3, 3).to(dtype)
        with pytest.raises(LbnnError, match=message) as caught:
            layer(Moments(x, x) if as_moments else x)
        assert "\n" not in str(caught.value)
    wide = layer.double()
    assert wide(torch.ones(2, 3, 3).double()).mean.dtype is torch.float64
    layer.float()


@pytest.mark.parametrize("layer", [bnn.BatchNorm1d(3), bnn.BatchNorm2d(3)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("as_moments", [False, True])
def test_so_are_those_that_a_batch_norm_gets(layer, training, as_moments):
    x = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    with pytest.raises(
        LbnnError, match=r"the input is torch.float64, the weights are torch.float32; use x.to"
    ) as caught:
        layer.train(training)(Moments(x, x) if as_moments else x)
    assert "\n" not in str(caught.value) and layer.running_mean.tolist() == [0.0] * 3


def test_behind_layers_without_weights_too_and_not_where_torch_converts():
    model = bnn.Sequential(bnn.Standardize(0.5, 2.0), bnn.ReLU(), bnn.Linear(3, 2))
    with pytest.raises(LbnnError, match=r"Linear: the input is torch.float64, the weights are torch.float32"):
        model(torch.ones(2, 3, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(torch.ones(2, 3)).mean.dtype is torch.bfloat16
        assert model[2](torch.ones(2, 3, dtype=torch.bfloat16)).mean.dtype is torch.bfloat16
        norm = bnn.BatchNorm1d(3)
        norm(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], dtype=torch.bfloat16))
        assert norm.running_mean.tolist() == pytest.approx([0.2] * 3)
