"""This host as a device: what the sanitizers stop, and what a missing compiler says."""

from pathlib import Path

import numpy as np
import pytest

from lbnn.device.devices import DEVICES, run_model
from lbnn.device.runs import EmulationFault
from tiny_net import SOURCE, write_net


def test_sanitizers_stop_a_write_out_of_bounds(tmp_path: Path) -> None:
    source = SOURCE.replace("scale(input, work);", "scale(input, work); work[6 + (int)input[1]] = 1.0f;")
    with pytest.raises(EmulationFault, match=r"c-sanitized: the program ended with status \d+: .*(overflow|bounds)"):
        run_model("c-sanitized", write_net(tmp_path, source=source), np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("name", ["c", "c-sanitized"])
def test_without_its_compiler_a_device_says_how_to_get_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not DEVICES[name].available()
    assert "apt install gcc" in DEVICES[name].missing()
