"""Max pooling layers: torch's arguments, files, conversion, and a network in every backend."""

import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.measure.backends import BACKENDS
from lbnn.measure.parity import FLOAT32_TOLERANCE, errors, expect
from lbnn.measure.samples import draw_samples
from lbnn.model.file import read_model


def test_a_known_input_gives_torchs_own_result():
    x = torch.randn(2, 3, 9, 7)
    attrs = dict(kernel_size=(3, 2), stride=(2, 1), padding=1, dilation=(1, 2), ceil_mode=True)
    assert torch.equal(bnn.MaxPool2d(**attrs)(x), nn.MaxPool2d(**attrs)(x))
    assert torch.equal(bnn.MaxPool1d(3, 2, 1)(x[:, 0]), nn.MaxPool1d(3, 2, 1)(x[:, 0]))


def test_indices_are_refused():
    with pytest.raises(LbnnError, match="return_indices"):
        bnn.MaxPool1d(2, return_indices=True)


def test_a_torch_network_keeps_its_max_pools(tmp_path):
    plain = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.MaxPool1d(3, 2, 1, 2, ceil_mode=True), nn.Flatten())
    net = lbnn.from_torch(plain, sigma=1e-6)
    x = torch.randn(4, 2, 20)
    torch.testing.assert_close(net(x).mean, plain(x), rtol=1e-4, atol=1e-4)
    lbnn.save(net, tmp_path / "net.pt", input_shape=(2, 20))
    torch.testing.assert_close(tuple(lbnn.load(tmp_path / "net.pt")(x)), tuple(net(x)))


@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
@pytest.mark.parametrize("random", [False, True])
def test_every_backend_keeps_the_contract(backend, random):
    torch.manual_seed(0)
    net = bnn.Sequential(
        bnn.MaxPool2d(2, 1),  # of a known input, where that has no variance
        bnn.Conv2d(2, 3, 3, padding=1),
        bnn.MaxPool2d(2),
        bnn.LeakyReLU(0.1),
        bnn.Conv2d(3, 4, 3),
        bnn.MaxPool2d(3, 2, 1, ceil_mode=True),
        bnn.Flatten(),
        bnn.Linear(16, 3),
    )
    model = read_model(net, (2, 11, 11))
    samples = draw_samples(model, 14, seed=0, input_variance=random)
    found = BACKENDS[backend].run(model, samples)
    for error in errors(found, expect(model.graph, samples).result):
        assert error.max() <= FLOAT32_TOLERANCE
