"""Layers that are piecewise linear: torch's own functions of known values, and what they refuse."""

import numpy as np
import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS

PAIRS = [
    (bnn.ReLU6(), nn.ReLU6()),
    (bnn.Hardtanh(), nn.Hardtanh()),
    (bnn.Hardtanh(-0.3, 2.0), nn.Hardtanh(-0.3, 2.0)),
    (bnn.Hardsigmoid(), nn.Hardsigmoid()),
    (bnn.PReLU(init=-1.5), nn.PReLU(init=-1.5)),
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
        (lambda: bnn.PReLU(init=float("inf")), "slopes must be a number"),
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
    assert bnn.ReLU6().rises and bnn.PReLU(init=0.0).rises and bnn.Clamp(max=0.0).rises
    assert not bnn.PReLU(init=-0.1).rises and not bnn.Piecewise([0.0, 1.0], [0.0, 1.0, -0.5]).rises


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

    lbnn.save(bnn.Sequential(bnn.Linear(3, 4), bnn.PReLU(init=1.0)), tmp_path / "net.pt", input_shape=(3,))
    assert [node.op for node in prepare(read_model(tmp_path / "net.pt").graph, False).nodes] == ["linear_point"]


@pytest.mark.parametrize("slope", [-3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 4.0])
def test_prelu_has_the_moments_of_its_operator_with_any_slope(slope):
    mean, sd = torch.meshgrid(torch.linspace(-6, 6, 25), torch.tensor([0.0, 1e-6, 0.1, 1.0, 7.0, 1e4]), indexing="ij")
    x = Moments(mean.double() * sd.clamp_min(1.0), sd.double() ** 2)
    layer = bnn.PReLU(init=slope).double()
    want = OPS["piecewise"].formula(NUMPY, Moments(*(part.numpy() for part in x)), **layer.attrs())
    out = layer(x).detach().numpy()
    np.testing.assert_allclose(out.var, want.var, rtol=1e-9, atol=1e-300)
    assert (np.abs(out.mean - want.mean) <= 1e-12 * (np.abs(x.mean) + x.sd).numpy()).all()


def test_the_slope_of_prelu_learns_and_its_gradient_is_that_of_finite_differences():
    mean = torch.tensor([[-2.0, -0.1, 0.0, 0.3, 4.0]], dtype=torch.float64, requires_grad=True)
    var = torch.tensor([[1.0, 0.2, 3.0, 0.5, 2.0]], dtype=torch.float64, requires_grad=True)
    layer = bnn.PReLU().double()

    def moments(slope, m, v):
        return tuple(torch.func.functional_call(layer, {"weight": slope}, (Moments(m, v),)))

    assert torch.autograd.gradcheck(moments, (torch.tensor([-0.3], dtype=torch.float64, requires_grad=True), mean, var))
    known = layer(Moments(mean, torch.zeros_like(var)))
    assert torch.isfinite(torch.autograd.grad(sum(part.sum() for part in known), layer.weight)[0]).all()
    net, x = bnn.Sequential(bnn.Linear(1, 8), bnn.PReLU(), bnn.Linear(8, 1)), torch.linspace(-2, 2, 64)[:, None]
    lbnn.fit(net, (x, -x.abs()), epochs=5, batch_size=16)
    assert float(net[1].weight.detach()) != 0.25


def test_prelu_takes_torch_s_weights_and_goes_on_learning_when_it_is_loaded(tmp_path):
    layer = bnn.PReLU()
    layer.load_state_dict(nn.PReLU(init=-0.7).state_dict())
    net, x = bnn.Sequential(bnn.Linear(3, 4), layer, bnn.Linear(4, 2)), torch.randn(5, 3)
    lbnn.save(net, tmp_path / "net.pt", input_shape=(3,))
    again = lbnn.load(tmp_path / "net.pt")
    torch.testing.assert_close(tuple(again(x)), tuple(net.eval()(x)))
    (found,) = [each for each in again.modules() if isinstance(each, bnn.PReLU)]
    assert float(found.weight.detach()) == pytest.approx(-0.7) and found.weight.requires_grad


@pytest.mark.parametrize("layer", [bnn.Clamp(min=0.0), bnn.Piecewise([0.0], [0.5, 2.0]), bnn.Hardtanh()])
def test_others_are_constants_in_a_file(layer, tmp_path):
    lbnn.save(bnn.Sequential(bnn.Linear(3, 4), layer), tmp_path / "net.pt", input_shape=(3,))
    assert [type(each) for each in lbnn.load(tmp_path / "net.pt").layers][1] is bnn.Piecewise
