"""What the comparison found: results.csv and the pictures from finished runs, and tables of results.csv for the README.

python report.py collect    # after run.py: results.csv, abstention.png, foreign.png
python report.py scores     # accuracy, NLL, calibration, abstention
python report.py foreign    # how well the entropy tells foreign pictures from clothes
python report.py seeds      # one pass beside the plain network, seed by seed
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import torch
from data import FOLDER, Fashion, read_fashion
from methods import NETWORKS
from run import OUT, SEEDS, Job, members, result_file
from torch import Tensor

from lbnn import LbnnError, class_metrics

HERE = Path(__file__).parent
METHODS = ("plain", "dropout", "one pass", "ensemble")
LABELS = {
    "plain": "plain",
    "dropout": "MC dropout, 20 passes",
    "one pass": "**one pass of lbnn**",
    "ensemble": "ensemble of 3 plain",
}
FOREIGN_SETS = ("turned 90", "negative", "digits", "noise")
SCORES = ("accuracy", "nll", "ece", "area_under_risk", "error_of_sure")
COLUMNS = ("network", "method", "seed", *SCORES, *FOREIGN_SETS, *(f"variance: {name}" for name in FOREIGN_SETS))
SURE = 0.8  # the share of the images that is answered where the rest is given up


@dataclass(frozen=True)
class Found:
    """What a method says of the test images and of foreign ones: probabilities and mean variances of the logits."""

    probability: Mapping[str, Tensor]
    variance: Mapping[str, Tensor]

    def entropy(self, name: str) -> Tensor:
        """Of each image of a set."""
        return class_metrics.entropy_rows(self.probability[name].double())


def read_job(out: Path, job: Job) -> Found:
    """What a network said."""
    with np.load(result_file(out, job)) as arrays:
        parts = {key: torch.from_numpy(arrays[key]) for key in arrays.files}
    split = [{key.partition(":")[0]: value for key, value in parts.items() if key.endswith(end)} for end in KINDS]
    return Found(*split)


KINDS = (": probability", ": logit variance")


def read_method(out: Path, network: str, method: str, seed: int, seeds: int) -> Found:
    """Of an ensemble the mean of its members."""
    if method != "ensemble":
        return read_job(out, Job(network, method, seed))
    joined = [read_job(out, Job(network, "plain", member)) for member in members(seed, seeds)]
    mean = {name: torch.stack([one.probability[name] for one in joined]).mean(0) for name in joined[0].probability}
    return Found(mean, joined[0].variance)


def every(out: Path, seeds: int) -> Iterator[tuple[str, str, int, Found]]:
    """All methods and seeds."""
    for network in NETWORKS:
        for method in METHODS:
            for seed in range(seeds):
                yield network, method, seed, read_method(out, network, method, seed, seeds)


# ---- numbers ----------------------------------------------------------------------------------------------------


def row(network: str, method: str, seed: int, found: Found, labels: Tensor) -> dict[str, str]:
    """A line of results.csv."""
    probability = found.probability["test"]
    summary = class_metrics.class_summary(probability, labels)
    coverage, risk = class_metrics.risk_coverage(probability, labels)
    values = dict(
        accuracy=summary.accuracy, nll=summary.log_loss, ece=summary.calibration_error,
        area_under_risk=summary.area_under_risk, error_of_sure=float(risk[int((coverage <= SURE).sum()) - 1]),
    )  # fmt: skip
    values |= {name: told_apart(found.entropy("test"), found.entropy(name)) for name in FOREIGN_SETS}
    if method == "one pass":
        variance = found.variance
        values |= {f"variance: {name}": told_apart(variance["test"], variance[name]) for name in FOREIGN_SETS}
    shown = {name: f"{value:.5f}" for name, value in values.items()}
    return {"network": network, "method": method, "seed": str(seed), **shown}


def told_apart(known: Tensor, foreign: Tensor) -> float:
    """The chance that a foreign image scores higher than a known one."""
    return class_metrics.auroc(torch.cat([known, foreign]), torch.arange(len(known) + len(foreign)) >= len(known))


def write_rows(rows: Iterable[dict[str, str]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path = HERE / "results.csv") -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def select(rows: list[dict[str, str]], network: str, method: str, column: str) -> list[float]:
    """A column of one method, seed by seed."""
    return [float(row[column]) for row in rows if (row["network"], row["method"]) == (network, method)]


def table(head: list[str], lines: Iterable[list[str]], words: int) -> str:
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))


def scores() -> str:
    """Means over the seeds with the standard deviation of a single one."""
    rows = read_rows()
    names = ["accuracy", "NLL", "ECE", "area under risk", f"error in the surest {SURE:.0%}"]

    def cells(network: str, method: str) -> Iterator[str]:
        for column in SCORES:
            values = select(rows, network, method, column)
            yield f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"

    lines = [[network, LABELS[method], *cells(network, method)] for network in NETWORKS for method in METHODS]
    return table(["network", "method", *names], lines, 2)


def foreign() -> str:
    """AUROC of the entropy, and of what is no score."""
    rows = read_rows()

    def line(network: str, method: str, label: str, prefix: str = "") -> list[str]:
        columns = (select(rows, network, method, prefix + name) for name in FOREIGN_SETS)
        return [network, label, *(f"{statistics.mean(values):.3f}" for values in columns)]

    lines = []
    for network in NETWORKS:
        lines += [line(network, method, f"entropy, {LABELS[method]}") for method in METHODS]
        lines.append(line(network, "one pass", "mean variance of the logits: **no score**", "variance: "))
    return table(["network", "score", *FOREIGN_SETS], lines, 2)


def seeds() -> str:
    """NLL and ECE of each seed, plain and in one pass."""
    rows = read_rows()
    lines = []
    for network in NETWORKS:
        columns = [select(rows, network, method, name) for name in ("nll", "ece") for method in ("plain", "one pass")]
        for i, values in enumerate(zip(*columns, strict=True)):
            lines.append([f"{network}, {i}", *(f"{value:.3f}" for value in values)])
    return table(["network, seed", "NLL plain", "NLL one pass", "ECE plain", "ECE one pass"], lines, 1)


# ---- commands ---------------------------------------------------------------------------------------------------


def collect(out: Path, data: Fashion, place: Path, seeds: int) -> None:
    """Writes results.csv and the pictures."""
    from pictures import draw_abstention, draw_foreign

    from lbnn.train.plots import save_picture

    labels = data.test[1]
    found = {(network, method, seed): one for network, method, seed, one in every(out, seeds)}
    write_rows((row(*key, one, labels) for key, one in found.items()), place / "results.csv")
    save_picture(draw_abstention(found, labels), place / "abstention.png")
    save_picture(draw_foreign(found["LeNet", "one pass", 0], data.test[0]), place / "foreign.png")


TABLES: dict[str, Callable[[], str]] = {"scores": scores, "foreign": foreign, "seeds": seeds}


@click.command()
@click.argument("what", type=click.Choice(["collect", *TABLES]))
@click.option("--data", type=click.Path(path_type=Path), default=FOLDER, help="the folder of Fashion-MNIST")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="where run.py kept its predictions")
@click.option("--place", type=click.Path(path_type=Path), default=HERE, help="where to write (default: this folder)")
@click.option("--seeds", default=SEEDS, show_default=True)
def main(what: str, data: Path, out: Path, place: Path, seeds: int) -> None:
    """Collect what run.py found, or print a table of results.csv."""
    if what in TABLES:
        click.echo(TABLES[what]())
        return
    try:
        collect(out, read_fashion(data), place, seeds)
    except FileNotFoundError as error:
        click.echo(f"Error: {error.filename} is missing; run run.py first", err=True)
        sys.exit(2)
    except LbnnError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
