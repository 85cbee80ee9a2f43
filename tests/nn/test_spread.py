"""Structured variances: layers with factors are the full layers with the same sigmas, in every respect."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import lbnn
from lbnn import Moments
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.nn.spread import VARIANCES
from lbnn.train.montecarlo import monte_carlo
from lbnn.train.priors import Gaussian, SpikeSlab, kl_divergence

FACTORED = VARIANCES[1:]
LAYERS = {
    "linear": (lambda v: bnn.Linear(5, 7, variance=v), (5,)),
    "rows": (lambda v: bnn.Linear(5, 3, bias=False, variance=v), (4, 5)),
    "conv1d": (lambda v: bnn.Conv1d(3, 4, 3, stride=2, variance=v), (3, 9)),
    "conv2d": (lambda v: bnn.Conv2d(2, 5, (3, 2), padding=1, variance=v), (2, 6, 5)),
    "groups": (lambda v: bnn.Conv2d(4, 6, 3, groups=2, dilation=2, variance=v), (4, 7, 7)),
    "depthwise": (lambda v: bnn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False, variance=v), (4, 5, 5)),
}


def stirred(module, seed=0):
    """The module with factors that differ."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        if name.endswith("_rho"):
            parameter.data += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return module


def to_full(module):
    """A copy whose layers are full."""
    if isinstance(module, bnn.BayesianLayer):
        return module.to_full()
    return bnn.Sequential(*(to_full(layer) if isinstance(layer, bnn.BayesianLayer) else layer for layer in module))


def network(variance):
    return bnn.Sequential(
        bnn.Conv2d(1, 3, 3, variance=variance), bnn.LeakyReLU(0.1), bnn.Flatten(), bnn.Linear(12, 2, variance=variance)
    )


@pytest.mark.parametrize("variance", FACTORED)
@pytest.mark.parametrize("name", LAYERS)
def test_a_structured_layer_is_the_full_one_with_the_same_sigmas(name, variance):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    layer = stirred(make(variance).double())
    full = layer.to_full()
    x = Moments(torch.randn(3, *shape).double(), torch.rand(3, *shape).double())
    for given in (x, x.mean):
        for ours, theirs in zip(layer(given), full(given), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(layer.weight_var, full.weight_var, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("variance", FACTORED)
def test_sigmas_are_products_of_the_factors(variance):
    layer = stirred(bnn.Conv2d(4, 6, 3, groups=2, variance=variance))
    alpha = F.softplus(layer.weight_row_rho)
    beta = F.softplus(layer.weight_column_rho) if variance == "rank1" else torch.ones(2, 3, 3)
    torch.testing.assert_close(layer.weight_var, torch.einsum("n,ikl->nikl", alpha, beta) ** 2)


@pytest.mark.parametrize("variance", VARIANCES)
def test_every_variance_starts_with_the_same_sigma(variance):
    for layer in (
        bnn.Linear(300, 4, sigma=0.03, variance=variance),
        bnn.Conv1d(2, 3, 5, sigma=0.03, variance=variance),
    ):
        torch.testing.assert_close(layer.weight_var.sqrt(), torch.full_like(layer.weight_mu, 0.03))
    counts = {"full": 1200, "rank1": 304, "row": 4}
    rhos = [
        p.numel() for name, p in bnn.Linear(300, 4, bias=False, variance=variance).named_parameters() if "rho" in name
    ]
    assert sum(rhos) == counts[variance]


@pytest.mark.parametrize("prior", [Gaussian(0.7), Gaussian(1.0)])
@pytest.mark.parametrize("variance", FACTORED)
def test_the_kl_is_that_of_the_full_network_and_so_is_its_gradient(variance, prior):
    torch.manual_seed(1)
    model = stirred(network(variance).double())
    torch.testing.assert_close(kl_divergence(model, prior), kl_divergence(to_full(model), prior), rtol=1e-11, atol=0.0)
    given = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters() if "rho" in name}

    def kl(*rhos):
        changed = copy.deepcopy(model)
        for name, rho in zip(given, rhos, strict=True):
            owner, part = changed.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
            del owner._parameters[part]
            setattr(owner, part, rho)
        return kl_divergence(changed, prior)

    assert torch.autograd.gradcheck(kl, tuple(given.values()))


@pytest.mark.parametrize("variance", FACTORED)
def test_the_sampled_kl_is_that_of_the_full_network_within_its_noise(variance):
    model = stirred(network(variance))
    draws = [kl_divergence(m, SpikeSlab(), 4000, torch.Generator().manual_seed(3)) for m in (model, to_full(model))]
    torch.testing.assert_close(*draws, rtol=0.01, atol=0.0)


@pytest.mark.parametrize("variance", FACTORED)
def test_monte_carlo_agrees_with_one_pass(variance):
    """One hidden layer of a certain input: no covariance is ignored."""
    torch.manual_seed(2)
    model = bnn.Sequential(bnn.Linear(3, 4, variance=variance), bnn.LeakyReLU(0.1), bnn.Linear(4, 2, variance=variance))
    check = monte_carlo(stirred(model), torch.randn(5, 3), 40_000, torch.Generator().manual_seed(0))
    assert (check.one_pass.mean - check.sampled.mean).abs().le(5 * check.mean_se).all()
    assert (check.one_pass.var - check.sampled.var).abs().le(5 * check.var_se).all()


def test_a_structured_layer_prints_its_variance_and_a_full_one_prints_as_before():
    assert "variance=rank1" in repr(bnn.Linear(2, 3, variance="rank1")) and "variance=row" in repr(
        bnn.Conv2d(1, 2, 3, variance="row")
    )
    assert "variance" not in repr(bnn.Linear(2, 3))


@pytest.mark.parametrize("variance", FACTORED)
def test_from_torch_gives_every_layer_the_variance_and_the_sigma_that_it_is_asked_for(variance):
    plain = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2))
    made = lbnn.from_torch(plain, sigma=0.2, variance=variance)
    for layer, source in ((made[0], plain[0]), (made[3], plain[3])):
        assert layer.variance == variance and torch.equal(layer.weight_mu, source.weight)
        torch.testing.assert_close(layer.weight_var, torch.full_like(layer.weight_mu, 0.04))


def test_factors_are_never_fitted_to_free_variances():
    with pytest.raises(LbnnError, match="factors can't be fitted afterwards; build it with variance='rank1'"):
        lbnn.from_torch(nn.Sequential(bnn.Linear(2, 3)), variance="rank1")
    assert lbnn.from_torch(nn.Sequential(bnn.Linear(2, 3, variance="row")), variance="row")[0].variance == "row"


def test_an_unknown_variance_is_refused():
    for call in (lambda: bnn.Linear(2, 3, variance="diagonal"), lambda: lbnn.from_torch(nn.Linear(2, 3), variance="x")):
        with pytest.raises(LbnnError, match="variance must be one of full, rank1, row"):
            call()


@pytest.mark.parametrize("variance", FACTORED)
def test_training_moves_the_factors_and_leaves_them_out_of_the_decay(variance):
    torch.manual_seed(0)
    model, x = bnn.Sequential(bnn.Linear(2, 3, variance=variance), bnn.ReLU(), bnn.Linear(3, 1)), torch.randn(40, 2)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    lbnn.fit(model, (x, x.sum(1, keepdim=True)), epochs=3, progress=False)
    assert all(not torch.equal(p, before[name]) for name, p in model.named_parameters())
    still = {name: p.detach().clone() for name, p in model.named_parameters()}
    lbnn.fit(model, (x, x.sum(1, keepdim=True)), epochs=1, lr=1e-6, weight_decay=1e4, kl_weight=0.0, progress=False)
    for name, parameter in model.named_parameters():
        assert bool(torch.allclose(parameter, still[name], rtol=1e-3, atol=1e-5)) == name.endswith("_rho"), name
