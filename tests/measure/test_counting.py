"""Instructions and bytes are those of the network that they are stated for."""

import numpy as np
import pytest

from c_models import generated
from lbnn.device.devices import run_model
from lbnn.measure.counting import DEVICE_FLAGS, PLAIN_FLAG
from lbnn.measure.subject import ordinary_inputs
from lbnn.model.file import read_model
from places import need
from saved import save_small


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return save_small(tmp_path_factory.mktemp("model"))


def test_the_plain_network_is_that_of_the_means(small, tmp_path):
    """And takes fewer instructions than the moments, on the host and on a core."""
    need("arm-none-eabi-gcc")
    model = read_model(small)
    net = generated(model, tmp_path / "c", name="model")
    x = ordinary_inputs(model)[:4]
    weights = [(node.params["weight"].mean, node.params["bias"].mean) for node in model.graph.nodes if node.params]
    (w1, b1), (w2, b2) = weights
    hidden = x @ w1.T + b1
    want = np.where(hidden < 0, 0.1 * hidden, hidden) @ w2.T + b2
    for device in ("c", "cortex-m4-gcc"):
        result = run_model(device, net, x, flags=[*DEVICE_FLAGS, PLAIN_FLAG])
        np.testing.assert_allclose(result.mean, want, rtol=1e-5, atol=1e-6)
