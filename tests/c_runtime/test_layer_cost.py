"""Instructions an output takes on a Cortex-M4F: the layers whose costs have no file of their own."""

from math import prod

import numpy as np
import pytest
import torch
from torch import nn

from c_models import generated
from class_table import HEADS, instructions_of
from lbnn import nn as bnn
from lbnn.device.devices import run_model
from lbnn.model.file import read_model
from places import need

FLAGS = ("-O2", "-std=gnu99", "-fno-math-errno")
NARROW, WIDE = 0.5, 5.0
"""Standard deviations of inputs beside means from -2 to 2."""


class Product(nn.Module):
    """|x| (2 x + 1)."""

    def __init__(self):
        super().__init__()
        self.one, self.other = bnn.Abs(), bnn.Affine(2.0, 1.0)
        self.product = bnn.Multiply()

    def forward(self, x):
        return self.product(self.one(x), self.other(x))


UNITS, PLANE, NINES, ROW = (64,), (2, 8, 8), (2, 9, 9), (2, 64)
LAYERS = {
    "sigmoid": (bnn.Sigmoid, UNITS, NARROW, "lbnn_smooth", 725),
    "sigmoid, wide": (bnn.Sigmoid, UNITS, WIDE, "lbnn_smooth", 1095),
    "tanh": (bnn.Tanh, UNITS, NARROW, "lbnn_smooth", 900),
    "tanh, wide": (bnn.Tanh, UNITS, WIDE, "lbnn_smooth", 1095),
    "SiLU": (bnn.SiLU, UNITS, NARROW, "lbnn_smooth", 750),
    "SiLU, wide": (bnn.SiLU, UNITS, WIDE, "lbnn_smooth", 1095),
    "GELU": (bnn.GELU, UNITS, NARROW, "lbnn_smooth", 1005),
    "GELU by tanh": (lambda: bnn.GELU("tanh"), UNITS, NARROW, "lbnn_smooth", 885),
    "softplus": (bnn.Softplus, UNITS, NARROW, "lbnn_smooth", 875),
    "CELU": (lambda: bnn.CELU(2.0), UNITS, NARROW, "lbnn_elu", 208),
    "SELU": (bnn.SELU, UNITS, NARROW, "lbnn_elu", 205),
    "Hardsigmoid": (bnn.Hardsigmoid, UNITS, NARROW, "lbnn_piecewise", 225),
    "Clamp": (lambda: bnn.Clamp(-1.0, 1.0), UNITS, NARROW, "lbnn_piecewise", 212),
    "Abs": (bnn.Abs, UNITS, NARROW, "lbnn_abs", 61),
    "Pointwise, sigma in a cell": (lambda: bnn.Pointwise(torch.sin), UNITS, 0.05, "lbnn_tabulated", 930),
    "Pointwise": (lambda: bnn.Pointwise(torch.sin), UNITS, NARROW, "lbnn_tabulated", 2800),
    "Pointwise, wide": (lambda: bnn.Pointwise(torch.sin), UNITS, WIDE, "lbnn_tabulated", 6400),
    "max pool of pairs": (lambda: bnn.MaxPool1d(2), ROW, NARROW, "lbnn_max_pool", 86),
    "max pool 2x2": (lambda: bnn.MaxPool2d(2), PLANE, NARROW, "lbnn_max_pool", 238),
    "max pool 3x3": (lambda: bnn.MaxPool2d(3), NINES, NARROW, "lbnn_max_pool", 930),
    "correlated pool 2x2": (lambda: bnn.AvgPool2d(2, correlated=True), PLANE, NARROW, ("lbnn_pool", "lbnn_avg"), 130),
    "upsample": (lambda: bnn.UpsampleNearest(2), PLANE, NARROW, "lbnn_upsample", 6.8),
    "product": (Product, UNITS, NARROW, "lbnn_multiply", 19),
    "dropout": (lambda: bnn.Dropout(0.1), UNITS, NARROW, "lbnn_dropout", 8.3),
}


MOST_NEAR, MOST_FAR = 60, 25
NEAR = dict.fromkeys((0.0, 0.01, 0.1), (-4.5, -2.0, -0.5, 0.0, 0.5, 2.0, 4.5))
FAR = {0.0: (5.1, 8.0, 13.0, -12.1, -20.0), **dict.fromkeys((0.01, 0.1), (5.1, 8.0, 13.0, -6.1, -8.0, -13.0))}
"""Means beside a sigma of 1, by slope: a unit below zero whose slope is 0 is all tail, and far beyond 12 alone."""


@pytest.mark.parametrize("slope", NEAR)
@pytest.mark.parametrize(("means", "most"), [(NEAR, MOST_NEAR), (FAR, MOST_FAR)], ids=["near", "far"])
def test_a_unit_takes_so_many_near_the_kink_and_few_far_from_it(tmp_path, slope, means, most):
    need("arm-none-eabi-gcc")
    mean = np.resize(np.array(means[slope], np.float32), (1, 256))
    net = generated(read_model(bnn.LeakyReLU(slope), mean.shape[1:]), tmp_path / "c", input_variance=True)
    result = run_model("cortex-m4-gcc", net, mean, np.ones_like(mean), flags=FLAGS, profile=True)
    taken = sum(number for function, number in result.functions.items() if function.startswith("lbnn_leaky_relu"))
    assert 10 < taken / mean.size <= most


@pytest.mark.parametrize("name", LAYERS)
def test_an_output_takes_at_most_so_many_instructions(tmp_path, name):
    need("arm-none-eabi-gcc")
    make, shape, sigma, kernels, most = LAYERS[name]
    net = generated(read_model(make(), shape), tmp_path / "c", input_variance=True)
    mean, var = np.linspace(-2.0, 2.0, prod(shape)), np.full(prod(shape), sigma**2)
    given = [part.astype(np.float32)[None] for part in (mean, var)]
    result = run_model("cortex-m4-gcc", net, *given, flags=FLAGS, profile=True)
    taken = sum(number for function, number in result.functions.items() if function.startswith(kernels))
    assert not result.status.any()
    assert 0.9 * most <= taken / result.mean.size <= most


@pytest.mark.parametrize(("head", "most"), [('`SoftmaxHead("fast")`', 1_990), ("`SigmoidHead()`", 4_940)])
def test_a_small_head_of_ten_logits_takes_at_most_so_many(head, most):
    need("arm-none-eabi-gcc")
    assert 0.9 * most <= instructions_of(*HEADS[head], "gnu99") <= most
