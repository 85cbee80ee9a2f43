"""What sharing does to the variance: one pass beside weight sampling, the table of docs/layers.md.

python tools/derive/sharing.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import lbnn
from lbnn import nn as bnn

WIDTH, SAMPLES = 16, 4000


class Shared(nn.Module):
    """A few layers, and a forward that uses some of their results twice."""

    def __init__(self, use: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.act = bnn.Linear(WIDTH, WIDTH, sigma=0.1), bnn.ReLU()
        self.again, self.wide = bnn.Linear(WIDTH, WIDTH, sigma=0.1), bnn.Linear(2 * WIDTH, WIDTH, sigma=0.01)
        self.step, self.mean = bnn.Linear(WIDTH, WIDTH, sigma=0.02), bnn.Linear(2 * WIDTH, WIDTH, sigma=0.01)
        with torch.no_grad():
            self.step.weight_mu.copy_(0.9 * torch.eye(WIDTH))
            self.mean.weight_mu.copy_(0.5 * torch.eye(WIDTH).repeat(1, 2))
        self.use = use

    def forward(self, x: Any) -> Any:
        """Whatever is to be shown."""
        return self.use(self, self.first(x))


def repeated(net: Shared, x: Any) -> Any:
    """The same weights three times, each time a little less of the value, as a filter through time has them."""
    for _ in range(3):
        x = net.act(net.step(x))
    return x


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "`x + x`, one object": lambda net, x: x + x,
    "`x + 2 * x`, the module": lambda net, x: x + 2 * x,
    "`x + relu(x)`, a residual sum": lambda net, x: x + net.act(x),
    "`x + relu(linear(x))`, the same with weights": lambda net, x: x + net.act(net.again(x)),
    "`linear(lbnn.cat([x, x]))`": lambda net, x: net.wide(lbnn.cat([x, x])),
    "the same, with equal weights for both": lambda net, x: net.mean(lbnn.cat([x, x])),
    "one layer three times in a row": repeated,
}


def ratio(use: Callable[[Any, Any], Any]) -> float:
    """One pass over sampled, of the standard deviation."""
    net, x = Shared(use), torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(1))
    return lbnn.montecarlo.monte_carlo(net, x, SAMPLES, torch.Generator().manual_seed(2)).sd_ratio


if __name__ == "__main__":
    print("| network | output sd, one pass / sampled |")
    print("|---|---|")
    for name, use in CASES.items():
        print(f"| {name} | {ratio(use):.2f} |")
