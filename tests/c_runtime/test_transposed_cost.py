"""What transposed convolutions cost on a Cortex-M4F: the limits behind the table in docs/layers.md."""

import pytest
import torch

from lbnn import nn as bnn
from places import need
from transposed_cost import measure_layer

LAYERS = {
    "4x4, stride 2": (lambda: bnn.ConvTranspose2d(8, 8, 4, 2, 1), (8, 8, 8), "lbnn_conv_transposed", 8.6),
    "2x2, stride 2": (lambda: bnn.ConvTranspose2d(8, 8, 2, 2), (8, 8, 8), "lbnn_conv_transposed", 8.6),
    "stride 1": (lambda: bnn.ConvTranspose2d(8, 8, 3, 1, 1), (8, 8, 8), "lbnn_conv2d_3x3", 6.1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_pair_of_weight_and_input_takes_at_most_so_many_instructions(name):
    need("arm-none-eabi-gcc")
    torch.manual_seed(0)
    make, shape, kernel, most = LAYERS[name]
    found = measure_layer(make(), shape)
    assert found.kernel == kernel
    assert found.instructions / found.pairs <= most
