"""Max pools before activations: the same plain network, in another order."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

import lbnn
from lbnn import nn as bnn


def kinds(chain):
    return [type(layer).__name__ for layer in chain]


def test_pools_move_before_monotone_activations_and_no_others():
    net = bnn.Sequential(
        bnn.Conv1d(1, 2, 3), bnn.ReLU(), bnn.LeakyReLU(0.1), bnn.MaxPool1d(2), bnn.MaxPool1d(2),
        bnn.Abs(), bnn.MaxPool1d(2), bnn.ReLU(), bnn.AvgPool1d(2),
    )  # fmt: skip
    assert lbnn.pool_first(net) is net
    assert kinds(net) == [
        "Conv1d",
        "MaxPool1d",
        "MaxPool1d",
        "ReLU",
        "LeakyReLU",
        "Abs",
        "MaxPool1d",
        "ReLU",
        "AvgPool1d",
    ]


def test_known_values_give_the_same_and_parameters_keep_their_names():
    torch.manual_seed(0)
    net = bnn.Sequential(
        bnn.MaxPool2d(2, 1), bnn.LeakyReLU(0.2), bnn.Sequential(bnn.ReLU(), bnn.MaxPool2d(2)), bnn.Linear(3, 1)
    )
    x, names = torch.randn(2, 1, 7, 7), list(net.state_dict())
    before = net(x)
    after = lbnn.pool_first(net)(x)
    assert kinds(net[2]) == ["MaxPool2d", "ReLU"] and list(net.state_dict()) == names
    torch.testing.assert_close(tuple(after), tuple(before))


def test_layers_keep_names_that_are_words():
    net = bnn.Sequential(OrderedDict(act=bnn.ReLU(), pool=bnn.MaxPool1d(2)))
    assert list(lbnn.pool_first(net)._modules) == ["pool", "act"]


@pytest.mark.parametrize("asked", [True, False])
def test_a_torch_network_is_converted_in_the_order_that_is_asked_for(asked):
    plain = nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU(), nn.MaxPool1d(2))
    net = lbnn.from_torch(plain, sigma=1e-6, pool_first=asked)
    assert kinds(net)[1:] == (["MaxPool1d", "ReLU"] if asked else ["ReLU", "MaxPool1d"])
    x = torch.randn(3, 1, 9)
    torch.testing.assert_close(net(x).mean, plain(x), rtol=1e-4, atol=1e-4)


def test_the_pool_first_is_nearer_to_sampled_values():
    """max(0, x1, x2) of independent standard normals: by a million samples."""
    x = torch.randn(1_000_000, 2, generator=torch.Generator().manual_seed(0)).clamp(min=0).amax(1)
    given = lbnn.Moments(torch.zeros(1, 1, 2), torch.ones(1, 1, 2))
    first, last = bnn.MaxPool1d(2), bnn.ReLU()
    errors = [
        abs(run(given).std.item() / x.std().item() - 1) for run in (lambda y: last(first(y)), lambda y: first(last(y)))
    ]
    assert errors[0] < 0.02 < 0.05 < errors[1]
