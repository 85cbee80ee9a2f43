"""What an export of a model will hold, and which parts it fits."""

import json

import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.cli.main import main


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """60 KB of weights."""
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(16, 256), bnn.ReLU(), bnn.Linear(256, 12))
    return lbnn.save(model, tmp_path_factory.mktemp("wide") / "wide.pt", input_shape=(16,))


def test_inspect_says_which_parts_a_model_fits(wide, capsys):
    found = {part["name"]: part for part in json.loads(inspect(capsys, wide, "--json"))["parts"]}
    assert not found["STM32F030R8"]["fits"] and found["STM32F030R8"]["flash_left"] < 0
    assert not found["ATmega2560"]["fits"] and found["ATmega2560"]["ram_left"] < 0
    assert found["STM32F407VG"]["fits"] and found["RP2040"]["fits"]
    lines = inspect(capsys, wide).splitlines()
    (line,) = (line for line in lines if line.startswith("STM32F030R8"))
    assert "too small" in line and "KB short" in line
    (line,) = (line for line in lines if line.startswith("nRF52840"))
    assert " ok " in line and "%" in line
    assert any("for the rest of the firmware" in line for line in lines)


def inspect(capsys, *words):
    with pytest.raises(SystemExit) as left:
        main(["inspect", *map(str, words)])
    assert left.value.code == 0
    return capsys.readouterr().out
