"""The hard-swish layer: torch's own function of known values, files, converters, and no place before a max pool."""

import pytest
import torch
from torch import nn

import lbnn
from lbnn import Moments
from lbnn import nn as bnn


def test_a_known_value_gets_torchs_own_function_and_so_does_a_mean_without_variance():
    x = torch.linspace(-8.0, 8.0, 161)[None]
    torch.testing.assert_close(bnn.Hardswish()(x), nn.Hardswish()(x))
    torch.testing.assert_close(bnn.Hardswish()(Moments(x, torch.zeros_like(x))).mean, nn.Hardswish()(x))


@pytest.mark.parametrize("inplace", [False, True])
def test_from_torch_knows_it(inplace):
    plain = nn.Sequential(nn.Linear(3, 4), nn.Hardswish(inplace), nn.Linear(4, 2))
    made = lbnn.from_torch(plain, sigma=1e-6)
    assert isinstance(made[1], bnn.Hardswish)
    x = torch.randn(5, 3)
    torch.testing.assert_close(made(x).mean, plain(x))


def test_a_max_pool_behind_it_stays_behind_it_because_it_falls_before_it_rises():
    made = lbnn.from_torch(nn.Sequential(nn.Conv1d(1, 2, 3), nn.Hardswish(), nn.MaxPool1d(2)))
    assert [type(layer) for layer in made] == [bnn.Conv1d, bnn.Hardswish, bnn.MaxPool1d]


def test_it_comes_back_from_a_file(tmp_path):
    net = bnn.Sequential(bnn.Linear(3, 4), bnn.Hardswish(), bnn.Linear(4, 2), bnn.Hardswish())
    lbnn.save(net, tmp_path / "net.pt", input_shape=(3,))
    again, x = lbnn.load(tmp_path / "net.pt"), torch.randn(5, 3)
    torch.testing.assert_close(tuple(again(x)), tuple(net(x)))
