"""Trains the copies of one job together and scores them; a job's result is a dictionary of plain arrays."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from choices import BATCH, CHOICES, CHOSEN, Choice
from networks import FORMULAS, HEADS, Copies, initial, predict, used
from torch import Tensor

from lbnn.base.moments import Moments
from lbnn.train.losses import expected_gaussian_nll, gaussian_nll
from lbnn.train.priors import PaperDecay, SpikeSlab, kl_elements
from lbnn.train.problem import OUTSIDE, draw, inside_grid, outside_grid, true_mean, true_std

ADAMW: dict[str, Any] = dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)  # decays every parameter
EVALUATE_EVERY = 50  # epochs
SELECTION_POINTS = 256
REPORT_POINTS = 4096
CURVE_POINTS = 301
CHUNK = 250_000  # elements of a hidden layer that are scored at once: they stay in the cache
BLOCK = 250  # epochs whose data are drawn at once
LAST_KL = 64  # from this epoch the KL's weight, below 2^-64, no longer changes a float32 gradient

PRIOR = SpikeSlab()  # 0.5 N(0, 1) + 0.5 N(0, e^-12)
KL_WEIGHT = PaperDecay()

Result = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Job:
    """Networks of one size and one activation: all heads, for some seeds and choices."""

    hidden: int
    activation: str
    seeds: tuple[int, ...]
    epochs: int
    labels: tuple[str, ...] = (CHOSEN,)

    @property
    def choices(self) -> list[Choice]:
        """What this job takes for what the paper leaves open; all have the same head."""
        return [CHOICES[label] for label in self.labels]

    @property
    def members(self) -> list[tuple[str, int]]:
        """Label and seed of the copies with one head, in their order."""
        return [(label, seed) for label in self.labels for seed in self.seeds]

    @property
    def name(self) -> str:
        """The name of its result file."""
        numbers = [str(list(CHOICES).index(label)) for label in self.labels]
        form = self.activation + (f"-c{'.'.join(numbers)}" if self.labels != (CHOSEN,) else "")
        return f"{form}-h{self.hidden:04d}-s{self.seeds[0]}to{self.seeds[-1]}-e{self.epochs}"

    @property
    def cost(self) -> float:
        """Elements in an epoch, with a constant for the calls themselves."""
        return self.epochs * (5e4 + BATCH * self.hidden * len(self.members) * len(HEADS))


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
    copies = Copies(*(part.requires_grad_() for part in initial(job.hidden, job.seeds, job.choices)))
    step, noise = stepper(copies, job), torch.Generator().manual_seed(10**6 + job.seeds[0])
    score, grid = batch_nll(job), inside_grid(SELECTION_POINTS).float()
    on_grid, on_batch = Best.start(copies), Best.start(copies)
    for epoch, (x, y) in enumerate(batches(job)):
        nll = score(copies, x, y)
        on_batch.update(nll.detach(), epoch, copies)  # drawn afresh, so also a validation on 64 points
        step(nll.sum() + weighted_kl(copies, epoch, job, noise))
        if (epoch + 1) % EVALUATE_EVERY == 0:
            on_grid.update(expected_nll(job, copies, grid).mean(1), epoch + 1, copies)
            report(EVALUATE_EVERY)
    return _result(job, copies, on_grid, on_batch)


def per_copy(job: Job, values: list[float]) -> Tensor:
    """A number for each choice as one for each copy."""
    return torch.tensor(values).repeat_interleave(len(job.seeds)).repeat(len(HEADS))


def slope_of(job: Job, dtype: torch.dtype = torch.float32) -> float | Tensor:
    """The slope of all copies, or of each."""
    slopes = [choice.slope for choice in job.choices]
    return slopes[0] if len(set(slopes)) == 1 else per_copy(job, slopes)[:, None, None].to(dtype)


def stepper(copies: Copies, job: Job) -> Callable[[Tensor], None]:
    """A step of AdamW, whose decay of rho is taken back where it was not chosen."""
    optimizer = torch.optim.AdamW(copies, fused=True, **ADAMW)
    undecayed = per_copy(job, [float(not choice.decay_rho) for choice in job.choices]).bool()
    shrink = 1.0 - ADAMW["lr"] * ADAMW["weight_decay"]

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        if undecayed.any():
            with torch.no_grad():
                for part in copies:
                    part[undecayed, 1] /= shrink
        optimizer.step()

    return step


def batch_nll(job: Job) -> Callable[[Copies, Tensor, Tensor], Tensor]:
    """The mean NLL of each copy on its batch: compiled to a few loops, or plain where there is no C++ compiler."""
    formula, slope, link = FORMULAS[job.activation], slope_of(job), job.choices[0].link

    def nll(copies: Copies, x: Tensor, y: Tensor) -> Tensor:
        return gaussian_nll(predict(formula, copies, x, slope, link), y, "none", check=False).mean(1)

    if shutil.which("g++") is None:
        return nll
    torch.compiler.reset()  # a process may compile the same function for a few shapes only, and each job has its own
    return torch.compile(nll, dynamic=False)


def batches(job: Job) -> Iterator[tuple[Tensor, Tensor]]:
    """Each epoch's data, (replicas, BATCH): a seed's are the same for every network, size and activation."""
    generators = [torch.Generator().manual_seed(seed) for seed in job.seeds]
    for start in range(0, job.epochs, BLOCK):
        drawn = [draw(BLOCK, BATCH, generator) for generator in generators]
        x, y = (torch.stack(each, 1).repeat(1, len(HEADS) * len(job.labels), 1) for each in zip(*drawn, strict=True))
        yield from zip(x[: job.epochs - start], y[: job.epochs - start], strict=False)


def weighted_kl(copies: Copies, epoch: int, job: Job, noise: torch.Generator) -> Tensor | float:
    """The KL of all copies, from one sample, with the weight of this epoch."""
    if epoch >= LAST_KL:
        return 0.0
    parts = zip(copies, used(copies), strict=True)
    kl = sum((kl_elements(p[:, 0], p[:, 1], PRIOR, 1, noise) * flags).flatten(1).sum(1) for p, flags in parts)
    scales = per_copy(job, [choice.kl_scale for choice in job.choices])
    return KL_WEIGHT(epoch, job.epochs) * (scales * kl).sum()


def moments_at(job: Job, copies: Copies, x: Tensor, form: str | None = None) -> Moments[Tensor]:
    """What the copies predict at the points x, (replicas, points), a few points at a time."""
    formula, slope, link = FORMULAS[form or job.activation], slope_of(job, x.dtype), job.choices[0].link
    points = max(1, CHUNK // (copies.units.shape[0] * job.hidden))
    with torch.no_grad():
        parts = [predict(formula, copies, some[None], slope, link) for some in x.split(points)]
    return Moments(*(torch.cat(each, 1) for each in zip(*parts, strict=True)))


def expected_nll(job: Job, copies: Copies, x: Tensor, form: str | None = None) -> Tensor:
    """The NLL expected over the observations at the points x, (replicas, points)."""
    out = moments_at(job, copies, x, form)
    mean, var = true_mean(x).expand_as(out.mean), true_std(x).square().expand_as(out.mean)
    return expected_gaussian_nll(out, mean, var, "none", check=False)


def curve_points() -> Tensor:
    """Where predictions are kept for the figures."""
    return torch.linspace(-OUTSIDE, OUTSIDE, CURVE_POINTS, dtype=torch.float64)


def _result(job: Job, last: Copies, on_grid: Best, on_batch: Best) -> Result:
    """Scores in float64; arrays whose first two axes are the head and the job's members."""
    inside, best = inside_grid(REPORT_POINTS), on_grid.copies.double()
    arrays = {
        **_scores(job, best, job.activation, ""),
        **_scores(job, best, "exact", "_exact"),
        "last": expected_nll(job, last.double(), inside).mean(1),
        "best_epoch": on_grid.epoch,
        "reported64": on_batch.score,
        "true64": expected_nll(job, on_batch.copies.double(), inside).mean(1),
        "units": on_grid.copies.units,
        "bias": on_grid.copies.bias,
    }
    return {name: value.unflatten(0, (len(HEADS), len(job.members))).numpy() for name, value in arrays.items()}


def _scores(job: Job, copies: Copies, form: str, suffix: str) -> dict[str, Tensor]:
    """Expected NLL inside, left and right of the training range, and the predictions over all of it."""
    left, right = expected_nll(job, copies, outside_grid(REPORT_POINTS), form).chunk(2, 1)
    curve = moments_at(job, copies, curve_points(), form)
    found = {
        "inside": expected_nll(job, copies, inside_grid(REPORT_POINTS), form).mean(1),
        "left": left.mean(1),
        "right": right.mean(1),
        "curve_mean": curve.mean.float(),
        "curve_var": curve.var.float(),
    }
    return {name + suffix: value for name, value in found.items()}
