"""What a step minimises: NLL plus weighted KL, over the values of the whole batch."""

import math

import pytest
import torch
from scipy import optimize
from torch.utils.data import DataLoader, TensorDataset

from lbnn import nn as bnn
from lbnn.train.losses import gaussian_nll
from lbnn.train.priors import Gaussian
from trainings import draw, fit, line, loader, network, weights


def test_it_reaches_the_minimum_of_nll_plus_weighted_kl():
    """At x = 0 a Linear is its bias: two numbers whose optimum scipy finds from the formula of the ELBO."""
    torch.manual_seed(0)
    y = 0.7 + 0.4 * torch.randn(20, 1, dtype=torch.float64)
    model = bnn.Linear(1, 1).double()
    options = dict(lr_schedule="constant", kl_weight="elbo", weight_decay=0.0)
    fit(model, (torch.zeros_like(y), y), epochs=600, lr=0.03, prior=Gaussian(0.5), **options)

    def elbo(p):
        mean, sigma = p[0], math.exp(p[1])
        nll = 0.5 * (math.log(2 * math.pi * sigma**2) + ((y - mean) ** 2).mean().item() / sigma**2)
        kl = (sigma**2 + mean**2) / (2 * 0.25) - 0.5 + math.log(0.5 / sigma)
        return nll + kl / len(y)

    best = optimize.minimize(elbo, [0.0, 0.0], tol=1e-10)
    assert model.bias_mu.item() == pytest.approx(best.x[0], abs=1e-4)
    assert model.bias_var.sqrt().item() == pytest.approx(math.exp(best.x[1]), abs=1e-4)
    assert model.weight_mu.item() == pytest.approx(0.0, abs=1e-3)  # unused: the prior's own moments
    assert model.weight_var.sqrt().item() == pytest.approx(0.5, abs=1e-3)


def test_the_loss_of_an_epoch_is_nll_plus_weight_times_kl():
    result = fit(network(), line(), epochs=3, kl_weight=0.25)
    for e in result.epochs:
        assert e.kl_weight == 0.25
        assert e.loss == pytest.approx(e.nll + 0.25 * e.kl, rel=1e-6)


def test_the_loss_of_an_epoch_is_a_mean_over_rows_not_over_batches():
    """24 rows in batches of 20 and 4: without learning the epoch's NLL is that of all rows."""
    model = network()
    result = fit(model, line(24), epochs=1, batch_size=20, lr=0.0)
    assert result.nll[0] == pytest.approx(gaussian_nll(model(line(24)[0]), line(24)[1]).item(), rel=1e-5)


@pytest.mark.parametrize(
    "data, options, weight",
    [
        (line(24), {"batch_size": 10}, 1 / 24),
        (tuple(t.repeat(1, 2) for t in line(24)), {"batch_size": 10}, 1 / 48),  # two outputs: 48 values
        (loader(10), {}, 1 / 24),
        (DataLoader(TensorDataset(*line(24)), 10, drop_last=True), {}, 1 / 20),
        (draw, {"steps_per_epoch": 3}, 1 / (8 * 3 * 2)),  # everything drawn in two epochs
    ],
)
def test_elbo_weighs_the_kl_by_one_over_the_observed_values(data, options, weight):
    model = network() if not isinstance(data, tuple) or data[1].shape[1] == 1 else bnn.Linear(2, 2)
    history = fit(model, data, epochs=2, kl_weight="elbo", **options)
    assert history.epochs[0].kl_weight == pytest.approx(weight)


def test_the_kl_warms_up_over_the_first_half_unless_told_otherwise():
    result = fit(network(), line(24), epochs=4)
    assert [24 * e.kl_weight for e in result.epochs] == pytest.approx([0.0, 0.5, 1.0, 1.0])


def test_the_papers_decay_halves_the_weight_at_each_step():
    result = fit(network(), draw, epochs=4, kl_weight="paper")
    assert [8 * e.kl_weight for e in result.epochs] == pytest.approx([8 / 15, 4 / 15, 2 / 15, 1 / 15])  # 8 values


def test_blundells_weights_restart_in_each_epoch():
    seen = []
    fit(network(), line(24), epochs=2, batch_size=8, kl_weight=lambda step, total: seen.append((step, total)) or 0.0)
    assert seen == [(step, 6) for step in range(6)]
    result = fit(network(), line(24), epochs=2, batch_size=8, kl_weight="blundell")
    assert [e.kl_weight for e in result.epochs] == pytest.approx([1 / 24, 1 / 24])  # a mean of 1/3 per batch of 8


def test_clip_norm_bounds_the_step():
    model = network()
    before = torch.cat([p.flatten() for p in weights(model)])
    fit(model, line(), epochs=1, optimizer=lambda g: torch.optim.SGD(g, lr=1.0), weight_decay=0.0, clip_norm=1e-3)
    moved = (torch.cat([p.flatten() for p in weights(model)]) - before).norm().item()
    assert moved == pytest.approx(1e-3, rel=1e-3)
