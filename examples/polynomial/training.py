"""Trains the copies of one job together and scores them; a job's result is a dictionary of plain arrays."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from networks import ACTIVATIONS, HEADS, Activation, Copies, initial, predict, used
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.train.losses import expected_gaussian_nll, gaussian_nll
from lbnn.train.priors import PaperDecay, SpikeSlab, kl_elements
from lbnn.train.problem import OUTSIDE, draw, inside_grid, outside_grid, true_mean, true_std

BATCH = 64
ADAMW: dict[str, Any] = dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)  # decays every parameter
EVALUATE_EVERY = 50  # epochs
SELECTION_POINTS = 256
REPORT_POINTS = 4096
CURVE_POINTS = 301
BLOCK = 250  # epochs whose data are drawn at once
LAST_KL = 64  # from this epoch the KL's weight, below 2^-64, no longer changes a float32 gradient

PRIOR = SpikeSlab()  # 0.5 N(0, 1) + 0.5 N(0, e^-12)
KL_WEIGHT = PaperDecay()

Result = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Job:
    """Networks of one size and one activation: all heads, for some seeds."""

    hidden: int
    activation: str
    seeds: tuple[int, ...]
    epochs: int

    @property
    def name(self) -> str:
        """The name of its result file."""
        return f"{self.activation}-h{self.hidden:04d}-s{self.seeds[0]}to{self.seeds[-1]}-e{self.epochs}"

    @property
    def cost(self) -> float:
        """Elements in an epoch, with a constant for the calls themselves."""
        return self.epochs * (5e4 + BATCH * self.hidden * len(self.seeds) * len(HEADS))


@dataclass
class Best:
    """The best parameters so far of each copy, by some score."""

    score: Tensor
    epoch: Tensor
    copies: Copies

    @staticmethod
    def start(copies: Copies) -> Best:
        """Anything is better."""
        replicas = copies.units.shape[0]
        none = torch.full((replicas,), -1)
        return Best(torch.full((replicas,), torch.inf), none, Copies(*(part.detach().clone() for part in copies)))

    def update(self, score: Tensor, epoch: int, copies: Copies) -> None:
        """Keeps the copies that are better than before."""
        better = score < self.score
        if bool(better.any()):
            self.score = torch.where(better, score, self.score)
            self.epoch[better] = epoch
            self.copies = self.copies.where(better, copies)


def train(job: Job, report: Callable[[int], None] = lambda epochs: None) -> Result:
    """The whole job; `report` hears of epochs as they are done."""
    torch.set_num_threads(1)
    copies = Copies(*(part.requires_grad_() for part in initial(job.hidden, job.seeds)))
    optimizer = torch.optim.AdamW(copies, fused=True, **ADAMW)
    score, noise = batch_nll(job.activation), torch.Generator().manual_seed(10**6 + job.seeds[0])
    on_grid, on_batch, history = Best.start(copies), Best.start(copies), []
    for epoch, (x, y) in enumerate(batches(job)):
        nll = score(copies, x, y)
        on_batch.update(nll.detach(), epoch, copies)  # drawn afresh, so also a validation on 64 points
        loss = nll.sum() + weighted_kl(copies, epoch, job.epochs, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (epoch + 1) % EVALUATE_EVERY == 0:
            history.append(expected_nll(ACTIVATIONS[job.activation], copies, inside_grid(SELECTION_POINTS).float()))
            on_grid.update(history[-1], epoch + 1, copies)
            report(EVALUATE_EVERY)
    return _result(job, copies, on_grid, on_batch, history)


def batch_nll(activation: str) -> Callable[[Copies, Tensor, Tensor], Tensor]:
    """The mean NLL of each copy on its batch: compiled to a few loops, or plain where there is no C++ compiler."""
    formula = ACTIVATIONS[activation]

    def nll(copies: Copies, x: Tensor, y: Tensor) -> Tensor:
        return gaussian_nll(predict(formula, copies, x), y, "none", check=False).mean(1)

    if shutil.which("g++") is None:
        return nll
    torch.compiler.reset()  # a process may compile the same function for a few shapes only, and each job has its own
    return torch.compile(nll, dynamic=False)


def batches(job: Job) -> Iterator[tuple[Tensor, Tensor]]:
    """Each epoch's data, (replicas, BATCH): a seed's are the same for every network, size and activation."""
    generators = [torch.Generator().manual_seed(seed) for seed in job.seeds]
    for start in range(0, job.epochs, BLOCK):
        drawn = [draw(BLOCK, BATCH, generator) for generator in generators]
        x, y = (torch.stack(each, 1).repeat(1, len(HEADS), 1) for each in zip(*drawn, strict=True))
        yield from zip(x[: job.epochs - start], y[: job.epochs - start], strict=False)


def weighted_kl(copies: Copies, epoch: int, epochs: int, noise: torch.Generator) -> Tensor | float:
    """The KL of all copies, from one sample, with the weight of this epoch."""
    if epoch >= LAST_KL:
        return 0.0
    parts = zip(copies, used(copies), strict=True)
    kl = sum((kl_elements(p[:, 0], p[:, 1], PRIOR, 1, noise) * flags).sum() for p, flags in parts)
    return KL_WEIGHT(epoch, epochs) * kl


def expected_nll(activation: Activation, copies: Copies, x: Tensor) -> Tensor:
    """The NLL expected over the points x and the observations there, one number for each copy."""
    with torch.no_grad():
        out = predict(activation, copies, x[None])
    mean, var = true_mean(x).expand_as(out.mean), true_std(x).square().expand_as(out.mean)
    return expected_gaussian_nll(out, mean, var, "none", check=False).mean(1)


def curve_points() -> Tensor:
    """Where predictions are kept for the figures."""
    return torch.linspace(-OUTSIDE, OUTSIDE, CURVE_POINTS, dtype=torch.float64)


def _result(job: Job, last: Copies, on_grid: Best, on_batch: Best, history: list[Tensor]) -> Result:
    """Scores in float64; arrays whose first two axes are head and seed."""
    own, exact = ACTIVATIONS[job.activation], ACTIVATIONS["exact"]
    inside, outside = inside_grid(REPORT_POINTS), outside_grid(REPORT_POINTS)
    best, reported = on_grid.copies.double(), on_batch.copies.double()
    with torch.no_grad():
        curve: Moments[Tensor] = predict(own, best, curve_points()[None])
    arrays = {
        "inside": expected_nll(own, best, inside),
        "outside": expected_nll(own, best, outside),
        "inside_exact": expected_nll(exact, best, inside),
        "outside_exact": expected_nll(exact, best, outside),
        "last": expected_nll(own, last.double(), inside),
        "best_epoch": on_grid.epoch,
        "reported64": on_batch.score,
        "true64": expected_nll(own, reported, inside),
        "history": torch.stack(history, 1),
        "curve_mean": curve.mean.float(),
        "curve_var": curve.var.float(),
        "units": on_grid.copies.units,
        "bias": on_grid.copies.bias,
    }
    return {name: value.unflatten(0, (len(HEADS), len(job.seeds))).numpy() for name, value in arrays.items()}
