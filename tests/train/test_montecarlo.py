"""The Monte Carlo check against moments known in closed form, and the one-pass result against it."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.montecarlo import MonteCarlo, PowerSums, Replaced, monte_carlo, samples_replaced


def within(estimate: torch.Tensor, exact: torch.Tensor, se: torch.Tensor, width: float = 4.5) -> bool:
    """Every element within `width` standard errors: 4.5 leaves 7e-6 of false alarm each."""
    return bool(((estimate - exact).abs() <= width * se).all())


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(*sizes: int, sigma: float = 0.3, head: bool = False) -> bnn.Sequential:
    torch.manual_seed(1)
    layers: list[torch.nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [bnn.Linear(a, b, sigma=sigma), bnn.LeakyReLU(0.1)]
    return bnn.Sequential(*layers[:-1], *([bnn.VarianceHead()] if head else []))


X = torch.linspace(-2, 2, 5)[:, None]


def test_a_linear_layer_has_the_moments_of_a_sum_of_gaussians():
    layer = bnn.Linear(3, 2, sigma=0.5)
    x = torch.randn(4, 3, generator=seeded())
    check = monte_carlo(layer, x, 20_000, seeded())
    mean = x @ layer.weight_mu.T + layer.bias_mu
    var = x**2 @ layer.weight_var.T + layer.bias_var
    assert within(check.sampled.mean, mean, check.mean_se)
    assert within(check.sampled.var, var, check.var_se)
    torch.testing.assert_close(check.one_pass.mean, mean.double(), rtol=1e-5, atol=1e-6)


def test_the_standard_errors_are_those_of_gaussian_moments():
    """For n draws of a Gaussian: sqrt(V/n) for the mean, V sqrt(2/n) for the variance."""
    layer = bnn.Linear(1, 1, sigma=0.5)
    check = monte_carlo(layer, X, 20_000, seeded())
    var = layer.weight_var.item() * X.double() ** 2 + layer.bias_var.item()
    torch.testing.assert_close(check.mean_se, (var / 20_000).sqrt(), rtol=0.03, atol=0)
    torch.testing.assert_close(check.var_se, var * math.sqrt(2 / 20_000), rtol=0.06, atol=0)


def test_the_standard_errors_cover_the_truth_as_often_as_they_should():
    """Over 400 repetitions of 200 draws, 95 % intervals hold the exact moments 90 to 98 % of the time."""
    layer = bnn.Linear(1, 1, sigma=0.5)
    x = torch.ones(1, 1)
    mean = (layer.weight_mu + layer.bias_mu).item()
    var = (layer.weight_var + layer.bias_var).item()
    checks = [monte_carlo(layer, x, 200, seeded(i)) for i in range(400)]
    for hits in (
        [abs(c.sampled.mean.item() - mean) < 1.96 * c.mean_se.item() for c in checks],
        [abs(c.sampled.var.item() - var) < 1.96 * c.var_se.item() for c in checks],
    ):
        assert 0.90 < sum(hits) / len(hits) < 0.98


def test_the_sums_give_the_moments_of_the_samples_wherever_the_pivot_is():
    """Var[m] + E[v] with n - 1, and the spread of u = (m - mean)^2 + v, computed from the samples themselves."""
    m = torch.randn(30, 2, generator=seeded(), dtype=torch.float64).exp()
    v = torch.rand(30, 2, generator=seeded(1), dtype=torch.float64)
    sums = PowerSums(torch.tensor([5.0, -3.0], dtype=torch.float64))
    for rows in (slice(0, 7), slice(7, 30)):
        sums.add(Moments(m[rows], v[rows]))
    check = sums.result(Moments(m[0], v[0]))
    u = (m - m.mean(0)) ** 2 + v
    torch.testing.assert_close(tuple(check.sampled), (m.mean(0), m.var(0) + v.mean(0)))
    torch.testing.assert_close(check.mean_se, m.std(0) / 30**0.5)
    torch.testing.assert_close(check.var_se, u.std(0) / 30**0.5)


def test_uncertain_inputs_are_drawn_too():
    layer = bnn.Linear(2, 1, sigma=0.4)
    x = Moments(torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 2.0]]))
    check = monte_carlo(layer, x, 50_000, seeded())
    var = layer.bias_var + (x.var * (layer.weight_var + layer.weight_mu**2) + x.mean**2 * layer.weight_var).sum()
    assert within(check.sampled.var, var, check.var_se)
    assert check.var_noise < 0.02


def test_the_noise_of_a_variance_head_is_part_of_the_total_variance():
    """Its exact value is V[mu] + E[softplus(s)], here by quadrature over s = w x + b."""
    torch.manual_seed(2)
    model = bnn.Sequential(bnn.Linear(1, 2, sigma=0.8), bnn.VarianceHead())
    check = monte_carlo(model, X, 40_000, seeded())
    layer = model[0]
    moments = layer(X)
    for i in range(len(X)):
        m, v = moments.mean[i, 1].item(), moments.var[i, 1].item()
        noise = stats.norm(m, math.sqrt(v)).expect(lambda s: np.logaddexp(0.0, s))
        exact = torch.tensor([moments.var[i, 0].item() + noise])
        assert within(check.sampled.var[i], exact, check.var_se[i])


def test_one_pass_is_exact_with_one_hidden_layer_and_certain_inputs():
    check = monte_carlo(network(1, 8, 1), X, 40_000, seeded())
    assert within(check.one_pass.mean, check.sampled.mean, check.mean_se)
    assert within(check.one_pass.var, check.sampled.var, check.var_se)
    replaced = samples_replaced(check)
    assert not replaced.resolved and replaced.passes > 1000


def test_a_wrong_activation_is_found():
    """The clamped form far from zero: its variance is hundreds of times too large."""
    model = bnn.Sequential(bnn.Linear(1, 1, sigma=0.1), bnn.LeakyReLU(0.01, clamp=3.0))
    with torch.no_grad():
        model[0].weight_mu.zero_()
        model[0].bias_mu.fill_(-1.0)
    check = monte_carlo(model, torch.zeros(1, 1), 4000, seeded())
    assert check.var_error > 50
    assert samples_replaced(check).passes < 1


class Residual(torch.nn.Module):
    """A forward of the user's own: a sum, a scale, a concatenation, moments taken apart, a clamped activation."""

    def __init__(self, clamp: float | None) -> None:
        super().__init__()
        self.first, self.last = bnn.Linear(1, 1, sigma=0.1), bnn.Linear(2, 1, sigma=0.1)
        self.act = bnn.LeakyReLU(0.01, clamp)

    def forward(self, x):
        h = self.act(1.0 - 2 * (self.first(x) - x))
        out = self.last(bnn.cat([h, -h / 2]))
        return Moments(out.mean, out.var + 0.01)


def test_drawn_networks_use_the_plain_activation_whatever_form_one_pass_takes():
    """On points the clamped form is off as well, so it must not be what it is compared with."""
    torch.manual_seed(3)
    exact, clamped = Residual(None), Residual(3.0)
    clamped.load_state_dict(exact.state_dict())
    x = torch.tensor([[-9.0], [0.0], [9.0]])
    a, b = (monte_carlo(model, x, 500, seeded()) for model in (exact, clamped))
    torch.testing.assert_close(tuple(a.sampled), tuple(b.sampled), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(a.one_pass.var, b.one_pass.var, rtol=0.1)
    assert within(a.one_pass.mean, a.sampled.mean, a.mean_se)


def test_a_convolution_and_a_users_own_forward_can_be_checked():
    class Skip(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = bnn.Conv1d(2, 2, 3, padding=1, sigma=0.2)
            self.act = bnn.LeakyReLU(0.1)

        def forward(self, x):
            return self.act(self.conv(x)) + x

    check = monte_carlo(Skip(), torch.randn(2, 2, 5, generator=seeded()), 20_000, seeded())
    assert within(check.one_pass.mean, check.sampled.mean, check.mean_se)
    assert within(check.one_pass.var, check.sampled.var, check.var_se)


def test_chunks_do_not_change_the_result(monkeypatch):
    whole = monte_carlo(network(1, 4, 1), X, 1000, seeded())
    monkeypatch.setattr("lbnn.train.montecarlo.CHUNK_VALUES", 100)
    parts = monte_carlo(network(1, 4, 1), X, 1000, seeded(1))
    assert parts.samples == whole.samples == 1000
    both = (whole.var_se**2 + parts.var_se**2).sqrt()
    assert within(whole.sampled.var, parts.sampled.var, both)


def test_the_model_is_left_as_it_was():
    model = network(1, 4, 1)
    model.train()
    before = [p.clone() for p in model.parameters()]
    monte_carlo(model, X, 10, seeded())
    assert model.training
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def known_check(error: float, noise: float, samples: int) -> MonteCarlo:
    ones = torch.ones(3, dtype=torch.float64)
    return MonteCarlo(Moments(ones, ones), Moments(ones, (1 + error) * ones), noise * ones, noise * ones, samples)


def test_the_passes_replaced_are_those_whose_sampling_error_is_the_one_pass_error():
    """A relative error e against Var[u] = noise^2 n per pass: n' = Var[u] / (e^2 - noise^2)."""
    replaced = samples_replaced(known_check(error=0.1, noise=0.01, samples=20_000))
    assert replaced == Replaced(pytest.approx(2.0 / (0.01 - 0.0001)), resolved=True)
    assert str(replaced) == "about 202 passes"


def test_an_error_below_the_noise_gives_a_lower_bound_only():
    replaced = samples_replaced(known_check(error=0.01, noise=0.01, samples=9_000))
    assert replaced == Replaced(pytest.approx(1000.0), resolved=False)
    assert str(replaced) == "at least 1000 passes"


def test_the_report_names_errors_and_noise():
    text = str(known_check(error=0.1, noise=0.01, samples=500))
    assert text == "500 samples: mean off by at most 0 sd, variance by 10.00% rms (sampling alone gives 1.00%)"


def test_a_value_without_any_variance_has_no_error():
    """The second output copies the input; the error is that of the first alone, over two outputs."""

    class Copy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = bnn.Linear(1, 1)

        def forward(self, x):
            return bnn.cat([self.layer(x), x])

    check = monte_carlo(Copy(), X, 100, seeded())
    assert check.sampled.var[:, 1].eq(0).all() and 0 < check.var_error < 1


@pytest.mark.parametrize(
    "model, samples, message",
    [(network(1, 2, 1), 1, "at least 2 samples"), (bnn.LeakyReLU(), 10, "no Bayesian layer")],
)
def test_nonsense_gets_a_clear_error(model, samples, message):
    with pytest.raises(LbnnError, match=message):
        monte_carlo(model, X, samples)


def test_the_ratio_of_deviations_is_their_geometric_mean():
    spreads = torch.tensor([[1.0, 4.0, 0.0], [4.0, 64.0, 0.0]], dtype=torch.float64)
    sampled, one_pass = (Moments(torch.zeros(3), var) for var in spreads)
    check = MonteCarlo(sampled, one_pass, torch.zeros(3), torch.zeros(3), 9)
    assert check.sd_ratio == pytest.approx((2.0 * 4.0 * 1.0) ** (1 / 3))


def test_networks_that_run_in_parts_are_the_same_networks(monkeypatch):
    """A small part bounds the memory of wide layers, and changes nothing but the order of sums."""
    model, x = network(1, 7, 1), Moments(X, torch.full_like(X, 0.1))
    for given in (X, x):
        whole = monte_carlo(model, given, 50, seeded())
        monkeypatch.setattr("lbnn.train.montecarlo.PART_VALUES", 3 * 5 * (7 + 7 + 1))
        parts = monte_carlo(model, given, 50, seeded())
        torch.testing.assert_close(parts.sampled.var, whole.sampled.var, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(parts.var_se, whole.var_se, rtol=1e-5, atol=1e-7)
        monkeypatch.undo()
