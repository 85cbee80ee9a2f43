"""The optimizer: AdamW that leaves rho alone, or the user's own."""

import pytest
import torch

from lbnn import nn as bnn
from lbnn.train.optimizer import parameter_groups
from trainings import fit, line, network, weights


@pytest.mark.parametrize("decay_rho, decays", [(False, {"mu"}), (True, {"mu", "rho"})])
def test_rho_does_not_decay_unless_asked(decay_rho, decays):
    model = network()
    names = {id(p): name.rsplit("_", 1)[1] for name, p in model.named_parameters()}
    groups = parameter_groups(model, 0.01, decay_rho)
    assert {names[id(p)] for g in groups if g["weight_decay"] == 0.01 for p in g["params"]} == decays
    assert sum(len(g["params"]) for g in groups) == len(names)


def test_decay_pulls_sigma_up_only_where_rho_decays():
    """With no gradient but decay, rho shrinks to 0 and sigma grows towards log 2 = 0.69."""
    sigmas = []
    for decay_rho in (False, True):
        model = bnn.Linear(1, 1, sigma=0.1)
        silent = lambda moments, y: 0.0 * moments.mean
        options = dict(weight_decay=1.0, decay_rho=decay_rho, kl_weight=0.0, lr_schedule="constant")
        fit(model, line(), epochs=50, lr=0.1, loss=silent, **options)
        sigmas.append(model.weight_var.sqrt().item())
    assert sigmas == pytest.approx([0.1, 0.69], abs=0.02)


def test_adamw_is_the_default_with_its_usual_settings():
    model, twin = network(dtype=torch.float64), network(dtype=torch.float64)
    data = tuple(part.double() for part in line())
    default = fit(model, data, epochs=30)
    given = fit(twin, data, epochs=30, optimizer=lambda g: torch.optim.AdamW(g, lr=0.01), lr_schedule="cosine")
    assert default.loss == pytest.approx(given.loss, rel=1e-12)
    for a, b in zip(weights(model), weights(twin), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_an_optimizer_and_its_scheduler_can_be_given():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    fit(model, line(), epochs=3, optimizer=optimizer, on_epoch=lambda epoch: scheduler.step())
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 / 8)
