"""callgrind counts a prediction on this host."""

import numpy as np
import pytest

from lbnn.base.files import write_folder
from lbnn.device import callgrind
from lbnn.device.devices import DEVICES
from lbnn.exporters.c import COptions, generate
from lbnn.measure.host_times import HOST_FLAGS
from lbnn.model.file import read_model
from places import need
from saved import save_small


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return save_small(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("flags", [("-O2",), HOST_FLAGS], ids=" ".join)
def test_callgrind_counts_predict_and_not_the_start_of_the_program(flags, small, tmp_path):
    need("valgrind")
    folder = write_folder(tmp_path / "c", generate(read_model(small), COptions(name="model")))
    inputs = np.ones((4, 3), np.float32)
    one, four = (callgrind.count(DEVICES["c"].toolchain, folder, "model", inputs[:n], flags) for n in (1, 4))
    assert one == four
    assert 100 < one < 5000
