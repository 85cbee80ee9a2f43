"""What a match of a max pool in integers costs: instructions of the pool's own functions for each pair that meets."""

import numpy as np
import pytest
import torch

from c_models import generated
from lbnn import nn as bnn
from lbnn.device.devices import run_model
from lbnn.model.file import read_model
from places import need

FLAGS = ("-O2", "-std=gnu99", "-fno-math-errno")
CHANNELS, WINDOWS, MATCHES = 8, 64, 3


@pytest.mark.parametrize(("device", "most"), [("cortex-m0-gcc", 355), ("cortex-m3-gcc", 220), ("cortex-m4-gcc", 220)])
def test_a_match_takes_no_more_instructions_than(tmp_path, device, most):
    need("arm-none-eabi-gcc")
    torch.manual_seed(0)
    layers = bnn.Conv2d(1, CHANNELS, 3, padding=1), bnn.LeakyReLU(0.1), bnn.MaxPool2d(2)
    net = generated(read_model(bnn.Sequential(*layers), (1, 16, 16)), tmp_path, name="net", dtype="int8")
    x = np.random.default_rng(0).normal(size=(2, 256)).astype(np.float32)
    result = run_model(device, net, x, flags=FLAGS, profile=True)
    own = sum(count for name, count in result.functions.items() if "max_pool" in name or "match" in name)
    each = own / (len(x) * WINDOWS * CHANNELS * MATCHES)
    assert not result.status.any() and 0.9 * most <= each <= most
