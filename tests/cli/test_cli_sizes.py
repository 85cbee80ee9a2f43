"""A number has one meaning: inspect, verify, bench and footprint.json state the same bytes and multiplications."""

import json

import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.cli.main import main
from places import need

DEVICE = "cortex-m4-gcc"
COMPARED = ("weight_bytes", "work_bytes", "macs")


def mlp():
    return bnn.Sequential(bnn.Linear(5, 7), bnn.LeakyReLU(0.1), bnn.Linear(7, 3)), (5,)


def cnn():
    """Padding in the packed weights and geometry beside them: what 8 bytes a Gaussian would not count."""
    layers = (bnn.Conv2d(1, 6, 3, padding=1), bnn.LeakyReLU(0.1), bnn.AvgPool2d(2), bnn.Flatten(), bnn.Linear(54, 3))
    return bnn.Sequential(*layers), (1, 6, 6)


def standardized():
    """Known numbers beside Gaussians."""
    affine = bnn.Affine([2.0, 3.0], [1.0, 0.0])
    return bnn.Sequential(bnn.Standardize([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), bnn.Linear(3, 2), bnn.ReLU(), affine), (3,)


def certain():
    """No Gaussian weights: the variance of the output is zero, and written."""
    return bnn.Sequential(bnn.Affine([2.0, 3.0], [1.0, 0.0]), bnn.ReLU()), (2,)


@pytest.fixture
def printed(capsys):
    def run(*words):
        with pytest.raises(SystemExit) as left:
            main([*map(str, words)])
        out = capsys.readouterr().out
        assert left.value.code == 0, out
        return out

    return run


@pytest.mark.parametrize("variance", [[], ["--input-variance"]], ids=["known input", "input variance"])
@pytest.mark.parametrize("make", [mlp, cnn, standardized, certain])
def test_every_command_states_the_sizes_of_the_exported_code(make, variance, printed, tmp_path):
    need("arm-none-eabi-gcc")
    torch.manual_seed(0)
    network, shape = make()
    model = lbnn.save(network, tmp_path / "model.pt", input_shape=shape)
    inspected = json.loads(printed("inspect", model, "--json", *variance))
    printed("export", model, "--target", "c", "-o", tmp_path / "c", *variance)
    stated = json.loads((tmp_path / "c" / "model_footprint.json").read_text())
    assert {key: inspected[key] for key in COMPARED} == {key: stated[key] for key in COMPARED}
    assert sum(layer["macs"] for layer in inspected["layers"]) == stated["macs"]

    words = (model, "--backends", DEVICE, "--json")
    (verified,) = json.loads(printed("verify", *words, "--samples", 7, *variance))["backends"]
    measured = [verified["cost"]]
    if not variance:  # bench measures the variant whose input is known
        measured += json.loads(printed("bench", *words))["backends"]
    for cost in measured:
        assert {key: cost[key] for key in COMPARED if key in cost} == {k: stated[k] for k in COMPARED if k in cost}
        assert 0 < cost["code_bytes"] <= stated["code_bytes"] and cost["stack_bytes"] <= stated["stack_bytes"]
