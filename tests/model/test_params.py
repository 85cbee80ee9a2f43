"""Parameters as the graph holds them."""

import numpy as np
import torch

from lbnn import nn as bnn
from lbnn.model.trace import trace


def test_parameters_are_the_float32_moments_computed_in_float64():
    model = bnn.Linear(2, 1).double()
    with torch.no_grad():
        model.weight_mu.copy_(torch.tensor([[0.1, 1 / 3]]))
        model.weight_rho.copy_(torch.tensor([[-20.0, 3.0]]))
    weight = trace(model, (2,)).nodes[0].params["weight"]
    expected = np.log1p(np.exp([[-20.0, 3.0]])) ** 2
    assert weight.mean.dtype == weight.var.dtype == np.float64
    np.testing.assert_array_equal(weight.mean, np.float32([[0.1, 1 / 3]]))
    np.testing.assert_array_equal(weight.var, expected.astype(np.float32))
