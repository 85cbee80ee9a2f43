"""ELU, CELU and SELU: torch's own functions of known values, files, converters, and what they refuse."""

import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn

PAIRS = [
    (bnn.ELU(), nn.ELU()),
    (bnn.ELU(0.3), nn.ELU(0.3)),
    (bnn.ELU(0.0), nn.ReLU()),
    (bnn.CELU(), nn.CELU()),
    (bnn.CELU(2.5), nn.CELU(2.5)),
    (bnn.SELU(), nn.SELU()),
    (bnn.ELU(2.5, beta=2.5), nn.CELU(2.5)),
]


@pytest.mark.parametrize(("layer", "torch_layer"), PAIRS, ids=repr)
def test_a_known_value_gets_torchs_own_function_and_so_does_a_mean_without_variance(layer, torch_layer):
    x = torch.linspace(-9.0, 9.0, 161)[None]
    torch.testing.assert_close(layer(x), torch_layer(x))
    torch.testing.assert_close(layer(Moments(x, torch.zeros_like(x))).mean, torch_layer(x))


@pytest.mark.parametrize(("layer", "torch_layer"), PAIRS[:2] + PAIRS[3:6], ids=repr)
def test_from_torch_makes_the_same_layer(layer, torch_layer):
    made = lbnn.from_torch(torch_layer)
    assert type(made) is type(layer) and made.attrs() == layer.attrs() and repr(made) == repr(torch_layer)


@pytest.mark.parametrize("layer", [bnn.ELU(), bnn.ELU(1.5, beta=0.5, scale=2.0), bnn.CELU(1.7), bnn.SELU()], ids=repr)
def test_it_comes_back_from_a_file_by_its_name(tmp_path, layer):
    net, x = bnn.Sequential(bnn.Linear(3, 4), layer, bnn.Linear(4, 2)), torch.randn(5, 3)
    lbnn.save(net, tmp_path / "net.pt", input_shape=(3,))
    again = lbnn.load(tmp_path / "net.pt")
    assert repr(again.layers[1]) == repr(layer)
    torch.testing.assert_close(tuple(again(x)), tuple(net(x)))


def test_a_max_pool_changes_places_with_it():
    net = lbnn.from_torch(nn.Sequential(nn.Conv1d(1, 2, 3), nn.ELU(), nn.MaxPool1d(2)))
    assert [type(layer).__name__ for layer in net] == ["Conv1d", "MaxPool1d", "ELU"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.ELU(-0.5), "alpha must be a number from 0"),
        (lambda: bnn.ELU(float("nan")), "alpha must be a number"),
        (lambda: bnn.ELU(1.0, beta=0.0), "beta must be a number"),
        (lambda: bnn.ELU(1.0, scale=-1.0), "scale must be a number"),
        (lambda: bnn.CELU(0.0), "alpha must be from 0.001"),
        (lambda: lbnn.from_torch(nn.Sequential(nn.ELU(-1.0))), r"module '0' \(torch.nn.ELU\): alpha must be"),
        (lambda: lbnn.from_torch(nn.Sequential(nn.RReLU())), "use LeakyReLU, whose slope is not drawn"),
        (lambda: lbnn.from_torch(nn.Sequential(nn.GLU())), "use lbnn.nn.Multiply"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()


def test_gradients_of_every_layer_behind_it_arrive():
    net = bnn.Sequential(bnn.Linear(3, 4), bnn.ELU(), bnn.Linear(4, 4), bnn.SELU(), bnn.Linear(4, 1))
    out = net(torch.randn(50, 3))
    (out.mean.square() + out.var).mean().backward()
    for name, parameter in net.named_parameters():
        assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().max() > 0.0, name
