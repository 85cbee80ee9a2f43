"""The trained networks as rows of numbers: read from finished jobs, stored as CSV and JSON, summed up over seeds."""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from choices import CHOSEN, PRINTED
from networks import ACTIVATIONS, HEADS, Copies, unpack
from run import SIZES, TIMES, TRIED_TIMES, jobs, result_file, tries
from training import Job, curve_points

from lbnn.base.moments import Moments
from lbnn.train.losses import expected_gaussian_nll
from lbnn.train.montecarlo import monte_carlo
from lbnn.train.problem import INSIDE, OUTSIDE, true_mean, true_std

Array = np.ndarray[Any, Any]

PLACES = {f"std_{name}": value for name, value in (("-1.5", -1.5), ("-0.5", -0.5), ("-1/6", -1 / 6), ("0", 0.0))}
PLACES |= {"std_1/6": 1 / 6, "std_0.5": 0.5, "std_1.5": 1.5}
SIDES = ("left", "right")
SIDED = tuple(f"{name}_{side}" for name in ("z", "rise", "off") for side in SIDES)
MEASURES = ("inside", *SIDES, "mean_error", *SIDED, *PLACES)
COLUMNS = (*MEASURES, *(f"{name}_exact" for name in MEASURES), "last", "reported64", "true64")
TRIED_COLUMNS = ("inside", *SIDES, "inside_exact")
SHOWN = (4, 128, 1024)  # hidden units of the networks in figure 2
DRAWN = 10_000  # networks sampled beside one pass
KEY = ("label", "hidden", "activation", "head", "seed", "best_epoch")


@dataclass(frozen=True)
class Run:
    """One trained network; `scores` that end in _exact are those of its exact moments."""

    label: str
    hidden: int
    activation: str
    head: str
    seed: int
    best_epoch: int
    scores: dict[str, float]


@dataclass(frozen=True)
class Results:
    """The experiment, the other choices tried, and what the figures and the text need besides."""

    runs: list[Run]
    tried: list[Run]
    extra: dict[str, Any]


# --- from finished jobs ---------------------------------------------------------------------------------------


def finished(folder: Path, epochs: int) -> list[Job]:
    """The jobs of the sizes that are complete."""
    sizes = [jobs((size,), epochs) for size in SIZES]
    return [job for size in sizes if all(result_file(folder, job).exists() for job in size) for job in size]


def finished_tries(folder: Path, epochs: int) -> list[Job]:
    """The other choices, once all are done."""
    every = tries(epochs=epochs)
    return every if all(result_file(folder, job).exists() for job in every) else []


def collect(folder: Path, every: list[Job]) -> tuple[list[Run], dict[str, Any]]:
    """All runs, and what else is needed: predictions of typical networks, samples of them, and times."""
    loaded = [(job, dict(np.load(result_file(folder, job)))) for job in every]
    runs = _sorted(run for job, result in loaded for run in _runs(job, result, COLUMNS))
    shown = list(_shown(loaded, runs))
    return runs, {
        "times": _times(folder / TIMES, loaded),
        "curves": [_curve(*each) for each in shown],
        "montecarlo": [_sampled(*each) for each in shown if each[2] != "learned_a"],
    }


def collect_tries(folder: Path, every: list[Job]) -> tuple[list[Run], dict[str, Any]]:
    """The runs with other choices, and how long they took."""
    loaded = [(job, dict(np.load(result_file(folder, job)))) for job in every]
    runs = _sorted(run for job, result in loaded for run in _runs(job, result, TRIED_COLUMNS))
    return runs, {"tried_times": _times(folder / TRIED_TIMES, loaded)}


def _sorted(runs: Iterable[Run]) -> list[Run]:
    order = {name: k for k, name in enumerate([*ACTIVATIONS, "mirrored", *HEADS])}
    return sorted(runs, key=lambda run: (run.hidden, order[run.activation], order[run.head], run.label, run.seed))


def _times(path: Path, loaded: list[tuple[Job, dict[str, Any]]]) -> dict[str, Any]:
    """Processor seconds of the jobs, and the wall time and processes if one go did them all."""
    last = json.loads(path.read_text()) if path.exists() else {"jobs": 0}
    wall = {key: last[key] if last["jobs"] == len(loaded) else None for key in ("wall_seconds", "workers")}
    return {**wall, "cpu_seconds": round(sum(float(result["cpu_seconds"]) for _, result in loaded))}


def _runs(job: Job, result: dict[str, Any], columns: tuple[str, ...]) -> Iterator[Run]:
    for h, head in enumerate(HEADS):
        for s, (given, seed) in enumerate(job.members):
            label = PRINTED if job.activation == "mirrored" else given
            one = {name: value[h, s] for name, value in result.items() if name != "cpu_seconds"}
            scores = one if columns == TRIED_COLUMNS else _measures(one, "") | _measures(one, "_exact") | one
            rounded = {name: _rounded(scores[name]) for name in columns}
            yield Run(label, job.hidden, job.activation, head, seed, int(one["best_epoch"]), rounded)


def _rounded(value: Any) -> float:
    return float(f"{float(value):.5g}")


def _measures(one: dict[str, Array], suffix: str) -> dict[str, float]:
    """What the statements are judged by, from the predictions over [-1.5, 1.5]."""
    x = curve_points().numpy()
    mean, var = (one[f"curve_{part}{suffix}"].astype(float) for part in ("mean", "var"))
    nll, z2 = nll_curve(mean, var), standardised(mean, var)
    error = mean - true_mean(curve_points()).numpy()
    found = {
        "mean_error": _rms(error[np.abs(x) <= INSIDE]),
        **{f"z_{side}": math.sqrt(z2[_outside(x, side)].mean()) for side in SIDES},
        **{f"rise_{side}": _rise(x, nll, side) for side in SIDES},
        **dict(zip(("off_left", "off_right"), np.abs(error[[0, -1]]), strict=True)),  # at x = -1.5 and 1.5
        **{name: float(np.interp(place, x, np.sqrt(var))) for name, place in PLACES.items()},
    }
    return {name + suffix: value for name, value in found.items()}


def standardised(mean: Array, var: Array) -> Array:
    """Expected squared error over the predicted variance, at the curve's points: above 1 is overconfident."""
    points = curve_points()
    squares = true_std(points).square() + (true_mean(points) - torch.as_tensor(mean)) ** 2
    return (squares / torch.as_tensor(var)).numpy()  # type: ignore[no-any-return]


def nll_curve(mean: Array, var: Array) -> Array:
    """Expected NLL at the curve's points."""
    points = curve_points()
    moments = Moments(torch.as_tensor(mean).double(), torch.as_tensor(var).double())
    return expected_gaussian_nll(moments, true_mean(points), true_std(points) ** 2, "none").numpy()  # type: ignore[no-any-return]


def _rms(values: Array) -> float:
    return math.sqrt(float((values**2).mean()))


def _outside(x: Array, side: str) -> Array:
    return (x < -INSIDE) if side == "left" else (x > INSIDE)  # type: ignore[no-any-return]


def _rise(x: Array, nll: Array, side: str) -> float:
    """How much the loss grows from the half next to the training range to the half beyond."""
    middle = 0.5 * (INSIDE + OUTSIDE)
    here = _outside(x, side)
    return float(nll[here & (np.abs(x) > middle)].mean() - nll[here & (np.abs(x) <= middle)].mean())


Shown = tuple[Job, dict[str, Any], str, int]


def _shown(loaded: list[tuple[Job, dict[str, Any]]], runs: list[Run]) -> Iterator[Shown]:
    """For each network of figure 2 the seed in the middle: (job, its result, head, place of the seed)."""
    for job, result in sorted(loaded, key=lambda pair: (pair[0].hidden, pair[0].activation)):
        for head in HEADS:
            typical = _typical(select(runs, job.hidden, job.activation, head))
            if job.hidden in SHOWN and typical.seed in job.seeds:
                yield job, result, head, job.seeds.index(typical.seed)


def _typical(runs: list[Run]) -> Run:
    middle = statistics.median_low(run.scores["inside"] for run in runs)
    return next(run for run in runs if run.scores["inside"] == middle)


def _named(job: Job, head: str, place: int) -> dict[str, Any]:
    return dict(hidden=job.hidden, activation=job.activation, head=head, seed=job.seeds[place])


def _curve(job: Job, result: dict[str, Any], head: str, place: int) -> dict[str, Any]:
    row = list(HEADS).index(head)
    arrays = {part: [_rounded(v) for v in result[f"curve_{part}"][row, place]] for part in ("mean", "var")}
    return _named(job, head, place) | arrays


def _sampled(job: Job, result: dict[str, Any], head: str, place: int) -> dict[str, Any]:
    """One pass beside sampled networks: errors of the variance of the mean's output."""
    row = list(HEADS).index(head)
    copies = Copies(*(torch.as_tensor(result[part][row, place])[None] for part in ("units", "bias")))
    model = unpack(copies, 0, HEADS[head].module(job.hidden, job.activation, job.choices[0]))
    x = torch.linspace(-INSIDE, INSIDE, 32)[:, None]
    check = monte_carlo(model, x, DRAWN, torch.Generator().manual_seed(0))
    ratio = (check.one_pass.var / check.sampled.var)[:, 0]
    noise = (check.var_se / check.sampled.var)[:, 0]
    return _named(job, head, place) | {
        "error": _rounded(_rms((ratio - 1.0).numpy())),
        "noise": _rounded(_rms(noise.numpy())),
        "largest_ratio": _rounded(ratio.max()),
    }


# --- stored ----------------------------------------------------------------------------------------------------


def write(results: Results, folder: Path) -> None:
    """results.csv and choices.csv, a row for each run, and results.json."""
    _write_runs(results.runs, COLUMNS, folder / "results.csv")
    _write_runs(results.tried, TRIED_COLUMNS, folder / "choices.csv")
    (folder / "results.json").write_text(json.dumps(results.extra, separators=(",", ":")) + "\n")


def read(folder: Path) -> Results:
    """What `write` wrote."""
    extra = json.loads((folder / "results.json").read_text())
    return Results(
        _read_runs(folder / "results.csv", COLUMNS), _read_runs(folder / "choices.csv", TRIED_COLUMNS), extra
    )


def _write_runs(runs: list[Run], columns: tuple[str, ...], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEY, *columns])
        for run in runs:
            writer.writerow([*(getattr(run, key) for key in KEY), *(run.scores[name] for name in columns)])


def _read_runs(path: Path, columns: tuple[str, ...]) -> list[Run]:
    if not path.exists():
        return []
    with path.open() as file:
        return [_run(row, columns) for row in csv.DictReader(file)]


def _run(row: dict[str, str], columns: tuple[str, ...]) -> Run:
    names = (row["label"], int(row["hidden"]), row["activation"], row["head"], int(row["seed"]), int(row["best_epoch"]))
    return Run(*names, {name: float(row[name]) for name in columns})


# --- over the seeds --------------------------------------------------------------------------------------------


def select(runs: list[Run], hidden: int, activation: str, head: str, label: str = CHOSEN) -> list[Run]:
    """The seeds of one network."""
    wanted = (label, hidden, activation, head)
    return [run for run in runs if (run.label, run.hidden, run.activation, run.head) == wanted]


@dataclass(frozen=True)
class Spread:
    """Median and quartiles over seeds."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        """`-0.741 (-0.745, -0.733)`, fewer digits for large numbers."""
        low, middle, high = (digits(value) for value in (self.low, self.middle, self.high))
        return f"{middle} ({low}, {high})"


def digits(value: float) -> str:
    """Three decimals, fewer for large numbers."""
    if abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:.0e}".replace("e+0", "e")


class Table:
    """Spreads by size, activation, head and score."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.sizes = tuple(sorted({run.hidden for run in runs}))

    def __call__(self, hidden: int, activation: str, head: str, score: str) -> Spread:
        """Over the seeds there are."""
        values = [run.scores[score] for run in select(self.runs, hidden, activation, head)]
        return Spread(*(float(value) for value in np.quantile(values, (0.25, 0.5, 0.75))))

    def medians(self, activation: str, head: str, score: str) -> dict[int, float]:
        """The median for every size."""
        return {hidden: self(hidden, activation, head, score).middle for hidden in self.sizes}
