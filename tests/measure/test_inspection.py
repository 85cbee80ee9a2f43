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


def test_every_form_has_a_row_with_its_bytes_and_the_parts_it_fits(wide, capsys):
    forms = json.loads(inspect(capsys, wide, "--json"))["forms"]
    assert list(forms) == ["float32", "half", "int8", "int16"]
    weights = {name: form["weight_bytes"] for name, form in forms.items()}
    assert weights["int8"] < weights["int16"] < weights["float32"] and weights["half"] < weights["float32"]
    assert "STM32F030R8" in forms["int8"]["fits"] and "STM32F030R8" not in forms["float32"]["fits"]
    lines = inspect(capsys, wide).splitlines()
    for name in forms:
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert f"{weights[name]:,}" in line and f"{len(forms[name]['fits'])} of 8" in line


def test_a_form_that_a_model_can_not_have_says_why(tmp_path, capsys):
    torch.manual_seed(0)
    odd = bnn.Sequential(bnn.Linear(3, 4), bnn.ELU(), bnn.Linear(4, 1))
    path = lbnn.save(odd, tmp_path / "odd.pt", input_shape=(3,))
    forms = json.loads(inspect(capsys, path, "--json"))["forms"]
    assert "op 'elu' has no integer kernel" in forms["int8"] and forms["half"]["weight_bytes"] > 0
    assert "op 'elu' has no integer kernel" in inspect(capsys, path)


def inspect(capsys, *words):
    with pytest.raises(SystemExit) as left:
        main(["inspect", *map(str, words)])
    assert left.value.code == 0
    return capsys.readouterr().out
