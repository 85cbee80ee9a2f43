"""How far one pass is from sampled networks, by depth, on trained models: the table of docs/mathematics.md.

python tools/derive/independence.py
"""

from __future__ import annotations

import torch

import lbnn
from lbnn import nn as bnn
from lbnn.train import problem
from lbnn.train.losses import expected_gaussian_nll
from lbnn.train.montecarlo import monte_carlo, samples_replaced

WIDTH, SAMPLES, EPOCHS = 16, 100_000, 1500
TRAINING = {"prior": "spike_slab", "kl_weight": "elbo", "lr_schedule": "constant"}  # as the table of docs was made


def trained(depth: int) -> bnn.Sequential:
    """A network of `depth` hidden layers, trained on the paper's problem."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for i in range(depth):
        layers += [bnn.Linear(1 if i == 0 else WIDTH, WIDTH), bnn.LeakyReLU(0.01)]
    model = bnn.Sequential(*layers, bnn.Linear(WIDTH, 1))
    grid = problem.inside_grid(256).float()[:, None]
    truth = problem.true_mean(grid), problem.true_std(grid) ** 2
    lbnn.fit(
        model,
        lambda generator: problem.draw(64, 1, generator),
        epochs=EPOCHS,
        validation=lambda candidate: float(expected_gaussian_nll(candidate(grid), *truth)),
        validate_every=10,
        **TRAINING,
    )
    return model


def row(depth: int) -> str:
    """One line of the table."""
    x = torch.linspace(-1.0, 1.0, 64)[:, None]
    check = monte_carlo(trained(depth), x, SAMPLES, torch.Generator().manual_seed(1))
    return (
        f"| {depth} | {check.mean_error:.3f} sd | {check.var_error:.2%} | {check.var_noise:.2%} "
        f"| {samples_replaced(check)} |"
    )


if __name__ == "__main__":
    head = "| hidden layers | largest mean error | variance error (rms) | of which sampling noise | passes replaced |"
    lines = [head, "|---|---|---|---|---|", *map(row, (1, 2, 3, 4))]
    print("\n".join(lines))
