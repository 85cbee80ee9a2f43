"""A number has one meaning: inspect, verify, bench and footprint.json state the same bytes and multiplications."""

import json

import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.cli.main import main
from lbnn.measure.counting import reference_layer_costs
from lbnn.measure.verify import VERIFIED_COSTS
from lbnn.model.file import read_model
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


def classifier():
    return bnn.Sequential(bnn.Linear(4, 6), bnn.ReLU(), bnn.Linear(6, 3), bnn.SoftmaxHead()), (4,)


@pytest.mark.parametrize("make", [cnn, classifier])
def test_counts_agree_or_say_beside_them_why_they_differ(make, printed, tmp_path):
    """bench and report count one thing; verify takes other samples and flags, inspect knows bounds."""
    need("arm-none-eabi-gcc")
    torch.manual_seed(0)
    network, shape = make()
    path = lbnn.save(network, tmp_path / "model.pt", input_shape=shape)
    bench = json.loads(printed("bench", path, "--backends", DEVICE, "--json"))
    (counted,) = bench["backends"]
    layers = reference_layer_costs(read_model(path))
    assert sum(layer.instructions for layer in layers) == pytest.approx(counted["instructions"], abs=len(layers))
    assert [layer["instructions"] for layer in bench["layers"]] == [layer.instructions for layer in layers]
    stated = json.loads(printed("inspect", path, "--json"))
    assert counted["code_bytes"] + counted["weight_bytes"] <= stated["weight_bytes"] + stated["code_bytes"]
    assert VERIFIED_COSTS in printed("verify", path, "--backends", DEVICE, "--samples", 7)
    assert "-std=c99" in VERIFIED_COSTS and "lbnn bench" in VERIFIED_COSTS


def test_costs_are_not_explained_where_there_are_none(printed, tmp_path):
    path = lbnn.save(mlp()[0], tmp_path / "model.pt", input_shape=(5,))
    assert VERIFIED_COSTS not in printed("verify", path, "--backends", "torch", "--samples", 7)
