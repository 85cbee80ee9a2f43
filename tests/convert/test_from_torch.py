"""Torch networks become Bayesian ones with the same means."""

import math

import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.convert.from_torch import COUNTERPARTS
from lbnn.model.trace import trace

TINY = 1e-7

NETWORKS = {
    "mlp": (nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2, bias=False)), (3,)),
    "cnn": (
        nn.Sequential(
            nn.ZeroPad2d((1, 0, 2, 1)),
            nn.Conv2d(1, 4, 3, padding="same", bias=False),
            nn.BatchNorm2d(4),
            nn.LeakyReLU(0.2),
            nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
            nn.Conv2d(4, 4, (3, 1), stride=(2, 1), padding=(1, 0), groups=4),
            nn.Identity(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 2),
        ),
        (1, 9, 8),
    ),
    "one axis": (
        nn.Sequential(
            nn.ZeroPad1d(1),
            nn.Conv1d(2, 3, 3, dilation=2),
            nn.BatchNorm1d(3, affine=False),
            nn.ReLU(),
            nn.AvgPool1d(2),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
        ),
        (2, 12),
    ),
    "decoder": (
        nn.Sequential(
            nn.ConvTranspose2d(2, 4, 3, 2, 1, output_padding=1, groups=2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.ConvTranspose2d(4, 1, (2, 3), (2, 1), bias=False, dilation=2),
        ),
        (2, 3, 4),
    ),
    "decoder, one axis": (nn.Sequential(nn.ConvTranspose1d(3, 2, 4, 2, 1), nn.Flatten()), (3, 5)),
    "layer": (nn.Linear(3, 2), (3,)),
}


class Residual(nn.Module):
    """A user's own forward, one layer used twice."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.again = self.body[0]

    def forward(self, x):
        return x + self.again(self.body(x))


def trained(model, shape):
    """The model with batch statistics that are not the initial ones."""
    torch.manual_seed(5)
    model.train()(3.0 * torch.randn(32, *shape) + 1.0)
    return model.eval()


@pytest.mark.parametrize("model, shape", [*NETWORKS.values(), (Residual(), (4,))], ids=[*NETWORKS, "residual"])
def test_with_a_tiny_sigma_the_mean_is_the_deterministic_output(model, shape):
    model = trained(model, shape)
    x = torch.randn(16, *shape)
    converted = lbnn.from_torch(model, sigma=TINY)
    with torch.no_grad():
        out = converted(x)
    torch.testing.assert_close(out.mean, model(x), rtol=1e-5, atol=1e-6)
    assert float(out.var.max()) < 1e-9
    trace(converted, shape)


def test_the_original_is_left_as_it_is():
    model = NETWORKS["cnn"][0]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    converted = lbnn.from_torch(model)
    with torch.no_grad():
        for parameter in converted.parameters():
            parameter.add_(1.0)
    assert isinstance(model[1], nn.Conv2d) and not any(isinstance(layer, bnn.Layer) for layer in model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_sigma_is_a_tenth_of_the_weights_size_unless_given():
    model = nn.Sequential(nn.Linear(50, 40))
    size = float(model[0].weight.square().mean().sqrt())
    layer = lbnn.from_torch(model)[0]
    assert torch.allclose(layer.weight_var.sqrt(), torch.tensor(0.1 * size), rtol=1e-4)
    assert torch.allclose(layer.bias_var.sqrt(), torch.tensor(0.1 * size), rtol=1e-4)
    assert torch.allclose(lbnn.from_torch(model, sigma=0.3)[0].weight_var.sqrt(), torch.tensor(0.3))


def test_weights_of_zero_get_the_sigma_of_a_new_layer():
    model = nn.Linear(400, 1)
    nn.init.zeros_(model.weight)
    assert math.isclose(float(lbnn.from_torch(model).weight_var[0, 0].sqrt()), 0.05, rel_tol=1e-4)


def test_a_layer_used_twice_stays_one_layer():
    converted = lbnn.from_torch(Residual())
    assert converted.again is converted.body[0] and isinstance(converted.again, bnn.Linear)


def test_modes_dtype_and_training_survive():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval()).double()
    converted = lbnn.from_torch(model)
    assert [layer.training for layer in converted] == [True, False]
    out = converted(torch.randn(4, 2, dtype=torch.float64))
    (out.mean.square() + out.var).sum().backward()
    assert out.mean.dtype == torch.float64
    assert all(parameter.grad is not None for parameter in converted.parameters())


REFUSED = {
    "MaxPool3d": (nn.MaxPool3d(2), "use AvgPool or MaxPool"),
    "MaxPool2d": (nn.MaxPool2d(2, return_indices=True), "return_indices=True is not supported"),
    "LayerNorm": (nn.LayerNorm(3), "use BatchNorm1d or BatchNorm2d instead"),
    "RReLU": (nn.RReLU(), "use LeakyReLU, whose slope is not drawn"),
    "Softmax": (nn.Softmax(0), "softmax over axis 0"),
    "LogSoftmax": (nn.LogSoftmax(0), r"softmax over axis 0 is not supported; use LogSoftmax\(dim=1\)"),
    "Softmax2d": (nn.Softmax2d(), "leave it out"),
    "Softsign": (nn.Softsign(), "give a range: pointwise="),
    "Hardshrink": (nn.Hardshrink(), "use Softshrink"),
    "LSTM": (nn.LSTM(2, 2), "its weights are shared through time; use causal Conv1d"),
    "MultiheadAttention": (nn.MultiheadAttention(2, 1), "use convolutions"),
    "Conv3d": (nn.Conv3d(1, 1, 1), "use layers of one or two axes"),
    "LazyLinear": (nn.LazyLinear(2), "call the network once"),
    "Embedding": (nn.Embedding(3, 2), r"give one input for each category \(one-hot\) to a Linear"),
    "ReflectionPad2d": (nn.ReflectionPad2d(1), "use ZeroPad1d or ZeroPad2d"),
    "AlphaDropout": (nn.AlphaDropout(), "use Dropout, or leave it out"),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d(2), "output_size must be 1"),
    "Conv2d": (nn.Conv2d(1, 1, 3, padding_mode="reflect"), "use 'zeros'"),
    "Flatten": (nn.Flatten(0), r"only Flatten\(1, -1\)"),
    "AvgPool2d": (nn.AvgPool2d(2, divisor_override=3), "divisor_override is not supported"),
    "BatchNorm1d": (nn.BatchNorm1d(2, track_running_stats=False), "without running statistics"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_counterpart_is_refused_with_its_path_and_an_alternative(name):
    layer, advice = REFUSED[name]
    with pytest.raises(LbnnError, match=rf"module '1.0'.*torch.nn.{name}.*{advice}"):
        lbnn.from_torch(nn.Sequential(nn.Linear(2, 2), nn.Sequential(layer)))


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan")])
def test_sigma_must_be_positive(sigma):
    with pytest.raises(LbnnError, match="sigma must be a positive number"):
        lbnn.from_torch(nn.Linear(1, 1), sigma=sigma)


@pytest.mark.parametrize("correlated", [False, True])
def test_pools_take_the_rule_that_is_asked_for(correlated):
    net, _ = NETWORKS["cnn"]
    pools = [layer for layer in lbnn.from_torch(net, correlated=correlated) if hasattr(layer, "correlated")]
    assert [pool.correlated for pool in pools] == [correlated] * 2


def test_a_softmax_at_the_end_becomes_a_head_with_the_same_probabilities(tmp_path):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4), nn.Softmax(dim=-1))
    x = torch.randn(6, 3)
    converted = lbnn.from_torch(plain, sigma=1e-5)
    with torch.no_grad():
        assert torch.allclose(converted(x).probability, plain(x), atol=1e-5)
    lbnn.save(converted, tmp_path / "model.pt", input_shape=(3,))
    assert lbnn.read_model(tmp_path / "model.pt").graph.head == "softmax"


def test_a_log_softmax_becomes_the_same_head():
    torch.manual_seed(0)
    plain, x = nn.Sequential(nn.Linear(3, 4), nn.LogSoftmax(1)), torch.randn(6, 3)
    with torch.no_grad():
        assert torch.allclose(lbnn.from_torch(plain, sigma=1e-5)(x).probability.log(), plain(x), atol=1e-4)


@pytest.mark.parametrize("wrap", [nn.Sequential, lambda *layers: nn.Sequential(nn.Sequential(*layers), nn.Dropout())])
def test_a_sigmoid_at_the_end_is_told_of_the_head(wrap):
    with pytest.warns(UserWarning, match=r"ends in Sigmoid .* lbnn.nn.SigmoidHead\(\)") as told:
        lbnn.from_torch(wrap(nn.Linear(3, 1), nn.Sigmoid()))
    assert len(told) == 1 and "\n" not in str(told[0].message)


def test_a_sigmoid_elsewhere_is_an_activation(recwarn):
    lbnn.from_torch(nn.Sequential(nn.Linear(3, 2), nn.Sigmoid(), nn.Linear(2, 1)))
    lbnn.from_torch(nn.Sigmoid())
    assert not recwarn.list


def test_every_layer_that_has_a_name_of_torchs_is_converted_from_it():
    shared = [name for name in bnn.__all__ if isinstance(getattr(nn, name, None), type) and name != "Sequential"]
    assert len(shared) > 10 and [name for name in shared if getattr(nn, name) not in COUNTERPARTS] == []
