"""Makes the results files, the figures and the numbers in README.md.

From the jobs in out/paper where there are any, else from the committed results.csv and results.json. A size counts
once all its jobs are done.
"""

from __future__ import annotations

import csv
import json
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import figures
import findings
import numpy as np
from networks import ACTIVATIONS, HEADS
from run import EPOCHS, SIZES, TIMES, jobs, result_file
from training import Job, curve_points

HERE = Path(__file__).parent
SCORES = ("inside", "outside", "inside_exact", "outside_exact", "last", "reported64", "true64")
STDS = {
    "std_left": -1 / 6,
    "std_middle": 0.0,
    "std_right": 1 / 6,
}  # predicted std where the noise vanishes, and between
COLUMNS = (*SCORES, *STDS)
CURVES = (("exact", 16), ("exact", 128))  # what the figures draw
LABELS = {"embedded": "embedded", "learned": "learned, σa² + σe²", "learned_a": "learned, σa² alone"}


@dataclass(frozen=True)
class Run:
    """One trained network."""

    hidden: int
    activation: str
    head: str
    seed: int
    best_epoch: int
    scores: dict[str, float]


def finished(folder: Path, epochs: int) -> list[Job]:
    """The jobs of the sizes that are complete."""
    sizes = [jobs((size,), epochs) for size in SIZES]
    return [job for size in sizes if all(result_file(folder, job).exists() for job in size) for job in size]


def collect(folder: Path, every: list[Job]) -> tuple[list[Run], dict[str, Any]]:
    """All runs, and what else the figures and the text need: predictions of typical networks, and times."""
    loaded = [(job, dict(np.load(result_file(folder, job)))) for job in every]
    runs = [run for job, result in loaded for run in _runs(job, result)]
    order = {name: k for k, name in enumerate([*ACTIVATIONS, *HEADS])}
    runs.sort(key=lambda run: (run.hidden, order[run.activation], order[run.head], run.seed))
    return runs, {**_wall(folder, len(every)), "curves": _curves(loaded, runs)}


def _wall(folder: Path, every: int) -> dict[str, Any]:
    """How long it took and with how many processes, if one go trained all these jobs."""
    path = folder / TIMES
    last = json.loads(path.read_text()) if path.exists() else {"jobs": 0}
    return {key: last[key] if last["jobs"] == every else None for key in ("wall_seconds", "workers")}


def _runs(job: Job, result: dict[str, Any]) -> Iterable[Run]:
    for h, head in enumerate(HEADS):
        for s, seed in enumerate(job.seeds):
            scores = {name: float(result[name][h, s]) for name in SCORES} | _stds(result["curve_var"][h, s])
            rounded = {name: round(value, 5) for name, value in scores.items()}
            yield Run(job.hidden, job.activation, head, seed, int(result["best_epoch"][h, s]), rounded)


def _stds(curve: Any) -> dict[str, float]:
    return {name: float(np.interp(x, curve_points(), np.sqrt(curve))) for name, x in STDS.items()}


def _curves(loaded: list[tuple[Job, dict[str, Any]]], runs: list[Run]) -> list[dict[str, Any]]:
    """The predictions of the network in the middle of its seeds, where it is drawn."""
    found = []
    for job, result in loaded:
        for h, head in enumerate(HEADS):
            typical = _typical(select(runs, job.hidden, job.activation, head))
            if (job.activation, job.hidden) in CURVES and typical.seed in job.seeds:
                s = job.seeds.index(typical.seed)
                arrays = {key: np.round(result[f"curve_{key}"][h, s], 5).tolist() for key in ("mean", "var")}
                found.append(dict(hidden=job.hidden, activation=job.activation, head=head, seed=typical.seed, **arrays))
    return sorted(found, key=lambda curve: (curve["hidden"], curve["activation"], curve["head"]))


def _typical(runs: list[Run]) -> Run:
    middle = statistics.median_low(run.scores["inside"] for run in runs)
    return next(run for run in runs if run.scores["inside"] == middle)


def select(runs: list[Run], hidden: int, activation: str, head: str) -> list[Run]:
    """The seeds of one network."""
    return [run for run in runs if (run.hidden, run.activation, run.head) == (hidden, activation, head)]


def write_results(runs: list[Run], extra: dict[str, Any], folder: Path) -> None:
    """results.csv, a row for each run, and results.json."""
    with (folder / "results.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["hidden", "activation", "head", "seed", "parameters", "best_epoch", *COLUMNS])
        for run in runs:
            parameters = HEADS[run.head].parameters(run.hidden)
            scores = [run.scores[name] for name in COLUMNS]
            writer.writerow([run.hidden, run.activation, run.head, run.seed, parameters, run.best_epoch, *scores])
    (folder / "results.json").write_text(json.dumps(extra, separators=(",", ":")) + "\n")


def read_results(folder: Path) -> tuple[list[Run], dict[str, Any]]:
    """What `write_results` wrote."""
    with (folder / "results.csv").open() as file:
        runs = [
            Run(
                int(row["hidden"]),
                row["activation"],
                row["head"],
                int(row["seed"]),
                int(row["best_epoch"]),
                {name: float(row[name]) for name in COLUMNS},
            )
            for row in csv.DictReader(file)
        ]
    return runs, json.loads((folder / "results.json").read_text())


@dataclass(frozen=True)
class Spread:
    """Median and quartiles over seeds."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        """`-0.741 (-0.745, -0.733)`, fewer digits for large numbers."""
        low, middle, high = (_digits(value) for value in (self.low, self.middle, self.high))
        return f"{middle} ({low}, {high})"


def _digits(value: float) -> str:
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


def markdown(table: Table, activation: str, score: str) -> str:
    """One table: a row for each size, a column for each head."""
    lines = ["| units | seeds | parameters | " + " | ".join(LABELS.values()) + " |", "|--:|--:|--:|--:|--:|--:|"]
    for hidden in table.sizes:
        seeds = len(select(table.runs, hidden, activation, "embedded"))
        cells = [str(table(hidden, activation, head, score)) for head in HEADS]
        counts = f"{HEADS['embedded'].parameters(hidden)}, {HEADS['learned'].parameters(hidden)}"
        lines.append(f"| {hidden} | {seeds} | {counts} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fill(text: str, blocks: dict[str, str]) -> str:
    """Replaces what stands between the markers `<!-- name -->` and `<!-- /name -->`."""
    for name, block in blocks.items():
        pattern = re.compile(rf"(<!-- {name} -->).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, block=block: f"{match[1]}\n{block}\n{match[2]}", text)  # type: ignore[misc]
        assert count == 1, name
    return text


def blocks(runs: list[Run], extra: dict[str, Any]) -> dict[str, str]:
    """The generated parts of README.md."""
    table = Table(runs)
    return {
        "short": findings.short(table),
        "inside-exact": markdown(table, "exact", "inside"),
        "outside-exact": markdown(table, "exact", "outside"),
        "inside-clamped": markdown(table, "clamped", "inside"),
        "rescored-clamped": markdown(table, "clamped", "inside_exact"),
        "outside-clamped": markdown(table, "clamped", "outside"),
        "findings": findings.compared_with_the_paper(table),
        "seconds": findings.times(table, extra["wall_seconds"], extra["workers"]),
    }


@click.command()
@click.option("--jobs", "folder", type=click.Path(path_type=Path), default=Path("out/paper"), show_default=True)
@click.option("--epochs", default=EPOCHS, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=HERE, show_default=True)
def main(folder: Path, epochs: int, out: Path) -> None:
    """Rewrite the results files, the figures and the numbers in README.md."""
    done = finished(folder, epochs)
    if done:
        write_results(*collect(folder, done), out)
    runs, extra = read_results(out)
    figures.draw_all(Table(runs), extra["curves"], out)
    readme = out / "README.md"
    readme.write_text(fill(readme.read_text(), blocks(runs, extra)))


if __name__ == "__main__":
    main()
