"""The Gaussian parameters of a layer: how they start, and a bias that is not there."""

import numpy as np
import pytest
import torch

from lbnn import nn as bnn
from lbnn.nn.base import default_sigma, inverse_softplus


def test_initial_sigma_is_as_asked_or_small_enough_for_the_width():
    np.testing.assert_allclose(bnn.Linear(4, 2, sigma=0.3).weight_var.detach(), 0.09, rtol=1e-6)
    np.testing.assert_allclose(bnn.Linear(4, 2).weight_var.detach(), 0.01, rtol=1e-6)
    assert default_sigma(10_000) == pytest.approx(0.01)
    assert torch.nn.functional.softplus(torch.tensor(inverse_softplus(1e-4))).item() == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("Linear", (7, 3)), ("Conv1d", (4, 6, 5)), ("Conv2d", (4, 6, (2, 3), 1, 0, 1, 2))],  # the last in two groups
)
def test_means_start_where_torch_starts_its_own(name, sizes):
    layers = []
    for kind in (getattr(bnn, name), getattr(torch.nn, name)):
        torch.manual_seed(0)
        layers.append(kind(*sizes))
    ours, theirs = layers
    torch.testing.assert_close(ours.weight_mu, theirs.weight)
    torch.testing.assert_close(ours.bias_mu, theirs.bias)


def test_a_layer_without_bias_has_none():
    layer = bnn.Linear(2, 3, bias=False)
    assert layer.bias_mu is None and layer.bias_var is None
    assert layer(torch.zeros(1, 2)).var.abs().max() == 0.0
