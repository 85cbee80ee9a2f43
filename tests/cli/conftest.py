"""The model that the commands are tried on."""

import pytest

from saved import save_small


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return save_small(tmp_path_factory.mktemp("model"), "gas_sensor.pt", outputs=1)
