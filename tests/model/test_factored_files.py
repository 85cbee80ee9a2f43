"""Structured variances in files: the factors are stored, come back, and are refused where they do not fit."""

import io

import numpy as np
import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.model.file import read_model, serialise
from lbnn.model.schema import FACTORED_VERSION, FIRST_VERSION


def network(variance):
    torch.manual_seed(0)
    model = bnn.Sequential(
        bnn.Conv1d(4, 6, 3, groups=2, variance=variance),
        bnn.ReLU(),
        bnn.Flatten(),
        bnn.Linear(18, 2, variance=variance),
    )
    for name, parameter in model.named_parameters():
        if name.endswith("_rho"):
            parameter.data += torch.randn_like(parameter)
    return model


def contents(data):
    return torch.load(io.BytesIO(data), weights_only=True)


@pytest.mark.parametrize(("variance", "rhos"), [("rank1", 6 + 6 + 2 + 18), ("row", 6 + 2)])
def test_the_factors_are_what_is_stored_and_come_back(variance, rhos, tmp_path):
    model, x = network(variance), torch.randn(3, 4, 5)
    path = lbnn.save(model, tmp_path / "net.pt", input_shape=(4, 5))
    stored = contents(path.read_bytes())
    sizes = [tensor.numel() for name, tensor in stored["tensors"].items() if "weight" in name and "rho" in name]
    assert sum(sizes) == rhos and stored["version"] == FACTORED_VERSION
    loaded = lbnn.load(path)
    assert [layer.variance for layer in loaded.layers if isinstance(layer, bnn.BayesianLayer)] == [variance] * 2
    for ours, theirs in zip(model(x), loaded(x), strict=True):
        assert torch.equal(ours, theirs)
    assert serialise(loaded) == path.read_bytes()


def test_a_network_without_factors_has_the_file_that_it_had_before():
    assert contents(serialise(network("full"), (4, 5)))["version"] == FIRST_VERSION


@pytest.mark.parametrize("variance", ["rank1", "row"])
def test_the_graph_holds_the_factors_of_the_variances(variance):
    model = network(variance)
    for node in read_model(model, (4, 5)).graph.nodes:
        if "weight" in node.params:
            weight, layer = node.params["weight"], model[int(node.name)]
            assert isinstance(weight, Factored) and weight.groups == layer.groups
            np.testing.assert_allclose(weight.var, layer.weight_var.detach().numpy(), rtol=1e-6)


def changed(**fields):
    """The file of a rank-1 network with other tensors, or other parameters or attributes of its first node."""
    data = contents(serialise(network("rank1"), (4, 5)))
    data["version"] = fields.get("version", data["version"])
    data["tensors"] |= fields.get("tensors", {})
    data["graph"]["nodes"][0]["params"] |= fields.get("params", {})
    data["graph"]["nodes"][0]["attrs"] |= fields.get("attrs", {})
    buffer = io.BytesIO()
    torch.save(data, buffer)
    return buffer.getvalue()


FACTORS = {"mu": "0.bias_mu", "row_rho": "0.bias_rho"}
WRONG = {
    "an older version": (dict(version=2), "must name its tensors mu and rho"),
    "a bias with factors": (dict(params={"bias": FACTORS}), "parameter 'bias' must name its tensors mu and rho"),
    "both forms": (
        dict(params={"weight": {"mu": "0.weight_mu", "rho": "0.weight_mu", "row_rho": "0.bias_mu"}}),
        "must name",
    ),
    "a column alone": (dict(params={"weight": {"mu": "0.weight_mu", "column_rho": "0.bias_mu"}}), "must name"),
    "a short row": (dict(tensors={"0.weight_row_rho": torch.zeros(5)}), "do not fit its mu"),
    "a column that would broadcast": (dict(tensors={"0.weight_column_rho": torch.zeros(1, 3)}), "do not fit its mu"),
    "a row of a vector": (dict(params={"weight": FACTORS}), "do not fit its mu"),
    "no groups": (dict(attrs={"groups": 0}), "can't be divided into 0 groups"),
    "too many groups": (dict(attrs={"groups": 1_000_000_000}), "can't be divided into 1000000000 groups"),
    "groups that do not divide": (dict(attrs={"groups": 4}), "node '0'"),
    "a factor beyond all numbers": (dict(tensors={"0.weight_row_rho": torch.full((6,), 1e30)}), "NaN or an infinity"),
}


@pytest.mark.parametrize("name", WRONG)
def test_factors_that_do_not_fit_are_refused_in_one_line(name, tmp_path):
    fields, says = WRONG[name]
    (tmp_path / "net.pt").write_bytes(changed(**fields))
    for read in (lbnn.load, read_model):
        with pytest.raises(LbnnError, match=says) as error:
            read(tmp_path / "net.pt")
        assert "\n" not in str(error.value)
