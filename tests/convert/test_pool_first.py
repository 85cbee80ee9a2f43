"""Max pools before activations: the same plain network, in another order."""

import inspect
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

import lbnn
from largest import moments_of_largest
from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.nn.base import Layer
from lbnn.ops import OPS


def kinds(chain):
    return [type(layer).__name__ for layer in chain]


RISING = {
    "LeakyReLU": bnn.LeakyReLU(0.1),
    "ReLU": bnn.ReLU(),
    "ReLU6": bnn.ReLU6(),
    "Hardtanh": bnn.Hardtanh(-0.5, 1.0),
    "Hardsigmoid": bnn.Hardsigmoid(),
    "PReLU": bnn.PReLU(),
    "Clamp": bnn.Clamp(max=0.5),
    "Piecewise": bnn.Piecewise([0.0, 1.0], [0.2, 1.0, 0.0]),
    "Sigmoid": bnn.Sigmoid(),
    "Tanh": bnn.Tanh(),
    "Softplus": bnn.Softplus(beta=2.0),
}
FALLING = {
    "Abs": bnn.Abs(),
    "PReLU": bnn.PReLU(init=-0.25),
    "Piecewise": bnn.Piecewise([0.0, 1.0], [0.2, 1.0, -1e-3]),
    "SiLU": bnn.SiLU(),
    "GELU": bnn.GELU(),
    "GELU of tanh": bnn.GELU("tanh"),
}


def activations():
    """The examples above, and every other layer of one value that its class alone makes, with what it gives."""
    x = torch.linspace(-12.0, 12.0, 4801, dtype=torch.float64)[:, None]
    made = {name: kind() for name, kind in vars(bnn).items() if name in bnn.__all__ and is_made_alone(name, kind)}
    for name, layer in [*RISING.items(), *FALLING.items(), *made.items()]:
        out = layer.double()(x) if is_function(layer) else None
        if isinstance(out, torch.Tensor):
            yield name, layer, out


def is_function(layer):
    return OPS[getattr(layer, "op", "add")].kind in ("pointwise", "clamped", "smooth")


def is_made_alone(name, kind):
    """A function for which no argument has to be given, and the layer is none of the examples."""
    if name in RISING or name in FALLING or not (isinstance(kind, type) and issubclass(kind, Layer)):
        return False
    if not is_function(kind):
        return False
    given = inspect.signature(kind).parameters.values()
    return all(one.default is not one.empty or one.kind is one.VAR_POSITIONAL for one in given)


def test_a_layer_rises_if_its_function_never_falls():
    seen = {name: (layer.rises, bool((out.diff(dim=0) >= -1e-14).all())) for name, layer, out in activations()}
    assert len(seen) >= 15 and {name: told for name, (told, true) in seen.items() if told is not true} == {}


@pytest.mark.parametrize("name", RISING)
def test_a_pool_changes_places_with_every_activation_that_rises(name):
    """Known values stay the same, and the moments of nearly all pairs come nearer to quadrature's."""
    net, x = bnn.Sequential(RISING[name], bnn.MaxPool1d(2)).double(), torch.randn(40, 3, 8).double()
    rng = np.random.default_rng(0)
    mean, var = 3.0 * rng.normal(size=(100, 2)), 9.0 ** (1.0 + rng.uniform(-1.0, 0.0, size=(100, 2)))
    given = Moments(torch.tensor(mean)[:, None], torch.tensor(var)[:, None])
    known, before = net(x), net(given)
    assert kinds(lbnn.pool_first(net)) == ["MaxPool1d", name]
    torch.testing.assert_close(net(x), known, rtol=1e-6, atol=1e-6)
    true = moments_of_largest(lambda t: RISING[name](torch.tensor(t)).detach().numpy(), mean, var)
    early, late = (np.abs(out.std.flatten().detach().numpy() / np.sqrt(true[1]) - 1.0) for out in (net(given), before))
    assert np.median(early) < 0.1 and np.median(early) < 0.4 * np.median(late)


@pytest.mark.parametrize("name", FALLING)
def test_a_pool_stays_behind_an_activation_that_falls_somewhere(name):
    kept = [type(FALLING[name]).__name__, "MaxPool1d"]
    assert kinds(lbnn.pool_first(bnn.Sequential(FALLING[name], bnn.MaxPool1d(2)))) == kept


def test_pools_move_before_activations_that_rise_and_no_others():
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


class OwnForward(nn.Module):
    """A value that its pool alone reads, one that more do, and one that is the output."""

    def __init__(self):
        super().__init__()
        self.conv, self.relu, self.tanh = bnn.Conv1d(1, 2, 3, padding=1, sigma=0.2), bnn.ReLU(), bnn.Tanh()
        self.pool = bnn.MaxPool1d(2)

    def forward(self, x):
        x = self.relu(self.pool(self.tanh(self.relu(self.conv(x)))))
        return self.pool(self.tanh(lbnn.cat([x, self.pool(self.relu(x))], dim=2)))


class PoolsFirst(OwnForward):
    """The same by hand."""

    def forward(self, x):
        x = self.relu(self.tanh(self.relu(self.pool(self.conv(x)))))
        return self.tanh(self.pool(lbnn.cat([x, self.relu(self.pool(x))], dim=2)))


def listing(net):
    """The printed graph, without the names that lines begin with."""
    return [line.split(" = ")[1] for line in str(lbnn.read_model(net, (1, 16)).graph).splitlines()[1:]]


def test_a_network_with_its_own_forward_is_changed_in_its_loaded_form(tmp_path):
    torch.manual_seed(0)
    model, by_hand = OwnForward().eval(), PoolsFirst().eval()
    by_hand.load_state_dict(model.state_dict())
    net = lbnn.load(lbnn.save(model, tmp_path / "net.pt", input_shape=(1, 16)))
    kept, x = listing(net), torch.randn(5, 1, 16)
    assert kept == listing(model) and lbnn.pool_first(net) is net
    assert [line.split("(")[0] for line in listing(net)] == [line.split("(")[0] for line in listing(by_hand)]
    torch.testing.assert_close(tuple(net(x)), tuple(by_hand(x)))
    again = lbnn.save(net, tmp_path / "net.pt")
    torch.testing.assert_close(tuple(lbnn.load(again)(x)), tuple(by_hand(x)))
    found = lbnn.compile(again)(x.numpy())
    np.testing.assert_allclose(found.var, by_hand(x).var.detach(), rtol=1e-4)


def test_a_loaded_network_without_such_a_pool_stays_as_it_is(tmp_path):
    model = bnn.Sequential(bnn.Conv1d(1, 2, 3), bnn.SiLU(), bnn.MaxPool1d(2), bnn.ReLU())
    net = lbnn.load(lbnn.save(model, tmp_path / "net.pt", input_shape=(1, 16)))
    steps = net.steps
    assert lbnn.pool_first(net).steps == steps


class Loose(nn.Module):
    """A network of torch whose forward calls layers one by one, among them some in a Sequential or a list."""

    def __init__(self, *layers, **others):
        super().__init__()
        self.conv, self.chain, self.more = nn.Conv1d(1, 2, 3), nn.Sequential(*layers), nn.ModuleList(others.values())

    def forward(self, x):
        x = self.chain(self.conv(x))
        for layer in self.more:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    "net",
    [
        Loose(act=nn.ReLU(), pool=nn.MaxPool1d(2)),
        Loose(nn.Conv1d(2, 2, 1), nn.ReLU(), nn.Identity(), pool=nn.MaxPool1d(2)),
        nn.Sequential(Loose(act=nn.Tanh()), Loose(pool=nn.MaxPool1d(2)), nn.Flatten()),
        Loose(act=nn.ReLU(), down=nn.Sequential(nn.MaxPool1d(2), nn.Flatten())),
    ],
)
def test_what_a_forward_keeps_in_its_order_is_told_once(net):
    with pytest.warns(
        UserWarning, match=r"Loose.forward keeps the order.*lbnn.pool_first\(lbnn.load\(path\)\)"
    ) as told:
        lbnn.from_torch(net)
    assert len(told) == 1 and "\n" not in str(told[0].message)


@pytest.mark.parametrize(
    "net",
    [
        Loose(act=nn.SiLU(), pool=nn.MaxPool1d(2)),
        Loose(nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), end=nn.Linear(6, 1)),
        Loose(act=nn.ReLU(), pool=nn.AvgPool1d(2)),
        nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU(), nn.MaxPool1d(2)),
    ],
)
def test_nothing_is_told_where_no_pool_could_be_moved_or_all_were(net, recwarn):
    lbnn.from_torch(net)
    lbnn.from_torch(Loose(act=nn.ReLU(), pool=nn.MaxPool1d(2)), pool_first=False)
    assert not recwarn.list


def test_what_the_warning_says_puts_them_first(tmp_path):
    with pytest.warns(UserWarning):
        net = lbnn.from_torch(Loose(act=nn.ReLU(), pool=nn.MaxPool1d(2)))
    lbnn.save(net, tmp_path / "net.pt", input_shape=(1, 12))
    first = lbnn.pool_first(lbnn.load(tmp_path / "net.pt"))
    assert [node.op for node in lbnn.read_model(first).graph.nodes] == ["conv", "max_pool", "leaky_relu"]
