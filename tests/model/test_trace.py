"""Tracing: any module built of lbnn layers becomes a graph; what can't be traced is named, with what to do."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.graph.reference import predict
from lbnn.model.trace import trace
from strategies import inputs_for, networks


def module(forward, **children):
    """A user's own module: `forward(self, x)` and its layers."""
    made = type("Own", (nn.Module,), {"forward": forward})()
    for name, child in children.items():
        made.add_module(name, child)
    return made


def lines(model, shape):
    return [" ".join(line.split(" : ")[0].split()) for line in str(trace(model, shape)).splitlines()]


def agrees(model, shape):
    """torch and the numpy reference of the traced graph give the same moments, for a known input too."""
    x, var = inputs_for(shape, 8, 1), inputs_for(shape, 8, 2) ** 2
    _agree(model, shape, Moments(x, var), predict(trace(model, shape), x.double().numpy(), var.double().numpy()))
    _agree(model, shape, x, predict(trace(model, shape), x.double().numpy()))


def _agree(model, shape, x, reference):
    with torch.no_grad():
        out = model.eval()(x)
    out = out if isinstance(out, Moments) else Moments(out, torch.zeros_like(out))
    scale = np.sqrt(reference.var) + np.abs(reference.mean)
    assert np.all(np.abs(out.mean.numpy() - reference.mean) <= 1e-4 * scale + 1e-6)
    assert np.all(np.abs(out.var.numpy() - reference.var) <= 1e-4 * reference.var + 1e-9)


def test_a_sequential_is_listed_by_its_paths():
    model = bnn.Sequential(bnn.Linear(3, 4), bnn.LeakyReLU(0.1), bnn.Linear(4, 2, bias=False))
    assert lines(model, (3,)) == [
        "model(input: random[3]) -> 2",
        "0 = linear(input, weight[4x3], bias[4])",
        "1 = leaky_relu(0, negative_slope=0.1)",
        "2 = linear(1, weight[2x4], bias[])",
    ]


def test_sums_and_concatenations_of_a_users_forward_are_nodes_under_its_path():
    block = module(
        lambda self, x: lbnn.cat([x + self.act(self.conv(x)), x]),
        conv=bnn.Conv1d(2, 2, 3, padding=1),
        act=bnn.ReLU(),
    )
    model = nn.Sequential(block, nn.Flatten(), bnn.Linear(20, 1))
    assert lines(model, (2, 5)) == [
        "model(input: random[2x5]) -> 2",
        "0.conv = conv(input, weight[2x2x3], bias[2], stride=1, padding=1, dilation=1, groups=1)",
        "0.act = leaky_relu(0.conv, negative_slope=0)",
        "0.add = add(input, 0.act)",
        "0.concat = concat(0.add, input, axis=0)",
        "1 = flatten(0.concat)",
        "2 = linear(1, weight[1x20], bias[1])",
    ]
    agrees(model, (2, 5))


def test_a_layer_used_twice_gets_two_names():
    model = module(lambda self, x: self.fc(self.act(self.fc(x))), fc=bnn.Linear(2, 2), act=bnn.ReLU())
    assert [node.name for node in trace(model, (2,)).nodes] == ["fc", "act", "fc_2"]
    agrees(model, (2,))


ARITHMETIC = {
    "number": lambda self, x: 2 * self.fc(x) + 1,
    "difference": lambda self, x: x - self.fc(x),
    "negated": lambda self, x: -self.fc(x) - 0.5,
    "quotient": lambda self, x: (1 - self.fc(x)) / 4,
    "tensor right": lambda self, x: self.fc(x) * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor([[0.5, 0.0, -1.0]]),
    "tensor left": lambda self, x: torch.tensor([1.0, 2.0, 3.0]) - self.fc(x),
    "parameter": lambda self, x: self.fc(x) * nn.Parameter(torch.tensor([1.0, 2.0, 3.0])),
    "array": lambda self, x: self.fc(x) + np.array([1.0, 2.0, 3.0], dtype=np.float32),
    "in place": lambda self, x: self.add_in_place(self.fc(x)),
    "constant beside": lambda self, x: lbnn.cat([self.fc(x), torch.ones(x.shape[0], 2)]),
    "constant layer": lambda self, x: lbnn.cat([bnn.Constant([1.0, 2.0])(x), self.fc(x)]),
    "known sum": lambda self, x: bnn.Add()(self.fc(x), torch.ones(x.shape[0], 3)),
    "torch.flatten": lambda self, x: torch.flatten(x, 1) if isinstance(x, torch.Tensor) else x.flatten(1),
}


@pytest.mark.parametrize("forward", ARITHMETIC.values(), ids=ARITHMETIC.keys())
def test_arithmetic_with_known_values_is_traced(forward):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = bnn.Linear(3, 3)

        def add_in_place(self, x):
            x += 1
            x *= 2
            return x

    Own.forward = forward
    agrees(Own(), (3,))


def test_what_meets_nothing_random_stays_known():
    """A clamp gives a variance to moments without one, so it matters that these are no moments."""
    constant, clamped = bnn.Constant([1.0, -2.0]), bnn.LeakyReLU(0.1, clamp=0.5)
    agrees(module(lambda self, x: self.act(lbnn.cat([x, self.known(x)], 1)), known=constant, act=clamped), (3,))
    agrees(module(lambda self, x: self.act(self.known(x)) + x, known=constant, act=clamped), (2,))


@settings(max_examples=30, deadline=None)
@given(networks())
def test_random_networks_agree_with_their_graphs(drawn):
    agrees(*drawn)


def test_modes_statistics_and_hooks_are_as_before_a_trace():
    model = nn.Sequential(bnn.Linear(2, 2), bnn.BatchNorm(2), nn.Dropout(0.5), bnn.ReLU().eval())
    state = {key: value.clone() for key, value in model.state_dict().items()}
    assert [node.op for node in trace(model, (2,)).nodes] == ["linear", "batch_norm", "leaky_relu"]
    assert [layer.training for layer in model] == [True, True, True, False]
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    with pytest.raises(LbnnError):
        trace(model, (5,))
    assert [layer.training for layer in model] == [True, True, True, False]
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.modules())


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda model: torch.compile(nn.DataParallel(model))])
def test_wrappers_are_looked_through(wrap):
    model = bnn.Sequential(bnn.Linear(2, 1))
    assert str(trace(wrap(model), (2,))) == str(trace(model, (2,)))


REFUSED = {
    "branch on the mean": (lambda self, x: x if x.mean > 0 else -x, "x.mean can't be traced"),
    "branch": (lambda self, x: x if x else -x, "depends on the data"),
    "comparison": (lambda self, x: x if x > 0 else -x, "depends on the data"),
    "unpacking": (lambda self, x: sum(x), "elements of a random value"),
    "item": (lambda self, x: x[:, 0], "elements of a random value"),
    "assignment": (lambda self, x: x.__setitem__(0, 1.0), "elements of a random value"),
    "in-place method": (lambda self, x: x.add_(1), "x.add_ can't be traced"),
    "view": (lambda self, x: x.view(1, -1), "use x.flatten(1)"),
    "flatten of all": (lambda self, x: x.flatten(0), "use flatten(1)"),
    "product": (lambda self, x: x * x, "a random value times itself"),
    "quotient": (lambda self, x: 1 / x, "division by a random value"),
    "function": (lambda self, x: torch.relu(x), "torch's relu has no moments; make it a layer of the network: lbnn.nn"),
    "another function": (lambda self, x: torch.sin(x), "torch's sin has no moments; use a layer of lbnn.nn"),
    "reshape": (lambda self, x: x.reshape(1, -1), "use x.flatten(1)"),
    "average": (lambda self, x: x.mean((1,)), "lbnn.nn.AdaptiveAvgPool2d(1)"),
    "dropout": (lambda self, x: nn.functional.dropout(x), "dropout that stays active"),
    "own randomness": (lambda self, x: bnn.Linear(2, 2)(torch.ones(1, 2)) + x, "do not come from the model's input"),
    "batch of constants": (lambda self, x: x + torch.ones(3, 2), "batch axis of 1"),
    "text": (lambda self, x: x + "1", "can't combine a random value with a str"),
    "bug": (lambda self, x: self.missing(x), "forward failed while being traced (AttributeError"),
}


@pytest.mark.parametrize("forward, message", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_traced_is_refused_with_the_module_path(forward, message):
    model = nn.Sequential(bnn.Linear(2, 2), nn.Sequential(module(forward)))
    with pytest.raises(LbnnError) as error:
        trace(model, (2,))
    assert str(error.value).startswith("module '1.0' (Own): ") and message in str(error.value)


FOREIGN = {
    nn.ReLU(): "use lbnn.nn.ReLU, or convert the network with lbnn.from_torch",
    nn.Linear(2, 2): "use lbnn.nn.Linear",
    nn.BatchNorm1d(2): "use lbnn.nn.BatchNorm1d",
    nn.GELU(): "use lbnn.nn.GELU",
    nn.CELU(): "use lbnn.nn.CELU",
    nn.Softsign(): "give a range: pointwise=",
    nn.LSTM(2, 2): "use causal Conv1d",
    nn.PixelShuffle(2): "see lbnn.nn for the layers",
}


@pytest.mark.parametrize("layer, advice", FOREIGN.items(), ids=lambda x: type(x).__name__)
def test_a_foreign_layer_is_named_with_its_counterpart(layer, advice):
    with pytest.raises(LbnnError) as error:
        trace(nn.Sequential(bnn.Linear(2, 2), nn.Sequential(layer)), (2,))
    assert f"module '1.0' is a torch.nn.{type(layer).__name__}" in str(error.value) and advice in str(error.value)


@pytest.mark.parametrize(
    "forward, what",
    [
        (lambda self, x: (x, x), "2 values"),
        (lambda self, x: None, "a NoneType"),
        (lambda self, x: torch.ones(1), "a Tensor"),
    ],
)
def test_only_one_result_of_a_layer_may_be_returned(forward, what):
    with pytest.raises(LbnnError, match=f"returns {what}; return the result of one lbnn layer"):
        trace(module(forward), (2,))


def test_a_shape_that_does_not_fit_names_the_layer():
    with pytest.raises(LbnnError, match=r"node 'body.1': linear: input \(4,\) does not fit weight \(2, 3\)"):
        trace(module(lambda self, x: self.body(x), body=nn.Sequential(bnn.Linear(2, 4), bnn.Linear(3, 2))), (2,))


@pytest.mark.parametrize("shape", [(), (0,), (2.0,), (-1, 3), 4, None, "ab", (True,)])
def test_an_input_shape_is_positive_integers(shape):
    with pytest.raises(LbnnError, match="input_shape must be the shape of one sample"):
        trace(bnn.Linear(2, 2), shape)
