"""The standard protocol on regression sets: make uci UCI=DIR, with the folders of DIR in the usual layout.

A folder holds data.txt, index_features.txt and index_target.txt, and for each split N index_train_N.txt and
index_test_N.txt. Every method sees the training rows of a split and predicts mean and variance of its test rows.
Results are kept split by split in out/uci, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn.base.moments import Moments
from lbnn.train import metrics
from lbnn.train.recipe import SMALLEST_BATCH, predict_in_parts, recipe_for, train_network

Array = np.ndarray[Any, Any]
Method = Callable[[Array, Array, Array], tuple[Array, Array]]
"""(x_train, y_train, x_test) -> mean and variance of the targets [n, 1] of the test rows."""


def ours(x: Array, y: Array, x_test: Array, **given: Any) -> tuple[Array, Array]:
    """What `lbnn train` fits to the rows that it gets, with those fields of its recipe that are given."""
    x, y, x_test = (part.astype(np.float32) for part in (x, y, x_test))
    model, _ = train_network(x, y, recipe_for(len(x), x.shape[1:], **given))
    out = predict_in_parts(model, torch.from_numpy(x_test))
    return out.mean.double().numpy(), out.var.double().numpy()


def of_steps(x: Array, y: Array, x_test: Array, steps: int) -> tuple[Array, Array]:
    """The same with another number of steps."""
    return ours(x, y, x_test, epochs=math.ceil(steps / math.ceil(len(x) / SMALLEST_BATCH)))


METHODS: dict[str, Method] = {
    "lbnn": ours,
    "one layer": partial(ours, hidden=(50,)),
    "two layers": partial(ours, hidden=(50, 50)),
    "25 units": partial(ours, hidden=(25,)),
    "rate 0.01": partial(ours, lr=0.01),
    "rate 0.04": partial(ours, lr=0.04),
    "batches of 64": partial(ours, batch=64),
    "10,000 steps": partial(of_steps, steps=10_000),
    "learned variance": partial(ours, head=True),
}
CHOICES = tuple(METHODS)


@dataclass(frozen=True)
class Job:
    """One method on one split of one set."""

    folder: Path
    split: int
    method: str
    out: Path
    inside: bool

    @property
    def result(self) -> Path:
        """Where its scores are kept."""
        kind = "inside-" if self.inside else ""
        return self.out / f"{kind}{self.method}-{self.folder.name}-{self.split:02d}.json"


def run(job: Job) -> None:
    """Trains, predicts, scores and writes."""
    torch.set_num_threads(1)
    (x, y), (x_test, y_test) = rows_of(job.folder, job.split, job.inside)
    mean, var = METHODS[job.method](x, y, x_test)
    moments = Moments(torch.from_numpy(mean), torch.from_numpy(var))
    scores = metrics.summary(moments, torch.from_numpy(y_test), (0.9, 0.95))
    job.result.parent.mkdir(parents=True, exist_ok=True)
    half = job.result.with_suffix(".part")
    half.write_text(json.dumps(asdict(scores) | {"train_rows": len(x)}))
    half.replace(job.result)


def rows_of(folder: Path, split: int, inside: bool) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Training and test rows: inputs [n, d], targets [n, 1]; `inside` tests on a tenth of the training rows."""
    data = np.loadtxt(folder / "data.txt")
    features, target = (np.loadtxt(folder / f"index_{name}.txt", dtype=int) for name in ("features", "target"))
    x, y = data[:, features], data[:, [int(target)]]
    train, test = (np.loadtxt(folder / f"index_{name}_{split}.txt").astype(int) for name in ("train", "test"))
    if inside:
        shuffled = np.random.default_rng(split).permutation(train)
        test, train = np.split(shuffled, [len(train) // 10])
    return (x[train], y[train]), (x[test], y[test])


def jobs_of(root: Path, methods: list[str], sets: list[str], splits: int, out: Path, inside: bool) -> Iterator[Job]:
    """Every split of every set by every method."""
    for folder in sorted(path for path in root.iterdir() if (path / "data.txt").is_file()):
        if sets and folder.name not in sets:
            continue
        found = len(list(folder.glob("index_train_*.txt")))
        for split in range(min(splits, found)):
            yield from (Job(folder, split, method, out, inside) for method in methods)


def table(jobs: list[Job]) -> str:
    """A row for each set and method: means over splits and their standard errors."""
    lines = [
        "| set | method | splits | log-likelihood | RMSE | CRPS | 95 % covers |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job in jobs:
        if job.result.is_file():
            groups.setdefault((job.folder.name, job.method), []).append(json.loads(job.result.read_text()))
    for (name, method), found in groups.items():
        cells = [
            with_error([-r["nll"] for r in found]),
            *(with_error([r[key] for r in found]) for key in ("rmse", "crps")),
        ]
        covered = np.mean([r["coverage"]["0.95"] for r in found])
        lines.append(f"| {name} | {method} | {len(found)} | {' | '.join(cells)} | {covered:.3f} |")
    return "\n".join(lines)


def with_error(values: list[float]) -> str:
    """The mean and its standard error."""
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{np.mean(values):.3f} ± {error:.3f}"


def main() -> None:
    """Runs what is missing and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/uci"))
    parser.add_argument("--methods", default="lbnn", help=f"names, separated by semicolons: {'; '.join(METHODS)}")
    parser.add_argument("--choices", action="store_true", help="how the rule was chosen: all, on training rows alone")
    parser.add_argument("--sets", default="", help="names of folders; all if left out")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    sets = [name for name in options.sets.split(",") if name]
    methods = CHOICES if options.choices else options.methods.split(";")
    jobs = list(jobs_of(options.root, list(methods), sets, options.splits, options.out, options.choices))
    missing = [job for job in jobs if not job.result.is_file()]
    with ProcessPoolExecutor(options.jobs) as pool:
        for done, _ in enumerate(pool.map(run, missing), 1):
            print(f"\r{done} of {len(missing)} trainings", end="", flush=True)
    print(f"\n{table(jobs)}")


if __name__ == "__main__":
    main()
