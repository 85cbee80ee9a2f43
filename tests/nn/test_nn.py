"""What every layer keeps to: torch's names and arguments, moments in and out, clear errors for what does not fit."""

import inspect

import pytest
import torch
from hypothesis import given, settings

from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from strategies import inputs_for, networks


@pytest.mark.parametrize(
    "name",
    [
        *("Linear", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"),
        *("AvgPool1d", "LeakyReLU", "AdaptiveAvgPool2d", "ZeroPad2d"),
    ],
)
def test_arguments_are_those_of_torch_in_the_same_order(name):
    theirs = [p for p in inspect.signature(getattr(torch.nn, name).__init__).parameters if p != "inplace"]
    ours = list(inspect.signature(getattr(bnn, name).__init__).parameters)
    assert ours[: len(theirs)] == theirs


ABSENT = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), r"lbnn.nn has no \w+: its weights are shared .* causal Conv1d"),
    "LayerNorm": "lbnn.nn has no LayerNorm: use BatchNorm1d or BatchNorm2d",
    "MultiheadAttention": "lbnn.nn has no MultiheadAttention: use convolutions, and lbnn.nn.Multiply",
    "MSELoss": "see lbnn.losses",
    "ModuleList": "that of torch.nn holds layers of lbnn",
    "frobnicate": "module 'lbnn.nn' has no attribute 'frobnicate'",
    "functional": "module 'lbnn.nn' has no attribute 'functional'",
}


@pytest.mark.parametrize("name", ABSENT)
def test_a_layer_of_torch_that_is_not_here_says_what_to_use(name):
    with pytest.raises(AttributeError, match=ABSENT[name]):
        getattr(bnn, name)


def test_a_tensor_and_moments_of_zero_variance_give_the_same():
    model = bnn.Sequential(bnn.Conv2d(1, 3, 3), bnn.LeakyReLU(0.1), bnn.Flatten(), bnn.Linear(12, 2))
    x = torch.randn(5, 1, 4, 4)
    point, random = model(x), model(Moments(x, torch.zeros_like(x)))
    torch.testing.assert_close(tuple(point), tuple(random))


@settings(max_examples=60, deadline=None)
@given(networks(clamps=False))
def test_with_vanishing_weight_variance_the_mean_is_the_ordinary_networks_output(case):
    """Every layer's mean path is torch's own layer."""
    model, shape = case
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, bnn.BayesianLayer):
                for name, parameter in module.named_parameters():
                    if name.endswith("rho"):
                        parameter.fill_(-200.0)
    out = model(inputs_for(shape, 8, 0))
    assert out.var.abs().max() == 0.0
    assert torch.isfinite(out.mean).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.Linear(3, 2)(torch.zeros(4, 5)), "does not fit weight"),
        (lambda: bnn.Linear(3, 2)(torch.zeros(3)), "no batch axis"),
        (lambda: bnn.Linear(3, 2)([1.0, 2.0, 3.0]), "expected a tensor or lbnn.Moments, got list"),
        (lambda: bnn.Linear(3, 2)(Moments(torch.zeros(1, 3), torch.zeros(1, 2))), "differ in shape"),
        (lambda: bnn.Linear(3, 0), "every size must be at least 1"),
        (lambda: bnn.Linear(-3, 2), "every size must be at least 1"),
        (lambda: bnn.Conv1d(2, 2, 0), "every size must be at least 1"),
        (lambda: bnn.Conv2d(2, 2, 3, groups=0), "can't be divided into 0 groups"),
        (lambda: bnn.AdaptiveAvgPool2d(None), "output_size must be 1, got None"),
        (lambda: bnn.AdaptiveAvgPool2d((1, None)), "output_size must be 1, got"),
        (lambda: bnn.BatchNorm1d(0), "num_features must be at least 1, got 0"),
    ],
)
def test_nonsense_gets_a_clear_error(call, message):
    with pytest.raises(LbnnError, match=message):
        call()


def test_every_kind_of_layer_compiles_without_a_graph_break():
    model = bnn.Sequential(
        bnn.Standardize(0.5, 2.0),
        bnn.Conv2d(1, 4, 3, padding=1),
        bnn.BatchNorm(4),
        bnn.LeakyReLU(0.1),
        bnn.AvgPool2d(2),
        bnn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        bnn.ZeroPad2d(1),
        bnn.Flatten(),
        bnn.Linear(4 * 25, 4),
        bnn.VarianceHead(),
    ).eval()
    x = torch.randn(2, 1, 8, 8)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(tuple(compiled(x)), tuple(model(x)))
