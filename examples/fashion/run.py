"""Trains every network that the comparison needs and keeps what each predicts: python run.py

A network whose file exists is not trained again, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from lbnn import LbnnError
from lbnn.base.files import write_file
from lbnn.base.terminal import progress

SEEDS, MEMBERS = 5, 3
HERE = Path(__file__).parent
OUT = HERE.parents[1] / "out" / "fashion"


@dataclass(frozen=True)
class Job:
    """A network to train."""

    network: str
    method: str
    seed: int

    @property
    def name(self) -> str:
        """Also the name of its file."""
        return f"{self.network}-{self.method}-{self.seed}".replace(" ", "_")


@dataclass(frozen=True)
class Size:
    """How much is trained, on what, and where it goes; None is what the networks usually get."""

    data: Path
    out: Path
    images: int
    epochs: int | None


def jobs(seeds: int = SEEDS) -> list[Job]:
    """All networks; as many plain ones as the ensembles have members."""
    counts = {"one pass": seeds, "plain": MEMBERS * seeds, "dropout": seeds}
    networks = ("MLP", "LeNet")
    return [Job(network, method, seed) for network in networks for method, n in counts.items() for seed in range(n)]


def members(seed: int, seeds: int) -> range:
    """The plain networks of an ensemble; no two ensembles share one."""
    return range(seed, MEMBERS * seeds, seeds)


def result_file(out: Path, job: Job) -> Path:
    """Where the predictions of a network are kept."""
    return out / f"{job.name}.npz"


def run_job(job: Job, size: Size) -> str:
    """Trains a network and writes what it says of the test images and of foreign ones."""
    import torch
    from data import foreign_sets, read_fashion
    from methods import train

    torch.set_num_threads(1)
    data = read_fashion(size.data, size.images)
    predict = train(job.network, job.method, job.seed, data, size.epochs)
    sets = {"test": data.test[0], **foreign_sets(data.test[0])}
    arrays = {}
    for name, images in sets.items():
        found = predict(images)
        arrays[f"{name}: probability"] = found.probability.numpy()
        arrays[f"{name}: logit variance"] = found.logit_variance.numpy()
    written = io.BytesIO()
    np.savez_compressed(written, **arrays)
    write_file(result_file(size.out, job), written.getvalue(), force=True)
    return job.name


def run(todo: list[Job], size: Size, workers: int) -> None:
    """Trains one after the other, or in processes of their own, and shows how far it is."""
    if workers == 1:
        with progress("training", [job.name for job in todo]) as names:
            for job, _ in zip(todo, names, strict=True):
                run_job(job, size)
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as pool, progress("training", [job.name for job in todo]) as names:
        for _, future in zip(names, [pool.submit(run_job, job, size) for job in todo], strict=True):
            future.result()


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="the folder of Fashion-MNIST, if not Debian's")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="where predictions are kept")
@click.option("--images", default=10_000, show_default=True, help="training images")
@click.option("--epochs", type=int, help="instead of 10 for the MLP and 8 for the LeNet")
@click.option("--seeds", default=SEEDS, show_default=True)
@click.option("--workers", default=2, show_default=True, help="processes, one core each")
def main(data: Path | None, out: Path, images: int, epochs: int | None, seeds: int, workers: int) -> None:
    """Train the networks of the comparison; `report.py` then makes results.csv and the pictures."""
    from data import FOLDER, read_fashion

    folder = data or FOLDER
    try:
        read_fashion(folder, 1)
    except LbnnError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    out.mkdir(parents=True, exist_ok=True)
    every = jobs(seeds)
    todo = [job for job in every if not result_file(out, job).exists()]
    click.echo(f"{len(every)} networks, {len(every) - len(todo)} already done in {out}")
    run(todo, Size(folder, out, images, epochs), workers)


if __name__ == "__main__":
    main()
