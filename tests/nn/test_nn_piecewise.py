"""Layers that are piecewise linear: torch's own functions of known values, and what they refuse."""

import numpy as np
import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn

PAIRS = [
    (bnn.ReLU6(), nn.ReLU6()),
    (bnn.Hardtanh(), nn.Hardtanh()),
    (bnn.Hardtanh(-0.3, 2.0), nn.Hardtanh(-0.3, 2.0)),
    (bnn.Hardsigmoid(), nn.Hardsigmoid()),
    (bnn.PReLU(-1.5), nn.PReLU(init=-1.5)),
    (bnn.PReLU(), nn.PReLU()),
    (bnn.Clamp(min=0.1), nn.Threshold(0.1, 0.1)),
]


@pytest.mark.parametrize(("layer", "torch_layer"), PAIRS, ids=lambda layer: type(layer).__name__)
def test_a_known_value_gets_torchs_own_function_and_so_does_a_mean_without_variance(layer, torch_layer):
    x = torch.linspace(-8.0, 8.0, 161)[None]
    with torch.no_grad():
        torch.testing.assert_close(layer(x), torch_layer(x))
        torch.testing.assert_close(layer(Moments(x, torch.zeros_like(x))).mean, torch_layer(x))


@pytest.mark.parametrize(("layer", "torch_layer"), PAIRS, ids=lambda layer: type(layer).__name__)
def test_from_torch_makes_the_same_layer(layer, torch_layer):
    made = lbnn.from_torch(torch_layer)
    assert type(made) is type(layer) and made.attrs() == layer.attrs()


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.PReLU(3), "slope for each channel"),
        (nn.Threshold(0.1, 20.0), "jumps"),
        (nn.Hardshrink(), "does not jump"),
    ],
)
def test_what_jumps_or_differs_by_channel_is_refused(layer, message):
    with pytest.raises(LbnnError, match=message):
        lbnn.from_torch(nn.Sequential(nn.Linear(2, 3), layer))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.Hardtanh(1.0, 1.0), "below max_val"),
        (lambda: bnn.Clamp(), "or one of them"),
        (lambda: bnn.Clamp(2.0, 1.0), "a min below a max"),
        (lambda: bnn.PReLU(float("inf")), "slopes must be a number"),
        (lambda: bnn.Piecewise([0.0, 1.0], [1.0, 2.0]), "2 kinks divide 3 pieces"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(LbnnError, match=message):
        call()


def test_clamps_of_one_side_and_of_two():
    x = torch.tensor([[-2.0, 0.2, 3.0]])
    assert bnn.Clamp(max=1.0)(x).tolist() == x.clamp(max=1.0).tolist()
    assert bnn.Clamp(min=0.0)(x).tolist() == x.clamp(min=0.0).tolist()
    assert bnn.Clamp(-1, 1)(x).tolist() == x.clamp(-1.0, 1.0).tolist()


def test_a_layer_says_whether_its_function_rises():
    assert bnn.ReLU6().rises and bnn.PReLU(0.0).rises and bnn.Clamp(max=0.0).rises
    assert not bnn.PReLU(-0.1).rises and not bnn.Piecewise([0.0, 1.0], [0.0, 1.0, -0.5]).rises


def test_kinks_are_those_of_float32_so_that_all_backends_have_the_same():
    kink = float(np.float32(0.1))
    assert bnn.Hardtanh(-0.1, 0.1).attrs() == {"kinks": (-kink, kink), "slopes": (0.0, 1.0, 0.0), "value": -kink}


def test_it_comes_back_from_a_file(tmp_path):
    net = bnn.Sequential(bnn.Linear(3, 4), bnn.Piecewise([-1, 0.5], [0.1, 1, -2], 3), bnn.Linear(4, 2), bnn.ReLU6())
    lbnn.save(net, tmp_path / "net.pt", input_shape=(3,))
    again, x = lbnn.load(tmp_path / "net.pt"), torch.randn(5, 3)
    torch.testing.assert_close(tuple(again(x)), tuple(net(x)))


def test_a_slope_of_one_is_dropped_from_the_graph(tmp_path):
    from lbnn.graph.passes import prepare
    from lbnn.model.file import read_model

    lbnn.save(bnn.Sequential(bnn.Linear(3, 4), bnn.PReLU(1.0)), tmp_path / "net.pt", input_shape=(3,))
    assert [node.op for node in prepare(read_model(tmp_path / "net.pt").graph, False).nodes] == ["linear_point"]
