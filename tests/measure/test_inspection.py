"""What an export of a model will hold, and which parts it fits."""

import json

import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.cli.main import main
from lbnn.graph.plan import Needs, plan
from lbnn.measure import parts
from plans import stack


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """60 KB of weights."""
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(16, 256), bnn.ReLU(), bnn.Linear(256, 12))
    return lbnn.save(model, tmp_path_factory.mktemp("wide") / "wide.pt", input_shape=(16,))


def test_inspect_says_which_parts_a_model_fits(wide, capsys):
    found = {part["name"]: part for part in json.loads(inspect(capsys, wide, "--json"))["parts"]}
    assert not found["STM32F030R8"]["fits"] and found["STM32F030R8"]["flash_left"] < 0
    assert not found["Arduino Uno"]["fits"] and found["Arduino Uno"]["flash_left"] < 0
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
        assert f"{weights[name]:,}" in line and f"{len(forms[name]['fits'])} of 18" in line


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


@pytest.fixture(scope="module")
def residual(tmp_path_factory):
    """A map of 4x6x6 that is read again behind two convolutions."""

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner = bnn.Conv2d(1, 4, 3, padding=1), bnn.Conv2d(4, 2, 3, padding=1)
            self.last = bnn.Conv2d(2, 4, 1)

        def forward(self, x):
            x = self.first(x)
            return x + self.last(self.inner(x))

    torch.manual_seed(0)
    return lbnn.save(Residual(), tmp_path_factory.mktemp("residual") / "residual.pt", input_shape=(1, 6, 6))


def test_inspect_shows_the_peak_and_the_values_that_make_it(residual, capsys):
    report = json.loads(inspect(capsys, residual, "--json"))
    peak, beside = report["peak"], report["work_bytes_lower_bound"] - (2 * 4 + 2 * 2) * 36 * 4
    assert peak == {"layer": "inner", "bytes": {"first": 1152, "inner": 576, "[inner]": beside}} and beside > 0
    (line,) = (line for line in inspect(capsys, residual).splitlines() if line.startswith("peak:"))
    assert line == f"peak:  layer inner, with 1152 B of first, 576 B of inner, {beside} B beside inner"


def test_the_callers_arrays_count_on_parts(wide, residual, capsys):
    """16 numbers in, 12 means and variances out; an image of 36 numbers, and 144 of each behind it."""
    for path, floats in ((wide, 16 + 2 * 12), (residual, 36 + 2 * 144)):
        report = json.loads(inspect(capsys, path, "--json"))
        assert report["io_bytes"] == 4 * floats
        part = next(part for part in report["parts"] if part["name"] == "STM32F407VG")
        used = report["work_bytes"] + report["stack_bytes"] + report["io_bytes"] + parts.RESERVE_RAM
        assert part["ram_left"] == part["ram"] - used
    varied = json.loads(inspect(capsys, wide, "--json", "--input-variance"))
    assert varied["io_bytes"] == 4 * (2 * 16 + 2 * 12)


def test_values_that_overwrite_each_other_count_once_in_the_peak():
    found = plan(stack(5, shape=(2, 4, 4)), needs=Needs(ahead={"point": 3 * 16}))
    step, floats = found.peak
    assert step == 1 and floats == {"act": 2 * 2 * 16, "point": 2 * 3 * 16} and sum(floats.values()) == found.size
