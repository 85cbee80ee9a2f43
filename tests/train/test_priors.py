"""Priors, KL divergence and KL weights against densities integrated numerically."""

import itertools
import math

import pytest
import torch
from scipy import integrate, stats

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.train.priors import (
    PRIORS,
    Blundell,
    ConstantWeight,
    Gaussian,
    LinearWarmup,
    PaperDecay,
    SpikeSlab,
    TrainingSize,
    as_prior,
    as_schedule,
    kl_divergence,
    kl_elements,
    log_softplus,
    named_gaussians,
)


def rho_of(sigma: float) -> torch.Tensor:
    return torch.tensor([sigma], dtype=torch.float64).expm1().log()


def kl_by_quadrature(mu: float, sigma: float, prior) -> float:
    """Integral of q log(q / p) over ten standard deviations of q, split where the spike is."""
    q = stats.norm(mu, sigma)
    spike = [e for e in (-0.02, 0.0, 0.02) if abs(e - mu) < 10 * sigma]

    def integrand(w: float) -> float:
        log_p = prior.log_prob(torch.tensor(w, dtype=torch.float64)).item()
        return q.pdf(w) * (q.logpdf(w) - log_p)

    edges = sorted({mu - 10 * sigma, *spike, mu, mu + 10 * sigma})
    return sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize("prior", [Gaussian(), Gaussian(0.3), SpikeSlab(), SpikeSlab(0.2, 2.0, 0.1)])
def test_a_prior_is_a_density_that_integrates_to_one(prior):
    def density(w: float) -> float:
        return prior.log_prob(torch.tensor(w, dtype=torch.float64)).exp().item()

    edges = [-30.0, -1.0, -0.03, -0.003, 0.0, 0.003, 0.03, 1.0, 30.0]
    total = sum(integrate.quad(density, a, b)[0] for a, b in itertools.pairwise(edges))
    assert total == pytest.approx(1.0, abs=1e-7)


def test_the_default_spike_has_variance_e_to_the_minus_12():
    at_zero = 0.5 / math.sqrt(2 * math.pi) + 0.5 * math.exp(6) / math.sqrt(2 * math.pi)
    assert SpikeSlab().log_prob(torch.zeros(1)).item() == pytest.approx(math.log(at_zero), rel=1e-6)


def test_the_spike_does_not_underflow_far_from_zero():
    w = torch.tensor([0.5, 30.0, -1e6], requires_grad=True)
    log_p = SpikeSlab().log_prob(w)
    log_p.sum().backward()
    slab = math.log(0.5) + stats.norm.logpdf(w.detach().double().numpy())
    torch.testing.assert_close(log_p, torch.tensor(slab, dtype=torch.float32), rtol=1e-6, atol=0)
    torch.testing.assert_close(w.grad, -w.detach(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("mu, sigma", [(0.0, 1.0), (0.7, 0.1), (-3.0, 2.0), (0.0, 1e-3), (0.01, 50.0)])
@pytest.mark.parametrize("width", [1.0, 0.3])
def test_the_closed_form_kl_is_the_integral(mu, sigma, width):
    exact = Gaussian(width).kl(torch.tensor([mu], dtype=torch.float64), rho_of(sigma))
    assert exact.item() == pytest.approx(kl_by_quadrature(mu, sigma, Gaussian(width)), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("mu, sigma", [(0.0, 0.1), (0.5, 0.3), (0.0, 0.002), (0.005, 0.002)])
def test_the_sampled_kl_agrees_with_the_integral_within_four_standard_errors(mu, sigma):
    generator = torch.Generator().manual_seed(7)
    copies = torch.full((100_000,), mu, dtype=torch.float64), rho_of(sigma).expand(100_000)
    values = kl_elements(*copies, SpikeSlab(), samples=2, generator=generator)
    error = values.mean().item() - kl_by_quadrature(mu, sigma, SpikeSlab())
    assert abs(error) < 4 * values.std().item() / math.sqrt(len(values))


@pytest.mark.parametrize("samples", [4, 16])
def test_n_samples_divide_the_variance_of_the_estimate_by_n(samples):
    mu, rho = torch.zeros(20_000, dtype=torch.float64), rho_of(0.3).expand(20_000)
    one = kl_elements(mu, rho, SpikeSlab(), 1, torch.Generator().manual_seed(1)).var()
    many = kl_elements(mu, rho, SpikeSlab(), samples, torch.Generator().manual_seed(2)).var()
    assert (one / many).item() == pytest.approx(samples, rel=0.1)  # a variance of 20000 draws: 1-2 % each


def test_the_gradient_of_the_sampled_kl_is_that_of_the_integral():
    mu = torch.full((200_000,), 0.4, dtype=torch.float64, requires_grad=True)
    rho = rho_of(0.2).repeat(200_000).requires_grad_()
    kl_elements(mu, rho, Gaussian_as_sampled(), 1, torch.Generator().manual_seed(3)).sum().backward()
    m, r = mu.detach()[:1].requires_grad_(), rho.detach()[:1].requires_grad_()
    Gaussian(0.5).kl(m, r).sum().backward()
    for sampled, exact in ((mu.grad, m.grad), (rho.grad, r.grad)):
        assert abs(sampled.mean() - exact) < 4 * sampled.std() / math.sqrt(len(sampled))


class Gaussian_as_sampled:
    """A prior that hides that it is Gaussian, so that its KL is sampled."""

    def log_prob(self, w):
        return Gaussian(0.5).log_prob(w)


@pytest.mark.parametrize("rho", [-200.0, -100.0, -30.0, -16.1, -15.9, 0.0, 30.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiny_and_huge_sigma_keep_a_finite_exact_kl_and_gradient(rho, dtype):
    r = torch.tensor([rho], dtype=dtype, requires_grad=True)
    mu = torch.zeros(1, dtype=dtype, requires_grad=True)
    kl = Gaussian().kl(mu, r)
    kl.sum().backward()
    sigma = math.log1p(math.exp(rho)) if rho < 30 else rho
    expected = (sigma**2 - 1) / 2 - math.log(sigma)
    assert kl.item() == pytest.approx(expected, rel=1e-6)
    assert torch.isfinite(r.grad).all() and torch.isfinite(mu.grad).all()
    sampled = kl_elements(mu, r, SpikeSlab(), 1, torch.Generator().manual_seed(0))
    assert torch.isfinite(sampled).all()


@pytest.mark.parametrize("rho", [-80.0, -17.0, -16.0, -3.0, 0.0, 5.0])
def test_log_softplus_and_its_gradient(rho):
    r = torch.tensor(rho, dtype=torch.float64, requires_grad=True)
    value = log_softplus(r)
    value.backward()
    softplus = math.log1p(math.exp(rho))
    assert value.item() == pytest.approx(math.log(softplus), rel=1e-14)
    assert r.grad.item() == pytest.approx(1 / (1 + math.exp(-rho)) / softplus, rel=1e-6)


def test_the_kl_of_a_model_sums_all_weights_and_biases_once():
    layer, tied = bnn.Linear(2, 2, bias=False), bnn.Linear(2, 2, bias=False)
    tied.weight_mu, tied.weight_rho = layer.weight_mu, layer.weight_rho
    model = bnn.Sequential(bnn.Linear(3, 2), layer, layer, tied)
    assert [name for name, _, _ in named_gaussians(model)] == ["0.weight", "0.bias", "1.weight"]
    expected = sum(
        Gaussian().kl(mu, rho).sum()
        for mu, rho in (
            (model[0].weight_mu, model[0].weight_rho),
            (model[0].bias_mu, model[0].bias_rho),
            (layer.weight_mu, layer.weight_rho),
        )
    )
    torch.testing.assert_close(kl_divergence(model, "gaussian"), expected)


def test_the_sampled_kl_is_reproducible_from_its_generator():
    model = bnn.Linear(3, 2)
    one, two, other = (
        kl_divergence(model, "spike_slab", 1, torch.Generator().manual_seed(seed)).item() for seed in (5, 5, 6)
    )
    assert one == two != other


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda: as_prior("horseshoe"), "unknown prior 'horseshoe'; known: spike_slab, gaussian"),
        (lambda: as_prior(SpikeSlab), "is not a prior"),
        (lambda: as_prior(3.0), "is not a prior"),
        (lambda: Gaussian(0.0), "sigma must be a positive number"),
        (lambda: SpikeSlab(mix=1.0), "0 < mix < 1"),
        (lambda: SpikeSlab(sigma2=float("nan")), "sigma2 must be a positive number"),
        (lambda: kl_divergence(torch.nn.Linear(1, 1), "gaussian"), "no Bayesian layer"),
        (lambda: kl_divergence(bnn.Linear(1, 1), "spike_slab", samples=0), "at least one sample"),
        (lambda: LinearWarmup(1.0, 0.0), "0 < fraction <= 1"),
        (lambda: PaperDecay()(10, 10), "outside 0..9"),
        (lambda: as_schedule("cosine", SIZE), "unknown KL weight 'cosine'; known: elbo, paper, blundell, warmup"),
        (lambda: as_schedule([1], SIZE), "is not a KL weight"),
    ],
)
def test_nonsense_gets_a_clear_error(wrong, message):
    with pytest.raises(LbnnError, match=message):
        wrong()


SIZE = TrainingSize(values=1000, batch_values=100, batches=10)


def test_every_known_prior_can_be_named():
    assert [type(as_prior(name)) for name in PRIORS] == [SpikeSlab, Gaussian]


@pytest.mark.parametrize("total", [1, 2, 30])
def test_the_papers_weights_are_the_printed_ratio_and_sum_to_one(total):
    weights = [PaperDecay()(step, total) for step in range(total)]
    assert weights == pytest.approx([2 ** (total - i) / (2**total - 1) for i in range(1, total + 1)], rel=1e-14)
    assert sum(weights) == pytest.approx(1.0, rel=1e-14)


def test_the_papers_weights_do_not_overflow_over_10000_steps():
    weights = [PaperDecay()(step, 10_000) for step in range(10_000)]
    assert weights[:3] == [0.5, 0.25, 0.125]
    assert sum(weights) == 1.0 and weights[-1] == 0.0


def test_blundells_weights_count_the_kl_once_in_each_epoch():
    schedule = Blundell(batches=4)
    weights = [schedule(step, 12) for step in range(12)]
    assert weights[:4] == weights[4:8] == weights[8:]
    assert weights[:4] == pytest.approx([8 / 15, 4 / 15, 2 / 15, 1 / 15])


def test_the_warm_up_rises_linearly_and_stays():
    weights = [LinearWarmup(2.0, 0.5)(step, 8) for step in range(8)]
    assert weights == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    "weight, schedule",
    [
        ("elbo", ConstantWeight(1e-3)),
        ("paper", PaperDecay(1e-2)),
        ("blundell", Blundell(10, 1e-2)),
        ("warmup", LinearWarmup(1e-3)),
        (0.25, ConstantWeight(0.25)),
        (ConstantWeight(3.0), ConstantWeight(3.0)),
    ],
)
def test_a_schedule_has_a_name_and_the_scale_of_the_training(weight, schedule):
    assert as_schedule(weight, SIZE) == schedule


def test_elbo_and_blundell_count_the_same_kl_over_an_epoch():
    elbo, blundell = as_schedule("elbo", SIZE), as_schedule("blundell", SIZE)
    sums = [sum(s(step, 10) for step in range(10)) for s in (elbo, blundell)]
    assert sums[0] == pytest.approx(sums[1])
