"""The layers: torch's names and arguments, moments in and out, clear errors for what does not fit."""

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.nn.base import default_sigma, inverse_softplus
from strategies import inputs_for, networks


@pytest.mark.parametrize(
    "name", ["Linear", "Conv1d", "Conv2d", "AvgPool1d", "LeakyReLU", "AdaptiveAvgPool2d", "ZeroPad2d"]
)
def test_arguments_are_those_of_torch_in_the_same_order(name):
    theirs = [p for p in inspect.signature(getattr(torch.nn, name).__init__).parameters if p != "inplace"]
    ours = list(inspect.signature(getattr(bnn, name).__init__).parameters)
    assert ours[: len(theirs)] == theirs


def test_a_tensor_and_moments_of_zero_variance_give_the_same():
    model = bnn.Sequential(bnn.Conv2d(1, 3, 3), bnn.LeakyReLU(0.1), bnn.Flatten(), bnn.Linear(12, 2))
    x = torch.randn(5, 1, 4, 4)
    point, random = model(x), model(Moments(x, torch.zeros_like(x)))
    torch.testing.assert_close(point, random)


@settings(max_examples=60, deadline=None)
@given(networks())
def test_with_vanishing_weight_variance_the_mean_is_the_ordinary_networks_output(case):
    """Every layer's mean path is torch's own layer."""
    model, shape = case
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, bnn.BayesianLayer):
                for _, _, rho in module.named_gaussians():
                    rho.fill_(-200.0)
    out = model(inputs_for(shape, 8, 0))
    assert out.var.abs().max() == 0.0
    assert torch.isfinite(out.mean).all()


def test_batch_norm_normalises_the_random_values_themselves():
    layer = bnn.BatchNorm(3)
    x = Moments(torch.randn(4000, 3) * 2 + 1, torch.rand(4000, 3))
    out = layer(x)
    samples = out.mean + out.std * torch.randn(4000, 3)
    torch.testing.assert_close(samples.mean(0), torch.zeros(3), atol=0.08, rtol=0)
    torch.testing.assert_close(samples.var(0), torch.ones(3), atol=0.12, rtol=0)
    torch.testing.assert_close(layer.running_mean, 0.1 * x.mean.mean(0))


def test_batch_norm_learns_statistics_with_which_eval_agrees():
    layer = bnn.BatchNorm(2, momentum=1.0)
    x = Moments(torch.randn(64, 2, 5), torch.rand(64, 2, 5))
    trained = layer(x)
    torch.testing.assert_close(layer.eval()(x), trained, rtol=1e-5, atol=1e-6)


def test_standardize_and_its_inverse_are_the_identity():
    layer = bnn.Standardize(torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5]))
    x = Moments(torch.randn(4, 2), torch.rand(4, 2))
    standard = layer(x)
    torch.testing.assert_close(standard.mean, (x.mean - torch.tensor([1.0, -2.0])) / torch.tensor([3.0, 0.5]))
    torch.testing.assert_close(layer.inverse()(standard), x)


def test_arithmetic_on_moments_is_that_of_independent_variables():
    x, y = Moments(torch.tensor([1.0]), torch.tensor([2.0])), Moments(torch.tensor([5.0]), torch.tensor([3.0]))
    assert (x + y, x - y) == (Moments(6.0, 5.0), Moments(-4.0, 5.0))
    assert (x + 1.0, 1.0 - x, 3 * x, x / 2, -x) == (
        Moments(2.0, 2.0), Moments(0.0, 2.0), Moments(3.0, 18.0), Moments(0.5, 0.5), Moments(-1.0, 2.0)
    )  # fmt: skip


def test_concatenation_takes_known_values_too():
    x = Moments(torch.ones(2, 3), torch.ones(2, 3))
    out = lbnn.cat([x, torch.zeros(2, 1)])
    torch.testing.assert_close(out.mean, torch.tensor([[1.0, 1, 1, 0]] * 2))
    torch.testing.assert_close(out.var, torch.tensor([[1.0, 1, 1, 0]] * 2))


def test_global_average_pooling_divides_the_variance_by_the_number_of_elements():
    x = Moments(torch.full((1, 2, 3, 4), 5.0), torch.full((1, 2, 3, 4), 6.0))
    out = bnn.AdaptiveAvgPool2d(1)(x)
    torch.testing.assert_close(out, Moments(torch.full((1, 2, 1, 1), 5.0), torch.full((1, 2, 1, 1), 0.5)))


def test_initial_sigma_is_as_asked_or_small_enough_for_the_width():
    np.testing.assert_allclose(bnn.Linear(4, 2, sigma=0.3).weight_var.detach(), 0.09, rtol=1e-6)
    np.testing.assert_allclose(bnn.Linear(4, 2).weight_var.detach(), 0.01, rtol=1e-6)
    assert default_sigma(10_000) == pytest.approx(0.01)
    assert torch.nn.functional.softplus(torch.tensor(inverse_softplus(1e-4))).item() == pytest.approx(1e-4)


def test_a_layer_without_bias_has_none():
    layer = bnn.Linear(2, 3, bias=False)
    assert layer.bias_mu is None and layer.bias_var is None
    assert layer(torch.zeros(1, 2)).var.abs().max() == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bnn.Linear(3, 2)(torch.zeros(4, 5)), "does not fit weight"),
        (lambda: bnn.Linear(3, 2)(torch.zeros(3)), "no batch axis"),
        (lambda: bnn.Linear(3, 2)([1.0, 2.0, 3.0]), "expected a tensor or lbnn.Moments, got list"),
        (lambda: bnn.Linear(3, 2)(Moments(torch.zeros(1, 3), torch.zeros(1, 2))), "differ in shape"),
        (lambda: bnn.Linear(3, 2, sigma=-1.0), "sigma must be a positive number"),
        (lambda: bnn.LeakyReLU(2.0), "negative_slope must be from 0 to 1"),
        (lambda: bnn.LeakyReLU(0.1, clamp=0.0), "clamp must be positive"),
        (lambda: bnn.Conv2d(3, 4, 3, padding_mode="reflect"), "padding_mode 'reflect'"),
        (lambda: bnn.Conv2d(3, 4, 2, padding="same"), "padding='same' needs"),
        (lambda: bnn.Conv2d(3, 4, 3, groups=2), "can't be divided into 2 groups"),
        (lambda: bnn.AdaptiveAvgPool2d(2), "output_size must be 1"),
        (lambda: bnn.Standardize([0.0], [0.0]), "std must be positive"),
        (lambda: bnn.Add()(torch.zeros(1, 2), torch.zeros(1, 3)), "differ"),
        (lambda: bnn.Concat(0), "dim must be at least 1"),
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
