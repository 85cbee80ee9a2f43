"""Model files: written and read back they are the same model, and a file of today stays readable."""

import copy
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from lbnn.model.file import serialise
from lbnn.model.network import Network
from lbnn.model.trace import trace
from network_checks import assert_within_bound
from places import TESTS
from strategies import inputs_for, networks

GOLDEN = TESTS / "golden"


def mlp():
    torch.manual_seed(3)
    return bnn.Sequential(bnn.Linear(3, 4), bnn.LeakyReLU(0.01), bnn.Linear(4, 1))


class Shared(nn.Module):
    """One layer used twice."""

    def __init__(self):
        super().__init__()
        self.fc = bnn.Linear(2, 2)
        self.norm = bnn.BatchNorm(2, momentum=0.25)

    def forward(self, x):
        return self.norm(self.fc(self.norm(self.fc(x))))


def same(first, second):
    assert torch.equal(first.mean, second.mean) and torch.equal(first.var, second.var)


def test_a_file_holds_plain_data_and_float32_tensors(tmp_path):
    lbnn.save(mlp(), tmp_path / "net.pt", input_shape=(3,), name="gas", metadata={"units": ("V", 1.5)})
    contents = torch.load(tmp_path / "net.pt", weights_only=True)
    tensors = contents.pop("tensors")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        **{"0.weight_mu": (4, 3), "0.weight_rho": (4, 3), "0.bias_mu": (4,), "0.bias_rho": (4,)},
        **{"2.weight_mu": (1, 4), "2.weight_rho": (1, 4), "2.bias_mu": (1,), "2.bias_rho": (1,)},
    }
    assert contents["graph"]["nodes"].pop(0) == {
        "name": "0",
        "op": "linear",
        "inputs": ["input"],
        "attrs": {},
        "params": {
            "weight": {"mu": "0.weight_mu", "rho": "0.weight_rho"},
            "bias": {"mu": "0.bias_mu", "rho": "0.bias_rho"},
        },
        "training": {},
    }
    assert [node["op"] for node in contents["graph"].pop("nodes")] == ["leaky_relu", "linear"]
    assert contents == {
        "format": "lbnn",
        "version": 1,
        "lbnn_version": lbnn.__version__,
        "name": "gas",
        "input_shape": [3],
        "graph": {"output": "2"},
        "metadata": {"units": ["V", 1.5]},
    }


def agree(graph, signal, *answers):
    """Each is as near to float64 as float32 can be."""
    given_mean, given_var = signal if isinstance(signal, Moments) else (signal, None)
    for mean, var in answers:
        got = Moments(mean.detach().numpy(), var.detach().numpy())
        assert_within_bound(graph, got, given_mean.numpy(), None if given_var is None else given_var.numpy())


@settings(max_examples=25, deadline=None)
@given(networks())
def test_a_loaded_network_computes_the_same_and_saves_the_same_bytes(drawn):
    model, shape = drawn
    data = serialise(model, shape)
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        Path(file.name).write_bytes(data)
        loaded = lbnn.load(file.name)
    x = inputs_for(shape, 4, 1)
    for signal in (x, Moments(x, x * x)):
        if "{0} / {1}" in repr(model):  # a quotient of known numbers is rounded otherwise than the product in the file
            agree(lbnn.read_model(loaded, shape).graph, signal, model(signal), loaded(signal))
        else:
            same(model(signal), loaded(signal))
    assert serialise(loaded) == data


def test_the_module_its_file_and_the_loaded_model_have_one_hash(tmp_path):
    model = mlp()
    path = lbnn.save(model, tmp_path / "gas_sensor.pt", input_shape=(3,))
    read = lbnn.read_model(path)
    assert read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert lbnn.read_model(model, input_shape=(3,)).sha256 == read.sha256
    assert lbnn.read_model(lbnn.load(path)).sha256 == read.sha256
    assert lbnn.save(model, tmp_path / "other.pt", input_shape=(3,)).read_bytes() == path.read_bytes()


def test_the_bytes_are_the_same_in_another_process(tmp_path):
    golden = str(GOLDEN / "model_v1.pt")
    script = "import lbnn, sys; lbnn.save(lbnn.load(sys.argv[1]), sys.argv[2])"
    subprocess.run([sys.executable, "-c", script, golden, str(tmp_path / "a.pt")], check=True)
    assert (tmp_path / "a.pt").read_bytes() == lbnn.save(lbnn.load(golden), tmp_path / "b.pt").read_bytes()


def test_reading_for_export_gives_the_traced_graph(tmp_path):
    model = Shared().eval()
    path = lbnn.save(model, tmp_path / "net.pt", input_shape=(2,))
    graph, traced = lbnn.read_model(path).graph, trace(model, (2,), name="net")
    assert str(graph) == str(traced)
    for mine, theirs in zip(graph.nodes, traced.nodes, strict=True):
        for key, value in theirs.params.items():
            np.testing.assert_array_equal(mine.params[key], value)


def test_a_name_comes_from_the_caller_or_the_file(tmp_path):
    assert lbnn.read_model(lbnn.save(mlp(), tmp_path / "a.pt", input_shape=(3,))).name == "a"
    path = lbnn.save(mlp(), tmp_path / "a.pt", input_shape=(3,), name="b", metadata={"k": 1})
    read, loaded = lbnn.read_model(path), lbnn.load(path)
    assert (read.name, read.graph.name, read.metadata) == ("b", "b", {"k": 1})
    assert (loaded.model_name, loaded.input_shape, loaded.metadata) == ("b", (3,), {"k": 1})
    assert lbnn.read_model(mlp(), input_shape=(3,)).name == "model"


def test_a_loaded_network_predicts_as_the_saved_one_without_being_told_to(tmp_path):
    """Batch statistics would make a row depend on its neighbours, and change what is stored."""
    model = bnn.Sequential(bnn.Linear(2, 3), bnn.BatchNorm(3), bnn.ReLU(), bnn.Dropout(0.5), bnn.Linear(3, 1))
    model(torch.randn(50, 2))
    path = lbnn.save(model, tmp_path / "net.pt", input_shape=(2,))
    loaded, x = lbnn.load(path), torch.randn(8, 2)
    same(model.eval()(x), loaded(x))
    assert lbnn.save(loaded, tmp_path / "again.pt").read_bytes() == path.read_bytes()
    assert not any(part.training for part in loaded.modules())


def test_a_loaded_model_trains_on(tmp_path):
    loaded = lbnn.load(lbnn.save(mlp(), tmp_path / "net.pt", input_shape=(3,)))
    x, y = torch.randn(64, 3), torch.randn(64, 1)
    optimizer = torch.optim.Adam(loaded.parameters(), 0.05)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.gaussian_nll_loss(loaded(x).mean, y, loaded(x).var)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    assert all(parameter.grad is not None for parameter in loaded.parameters())


def test_loading_leaves_the_random_numbers_alone(tmp_path):
    path = lbnn.save(mlp(), tmp_path / "net.pt", input_shape=(3,))
    before = torch.get_rng_state()
    lbnn.load(path)
    assert torch.equal(before, torch.get_rng_state())


def test_a_shared_layer_stays_shared(tmp_path):
    model = Shared()
    loaded = lbnn.load(lbnn.save(model, tmp_path / "net.pt", input_shape=(2,)))
    assert len(list(loaded.parameters())) == len(list(model.parameters())) == 6
    assert loaded["fc"] is loaded["fc_2"] and loaded["norm"].momentum == 0.25
    x = torch.randn(8, 2)
    for network in (model, loaded):
        network.train()(x)
        network.eval()
    same(model(x), loaded(x))


def test_tied_weights_of_two_layers_stay_tied(tmp_path):
    model = bnn.Sequential(bnn.Linear(2, 2), bnn.Linear(2, 2))
    model[1].weight_mu = model[0].weight_mu
    loaded = lbnn.load(lbnn.save(model, tmp_path / "net.pt", input_shape=(2,)))
    assert loaded["0"].weight_mu is loaded["1"].weight_mu
    assert loaded["0"].weight_rho is not loaded["1"].weight_rho


def test_a_loaded_model_is_a_part_like_any_other(tmp_path):
    loaded = lbnn.load(lbnn.save(mlp(), tmp_path / "net.pt", input_shape=(3,)))
    larger = nn.Sequential(bnn.Linear(2, 3), loaded)
    assert [node.name for node in trace(larger, (2,)).nodes] == ["0", "1.0", "1.1", "1.2"]
    same(copy.deepcopy(larger)(torch.ones(1, 2)), larger(torch.ones(1, 2)))
    assert isinstance(loaded.double(), Network)


def test_saving_replaces_a_file_and_a_failed_save_keeps_it(tmp_path):
    path = lbnn.save(mlp(), tmp_path / "net.pt", input_shape=(3,))
    before = path.read_bytes()
    with pytest.raises(LbnnError, match="does not fit"):
        lbnn.save(mlp(), path, input_shape=(4,))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    lbnn.save(bnn.Sequential(bnn.Linear(1, 1)), path, input_shape=(1,))
    assert path.read_bytes() != before


BAD_SAVES = {
    "no shape": ({}, "give the input_shape of one sample"),
    "object": ({"input_shape": (3,), "metadata": {"net": object()}}, "metadata must be plain data"),
    "key": ({"input_shape": (3,), "metadata": {1: 2}}, "a key of metadata must be text"),
    "name": ({"input_shape": (3,), "name": 5}, "name must be text"),
}


@pytest.mark.parametrize("options, message", BAD_SAVES.values(), ids=BAD_SAVES.keys())
def test_what_a_file_cannot_hold_is_refused_when_saving(tmp_path, options, message):
    with pytest.raises(LbnnError, match=message):
        lbnn.save(mlp(), tmp_path / "net.pt", **options)


def test_weights_that_are_not_finite_are_refused_when_saving(tmp_path):
    model = mlp()
    model[2].weight_mu.data[0, 1] = float("nan")
    with pytest.raises(LbnnError, match="node '2': parameter 'weight' holds a NaN"):
        lbnn.save(model, tmp_path / "net.pt", input_shape=(3,))


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    model = bnn.Sequential(bnn.Linear(3, 2), bnn.BatchNorm(2, eps=0.0)).eval()
    with pytest.raises(LbnnError, match="eps must be a number from"):
        lbnn.save(model, tmp_path / "net.pt", input_shape=(3,))
    assert not any(tmp_path.iterdir())


def test_the_file_of_version_1_stays_readable():
    expected = json.loads((GOLDEN / "model_v1.json").read_text())
    x, mean, var = (torch.tensor(expected[key], dtype=torch.int32).view(torch.float32) for key in expected)
    model = lbnn.load(GOLDEN / "model_v1.pt")
    out = model(x.reshape(4, *model.input_shape))
    torch.testing.assert_close(out.mean.flatten(), mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(out.var.flatten(), var, rtol=1e-5, atol=0.0)
    assert (model.model_name, model.input_shape) == ("golden", (1, 4, 5))
    assert model.metadata["trained"] == {"epochs": 3, "loss": -0.5, "converged": True, "note": None}
    assert model["norm"].momentum == 0.25


VERSION_1 = {
    *("linear", "conv", "avg_pool", "pad", "leaky_relu", "leaky_relu_clamped", "affine", "batch_norm"),
    *("constant", "lift", "flatten", "add", "shift", "concat", "variance_head"),
}


def test_the_golden_file_has_every_operator_of_its_version():
    assert {node.op for node in lbnn.read_model(GOLDEN / "model_v1.pt").graph.nodes} == VERSION_1
