"""The hand-written model of support/tiny_net.py, samples for it, and what this host computes for them."""

import numpy as np
import pytest

from lbnn.device.devices import run_model
from lbnn.device.generated import GeneratedModel
from lbnn.device.results import DeviceResult
from tiny_net import write_net


@pytest.fixture(scope="session")
def net(tmp_path_factory: pytest.TempPathFactory) -> GeneratedModel:
    return write_net(tmp_path_factory.mktemp("net"))


@pytest.fixture(scope="session")
def samples() -> np.ndarray:
    random = np.random.default_rng(1)
    return (random.normal(size=(300, 3)) * 10.0 ** random.integers(-20, 18, (300, 1))).astype(np.float32)


@pytest.fixture(scope="session")
def host(net: GeneratedModel, samples: np.ndarray) -> DeviceResult:
    return run_model("c", net, samples)
