"""What Monte Carlo would need for the same moments: passes of sampled networks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path

import torch

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.model.file import load, read_model
from lbnn.train.montecarlo import monte_carlo, samples_replaced

STANDARD_ERROR = 0.1
"""The accuracy that Monte Carlo is asked for: one standard error of its variance, relative."""
DRAWN_NUMBERS, COMPUTED_NUMBERS = 100_000_000, 2_000_000_000
"""About how many weights are drawn and how many values of layers computed in all: some seconds, of a network with
millions of products half a minute."""
MOST_INPUTS, LEAST_SAMPLES, MOST_SAMPLES = 16, 500, 20_000


@dataclass(frozen=True)
class Sampling:
    """Passes of sampled networks: for a variance with STANDARD_ERROR, and for one as accurate as one moment pass.

    Unless `resolved`, the second is a lower bound: the check's own samples could not tell one pass from the truth.
    """

    standard_error: float
    passes: int
    same_accuracy: int
    resolved: bool


def sampled_passes(path: Path, inputs: Floats) -> Sampling | None:
    """What Monte Carlo needs; None for a network without Gaussian weights, which has nothing to draw."""
    network = load(path)
    values = sum(prod(value.shape) for value in read_model(path).graph.values.values())
    x = torch.from_numpy(inputs[: min(MOST_INPUTS, max(1, COMPUTED_NUMBERS // (LEAST_SAMPLES * values)))])
    numbers = sum(parameter.numel() for parameter in network.parameters()) // 2 + x.numel()
    within = min(DRAWN_NUMBERS // numbers, COMPUTED_NUMBERS // (values * len(x)))
    samples = min(MOST_SAMPLES, max(LEAST_SAMPLES, within))
    try:
        check = monte_carlo(network, x, samples, torch.Generator().manual_seed(0))
    except LbnnError:
        return None
    replaced = samples_replaced(check)
    passes = ceil(samples * (check.var_noise / STANDARD_ERROR) ** 2)
    return Sampling(STANDARD_ERROR, passes, round(replaced.passes), replaced.resolved)
