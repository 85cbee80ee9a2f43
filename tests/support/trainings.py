"""Small trainings: a network, a line with noise in the three forms that `fit` takes, and what to compare after it."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import lbnn
from lbnn import nn as bnn
from lbnn.train import training
from lbnn.train.losses import gaussian_nll

fit = partial(lbnn.fit, progress=False)


def network(seed: int = 0, hidden: int = 3, dtype: torch.dtype = torch.float32) -> bnn.Sequential:
    torch.manual_seed(seed)
    return bnn.Sequential(bnn.Linear(1, hidden), bnn.LeakyReLU(0.1), bnn.Linear(hidden, 1)).to(dtype)


def line(n: int = 24, noise: float = 0.1, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 1, generator=generator) * 2 - 1
    return x, 2 * x + noise * torch.randn(n, 1, generator=generator)


def draw(generator: torch.Generator, n: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(n, 1, generator=generator)
    return x, x + torch.randn(n, 1, generator=generator)


def loader(batch_size: int = 8) -> DataLoader:
    return DataLoader(TensorDataset(*line()), batch_size, shuffle=True)


SOURCES = {
    "pair": lambda: (line(), {"batch_size": 8}),
    "loader": lambda: (loader(), {}),
    "sampler": lambda: (draw, {"steps_per_epoch": 3}),
}


def weights(model: torch.nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def spy(seen: list[torch.Tensor]):
    def loss(moments, y):
        seen.append(y)
        return gaussian_nll(moments, y, "none")

    return loss


def interrupt(monkeypatch: pytest.MonkeyPatch, trainer: str, when: int) -> list[Any]:
    """Ctrl-C in network number `when` of those that `trainer` of lbnn.train.training makes; the list of its calls."""
    train, calls = getattr(training, trainer), []

    def ended(*given: Any) -> Any:
        model, history = train(*given)
        calls.append(given)
        return model, replace(history, interrupted=len(calls) == when + 1)

    monkeypatch.setattr(training, trainer, ended)
    return calls
