"""Networks of other packages, held to the packages themselves: FastBNNs' own moments, samples of the others."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import lbnn
from lbnn import LbnnError, Moments
from lbnn import nn as bnn
from places import ROOT, need_package

SAMPLES = 3000
_tries = pytest.mark.ecosystem
FASTBNNS = _tries("Python: FastBNNs", "networks converted", package="fastbnns", result="its own moments")
BAYESIAN_TORCH = _tries(
    "Python: Bayesian-Torch", "networks converted", package="bayesian-torch", result="the moments of its samples"
)
TORCHBNN = _tries("Python: torchbnn", "networks converted", package="torchbnn", result="the moments of its samples")
BLITZ = _tries(
    "Python: BLiTZ", "networks converted", package="blitz-bayesian-pytorch", result="the moments of its samples"
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def softened(network, low=-3.5, high=-1.0):
    """Sigmas of many sizes, where packages start with one."""
    for name, part in network.named_parameters():
        if "rho" in name or "log_sigma" in name:
            part.data = torch.empty(part.shape).uniform_(low, high)  # some are views of one number
    return network


def drawn(network, x, count=SAMPLES):
    with torch.no_grad():
        samples = torch.stack([network(x) for _ in range(count)])
    return Moments(samples.mean(0), samples.var(0))


def same_as_samples(network, converted, x):
    """Within five standard errors, as moments of a single layer must be."""
    sampled, ours = drawn(network, x), converted(x)
    assert ((sampled.mean - ours.mean).abs() < 5 * (sampled.var / SAMPLES).sqrt() + 1e-6).all()
    assert ((sampled.var / ours.var - 1).abs() < 5 * (2 / SAMPLES) ** 0.5).all()


def near_samples(network, converted, x, sd=1.25, mean=0.15):
    """A deep network's elements are not independent: the sd within a factor, the mean within a part of it."""
    sampled, ours = drawn(network, x), converted(x)
    ratio = (ours.sd / sampled.sd).log().abs().exp()
    assert ratio.max() < sd, ratio
    assert ((sampled.mean - ours.mean).abs() / sampled.sd).max() < mean


def exported(converted, shape, tmp_path):
    """It can be saved, and its C gives what it gives."""
    x = torch.rand(3, *shape)
    lbnn.save(converted, tmp_path / "net.pt", input_shape=shape)
    found, expected = lbnn.compile(tmp_path / "net.pt", flags=("-O1",))(x.numpy()), converted(x).numpy()
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.var, expected.var, rtol=1e-4, atol=1e-7)


# ---- FastBNNs --------------------------------------------------------------------------------------------------------


def fastbnn(network, **known):
    """A BNN with closed activations; `known` layers have no variance."""
    base, inference = need_package("fastbnns.bnn.base"), need_package("fastbnns.bnn.inference")
    closed = {
        "LeakyReLU": dict(moment_propagator=inference.LeakyReLUa()),
        "ReLU": dict(moment_propagator=inference.ReLUa()),
    }
    return softened(base.BNN(network, wrapper_kwargs_type=closed, wrapper_kwargs=known)).double()


def agrees_with_fastbnns(network, x, var=None):
    types = need_package("fastbnns.bnn.types")
    theirs = network(types.MuVar(x.clone(), None if var is None else var.clone()))
    ours = lbnn.from_fastbnns(network)(x if var is None else Moments(x, var))
    torch.testing.assert_close(ours.mean, theirs.mu, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(ours.var, theirs.var, rtol=1e-8, atol=1e-14)


@FASTBNNS
@pytest.mark.parametrize("activation", [nn.LeakyReLU, nn.ReLU])
def test_fastbnns_mlp_has_its_own_moments(activation):
    mlp = need_package("fastbnns.models.mlp")
    network = fastbnn(mlp.MLP(3, 2, hidden_features=16, n_hidden_layers=2, activation=activation))
    x = torch.randn(20, 3, dtype=torch.float64)
    agrees_with_fastbnns(network, x)
    agrees_with_fastbnns(network, x, torch.rand_like(x))


@FASTBNNS
def test_fastbnns_cnn_has_its_own_moments():
    network = fastbnn(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False), nn.LeakyReLU(0.1), nn.Conv2d(4, 4, 3, groups=2),
            nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 3),
        )
    )  # fmt: skip
    x = torch.randn(5, 2, 9, 9, dtype=torch.float64)
    agrees_with_fastbnns(network, x)
    agrees_with_fastbnns(network, x, torch.rand_like(x))


@FASTBNNS
@pytest.mark.parametrize("layer", [nn.ConvTranspose2d(2, 4, 3, 2, 1, 1, groups=2), nn.ConvTranspose1d(2, 3, 4, 2)])
def test_fastbnns_transposed_convolutions_have_their_own_moments(layer):
    x = torch.randn(5, 2, *[4] * (layer.weight.ndim - 2), dtype=torch.float64)
    network = fastbnn(nn.Sequential(layer))
    agrees_with_fastbnns(network, x)
    agrees_with_fastbnns(network, x, torch.rand_like(x))


@FASTBNNS
def test_fastbnns_layers_without_variance_stay_known():
    network = fastbnn(nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(), nn.Linear(8, 2)), **{"0": dict(learn_var=False)})
    x = torch.randn(6, 3, dtype=torch.float64)
    converted = lbnn.from_fastbnns(network)
    assert converted[0].weight_var.max() < 1e-15 and converted[2].weight_var.min() > 1e-4
    agrees_with_fastbnns(network, x, torch.rand_like(x))


@FASTBNNS
def test_fastbnns_unscented_activations_get_exact_moments_and_gaussian_batch_norm_its_own(tmp_path):
    base = need_package("fastbnns.bnn.base")
    plain = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(27, 2))
    network = softened(base.BNN(plain)).eval()
    norm = network.bnn[1]._module
    norm.running_mean.uniform_(-0.5, 0.5), norm.running_var.uniform_(0.5, 2.0)
    converted = lbnn.from_fastbnns(network)
    assert converted[2].clamp is None
    same_as_samples(network.bnn[1], converted[1], torch.randn(2, 3, 4, 4))
    exported(converted, (1, 5, 5), tmp_path)
    with pytest.raises(LbnnError, match=r"module '1' \(BayesianModule\): batch norm with a Gaussian scale"):
        lbnn.from_fastbnns(base.BNN(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))))


# ---- packages that sample --------------------------------------------------------------------------------------------


def bayesian_torch_layers(form):
    layers = need_package("bayesian_torch.layers")
    linear, conv1d, conv2d = (getattr(layers, f"{name}{form}") for name in ("Linear", "Conv1d", "Conv2d"))
    made = [(linear(5, 3), (5,)), (linear(5, 3, bias=False), (5,)), (conv1d(2, 4, 3, dilation=2), (2, 9))]
    made.append((conv2d(2, 4, 3, stride=2, padding=1, groups=2, bias=False), (2, 6, 6)))
    for layer, _ in made:
        layer.dnn_to_bnn_flag = True
    return made


@BAYESIAN_TORCH
@pytest.mark.parametrize("form", ["Reparameterization", "Flipout"])
def test_bayesian_torch_layers_have_the_moments_of_their_samples(form):
    for layer, shape in bayesian_torch_layers(form):
        same_as_samples(softened(layer), lbnn.from_bayesian_torch(layer), torch.randn(3, *shape))


@BAYESIAN_TORCH
@pytest.mark.parametrize("form", ["Reparameterization", "Flipout"])
@pytest.mark.parametrize(
    ("rank", "sizes", "more"), [(1, (2, 3, 4), {}), (2, (4, 2, 3), dict(output_padding=1, groups=2))]
)
def test_bayesian_torch_transposed_convolutions_have_the_moments_of_their_samples(form, rank, sizes, more):
    layer = getattr(need_package("bayesian_torch.layers"), f"ConvTranspose{rank}d{form}")(*sizes, 2, 1, **more)
    layer.dnn_to_bnn_flag = True
    same_as_samples(softened(layer), lbnn.from_bayesian_torch(layer), torch.randn(2, sizes[0], *[3] * rank))


@BAYESIAN_TORCH
def test_bayesian_torch_network_made_by_dnn_to_bnn(tmp_path):
    dnn_to_bnn = need_package("bayesian_torch.models.dnn_to_bnn").dnn_to_bnn
    network = nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(96, 16),
        nn.LeakyReLU(),
        nn.Linear(16, 2),
    )
    dnn_to_bnn(network, dict(prior_mu=0.0, prior_sigma=1.0, posterior_mu_init=0.0, posterior_rho_init=-3.0,
                             type="Reparameterization", moped_enable=True, moped_delta=0.2))  # fmt: skip
    network.eval()
    converted = lbnn.from_bayesian_torch(network)
    near_samples(network, converted, torch.randn(4, 1, 6, 6))
    exported(converted, (1, 6, 6), tmp_path)


@BAYESIAN_TORCH
def test_bayesian_torch_forward_that_collects_kl(tmp_path):
    layers = need_package("bayesian_torch.layers")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.act = layers.LinearReparameterization(4, 16), nn.ReLU()
            self.last = layers.LinearFlipout(16, 2)

        def forward(self, x):
            x, kl = self.first(x)
            x, more = self.last(self.act(x))
            return x, kl + more

    network = softened(Net())
    converted, x = lbnn.from_bayesian_torch(network), torch.randn(3, 4)
    near_samples(lambda x: network(x)[0], converted, x)
    exported(converted, (4,), tmp_path)


@TORCHBNN
def test_torchbnn_layers_have_the_moments_of_their_samples():
    torchbnn = need_package("torchbnn")
    norm = torchbnn.BayesBatchNorm2d(0.0, 0.1, 3).eval()
    norm.running_mean.uniform_(-1, 1), norm.running_var.uniform_(0.5, 2)
    for layer, shape in (
        (torchbnn.BayesLinear(0.0, 0.1, 5, 3), (5,)),
        (torchbnn.BayesLinear(0.0, 0.1, 5, 3, bias=False), (5,)),
        (torchbnn.BayesConv2d(0.0, 0.1, 2, 4, 3, stride=2, padding=1, groups=2), (2, 6, 6)),
        (norm, (3, 4, 4)),
    ):
        same_as_samples(softened(layer), lbnn.from_torchbnn(layer), torch.randn(3, *shape))


@TORCHBNN
def test_torchbnn_networks_deep_and_frozen(tmp_path):
    torchbnn = need_package("torchbnn")
    network = nn.Sequential(
        torchbnn.BayesConv2d(0.0, 0.05, 1, 6, 3), nn.ReLU(), nn.Flatten(), torchbnn.BayesLinear(0.0, 0.05, 96, 2)
    )
    near_samples(network, lbnn.from_torchbnn(network), torch.randn(4, 1, 6, 6))
    exported(lbnn.from_torchbnn(network), (1, 6, 6), tmp_path)
    need_package("torchbnn.utils").freeze(network)
    x = torch.randn(4, 1, 6, 6)
    out = lbnn.from_torchbnn(network)(x)
    torch.testing.assert_close(out.mean, network(x), rtol=1e-5, atol=1e-5)
    assert out.var.max() < 1e-10


@BLITZ
def test_blitz_layers_have_the_moments_of_their_samples():
    modules = need_package("blitz.modules")
    for layer, shape in (
        (modules.BayesianLinear(5, 3), (5,)),
        (modules.BayesianLinear(5, 3, bias=False), (5,)),
        (modules.BayesianConv1d(2, 4, 3, dilation=2), (2, 9)),
        (modules.BayesianConv2d(2, 4, (3, 3), stride=2, padding=1, groups=2), (2, 6, 6)),
    ):
        same_as_samples(softened(layer), lbnn.from_blitz(layer), torch.randn(3, *shape))


@BLITZ
def test_blitz_network_after_a_move_to_another_dtype_is_that_of_its_samplers(tmp_path):
    modules = need_package("blitz.modules")
    network = nn.Sequential(modules.BayesianLinear(4, 16), nn.ReLU(), modules.BayesianLinear(16, 2)).double().float()
    softened(network[0].weight_sampler)  # as an optimizer would, which sees these alone
    near_samples(network, lbnn.from_blitz(network), torch.randn(4, 4))
    exported(lbnn.from_blitz(network), (4,), tmp_path)
    network[0].freeze = network[2].freeze = True
    out, x = lbnn.from_blitz(network)(torch.ones(1, 4)), torch.ones(1, 4)
    torch.testing.assert_close(out.mean, network(x), rtol=1e-5, atol=1e-5)
    assert out.var.max() < 1e-10


def test_layers_that_have_no_counterpart_are_named():
    modules, layers = need_package("blitz.modules"), need_package("bayesian_torch.layers")
    for convert, network, message in (
        (
            lbnn.from_blitz,
            nn.Sequential(modules.BayesianLSTM(3, 4)),
            r"module '0' \(BayesianLSTM\): its weights are shared",
        ),
        (lbnn.from_blitz, nn.Sequential(modules.BayesianConv3d(1, 1, (1, 1, 1))), "BayesianConv3d.*two spatial axes"),
        (lbnn.from_bayesian_torch, layers.LSTMReparameterization(3, 4), "LSTMReparameterization.*shared"),
        (lbnn.from_blitz, nn.Sequential(nn.LSTM(3, 4)), "torch.nn.LSTM has no moments"),
    ):
        with pytest.raises(LbnnError, match=message):
            convert(network)


def test_an_unknown_class_of_a_package_is_named():
    kind = type("BayesianThing", (nn.Module,), {"__module__": "blitz.modules.thing"})
    thing = kind()
    thing.weight_mu = nn.Parameter(torch.ones(2))
    with pytest.raises(LbnnError, match="BayesianThing of blitz is none of those known: BayesianConv1d"):
        lbnn.from_blitz(nn.Sequential(thing))


def test_plain_layers_beside_them_have_known_weights_and_can_be_trained_on():
    network = lbnn.from_blitz(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)))
    x = torch.randn(64, 3)
    assert network(x).var.max() < 1e-12 and all(isinstance(network[i], bnn.Linear) for i in (0, 2))
    history = lbnn.fit(network, (x, x.sum(1, keepdim=True)), epochs=2)
    assert np.isfinite(history.loss).all()


def test_the_page_shows_lines_that_work(tmp_path):
    for package in ("fastbnns", "torchbnn"):
        need_package(package)
    page = (ROOT / "docs" / "converters.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True)
    assert (tmp_path / "firmware" / "net" / "net.c").exists()
