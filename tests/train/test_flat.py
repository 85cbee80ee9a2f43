"""The flat posterior: the same training as layer by layer, and a model that is left as any other."""

import copy

import pytest
import torch

from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.train.flat import FlatPosterior, can_flatten, flattened
from lbnn.train.losses import gaussian_nll
from lbnn.train.priors import Gaussian, LinearWarmup, kl_divergence
from trainings import fit, network, weights


def data(rows=64, inputs=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(rows, inputs, generator=generator, dtype=torch.float64)
    y = torch.sin(x[:, :1]) + 0.1 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    return x.to(dtype), y.to(dtype)


def deep(dtype=torch.float32):
    """Two hidden layers, one without bias, batch normalisation between, a layer that is used twice."""
    torch.manual_seed(1)
    twice = bnn.Linear(8, 8)
    layers = [bnn.Linear(3, 8), bnn.BatchNorm(8), bnn.LeakyReLU(), twice, bnn.LeakyReLU(), twice]
    return bnn.Sequential(*layers, bnn.ReLU(), bnn.Linear(8, 1, bias=False)).to(dtype)


def straight(model, x, y, steps, prior, lr=0.01, decay=0.01):
    """The training as it is defined: autograd for everything, torch's AdamW, a group for rho."""
    rhos = [p for name, p in model.named_parameters() if name.endswith("_rho")]
    rest = [p for name, p in model.named_parameters() if not name.endswith("_rho")]
    groups = [{"params": rest, "weight_decay": decay}, {"params": rhos, "weight_decay": 0.0}]
    optimizer, losses = torch.optim.AdamW(groups, lr=lr, foreach=False), []
    for step in range(steps):
        optimizer.zero_grad()
        weight = LinearWarmup(1 / len(y))(step, steps)
        loss = gaussian_nll(model(x), y) + weight * kl_divergence(model, prior)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def wide():
    torch.manual_seed(2)
    layers = [bnn.Linear(3, 50), bnn.LeakyReLU(), bnn.Linear(50, 50), bnn.LeakyReLU(), bnn.Linear(50, 1)]
    return bnn.Sequential(*layers)


@pytest.mark.parametrize("make", [lambda: network(hidden=20), wide], ids=["one", "two"])
@pytest.mark.parametrize("prior", [Gaussian(), Gaussian(0.4)])
def test_the_loss_of_100_steps_is_that_of_the_straightforward_formulation(make, prior):
    """In float32 to 1e-5; with batch normalisation rounding alone grows beyond that, hence the next test."""
    model, twin = make(), make()
    x, y = data(inputs=model[0].in_features)
    history = fit(model, (x, y), epochs=100, prior=prior, lr_schedule="constant")
    expected = straight(twin.train(), x, y, 100, prior)
    assert history.loss == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_in_float64_loss_and_weights_agree_to_nearly_all_digits():
    model, twin = deep(torch.float64), deep(torch.float64)
    x, y = data(dtype=torch.float64)
    history = fit(model, (x, y), epochs=40, lr_schedule="constant")
    assert history.loss == pytest.approx(straight(twin.train(), x, y, 40, Gaussian()), rel=1e-11)
    for a, b in zip(weights(model), weights(twin), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rho", [-200.0, -81.0, -30.0, -5.0, 0.0, 30.0])
@pytest.mark.parametrize("sigma", [1.0, 0.3])
def test_the_kl_and_its_gradient_are_those_of_autograd_for_any_sigma(rho, sigma):
    model, twin = (bnn.Linear(2, 2).double() for _ in range(2))
    twin.load_state_dict(model.state_dict())
    for layer in (model, twin):
        torch.nn.init.constant_(layer.weight_rho, rho)
    flat, prior = FlatPosterior(model), Gaussian(sigma)
    with flat.variances():
        kl = flat.gaussian_kl(prior)
    flat.finish(prior, 0.7)
    expected = kl_divergence(twin, prior)
    (0.7 * expected).backward()
    assert kl == pytest.approx(expected.item(), rel=1e-12)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=1e-12)


def test_a_model_that_uses_its_parameters_itself_gets_their_gradients_too():
    class Penalised(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = bnn.Linear(3, 1)

        def forward(self, x):
            out = self.layer(x)
            return Moments(out.mean + self.layer.weight_mu.sum(), out.var + self.layer.weight_rho.exp().sum())

    torch.manual_seed(0)
    model = Penalised().double()
    twin = copy.deepcopy(model)
    x, y = data(dtype=torch.float64)
    history = fit(model, (x, y), epochs=20, lr_schedule="constant")
    assert history.loss == pytest.approx(straight(twin, x, y, 20, Gaussian()), rel=1e-10)


def test_after_a_training_parameters_have_memory_of_their_own_and_no_gradients():
    model = deep()
    fit(model, data(), epochs=2)
    parameters = list(model.parameters())
    assert all(p.grad is None for name, p in model.named_parameters() if name.endswith(("_mu", "_rho")))
    assert len({p.untyped_storage().data_ptr() for p in parameters}) == len(parameters)
    before = model[0].weight_mu.detach().clone()
    with torch.no_grad():
        model[0].weight_rho.add_(1.0)
    assert torch.equal(model[0].weight_mu, before)
    assert not torch.equal(model[0].op_params()["weight"].var, torch.zeros(()))


def test_they_have_it_after_an_error_and_a_copy_made_in_between_stands_alone():
    model, copies = deep(), []

    def stop(epoch):
        copies.append(copy.deepcopy(model))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fit(model, data(), epochs=2, on_epoch=stop)
    assert len({p.untyped_storage().data_ptr() for p in model.parameters()}) == len(list(model.parameters()))
    torch.testing.assert_close(weights(copies[0]), weights(model))
    torch.nn.init.constant_(copies[0][0].weight_rho, 3.0)
    assert copies[0][0].op_params()["weight"].var.min() > 9.0  # the copy reads its own rho


def frozen():
    model = deep()
    model[0].weight_rho.requires_grad_(False)
    return model


def mixed():
    model = deep()
    model[3].double()
    return model


def half_tied():
    a, b = bnn.Linear(2, 2), bnn.Linear(2, 2)
    b.weight_mu = a.weight_mu
    return bnn.Sequential(a, b)


@pytest.mark.parametrize("make", [frozen, mixed, half_tied, lambda: torch.nn.DataParallel(deep())])
def test_what_can_not_be_flattened_trains_layer_by_layer(make):
    model = make()
    with flattened(model) as flat:
        assert flat is None
    assert can_flatten(deep())


def test_a_frozen_parameter_stays():
    model = frozen()
    before = model[0].weight_rho.clone()
    fit(model, data(), epochs=3)
    assert torch.equal(model[0].weight_rho, before)
