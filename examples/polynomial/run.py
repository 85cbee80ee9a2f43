"""Trains every network of the experiment in two processes, one for each core, and keeps each job's result.

A job whose result file exists is not run again, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import queue
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
from choices import BATCH, CHOSEN, TOGETHER, TRIED_SIZES
from networks import ACTIVATIONS, HEADS
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from training import Job, train

SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
EPOCHS = 10_000
LARGEST = 250_000  # elements of a job's hidden layer: more would leave the cache
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # Freed tensors stay in the process; else the C library returns them and the kernel zeroes new pages every epoch.
    "MALLOC_MMAP_THRESHOLD_": "33554432",  # the largest that is accepted
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
}

TIMES, TRIED_TIMES = "times.json", "tried-times.json"  # how long the last go took, and how much of the whole it was

_progress: Any = None


def seeds(hidden: int) -> range:
    """Small networks differ more from seed to seed."""
    return range(10 if hidden <= 64 else 5)


def jobs(sizes: tuple[int, ...] = SIZES, epochs: int = EPOCHS) -> list[Job]:
    """All jobs, the most expensive first."""
    every = [
        Job(hidden, activation, part, epochs)
        for hidden in sizes
        for activation in ACTIVATIONS
        for part in _parts(tuple(seeds(hidden)), max(1, LARGEST // (BATCH * hidden * len(HEADS))))
    ]
    return sorted(every, key=lambda job: -job.cost)


def tried_seeds(hidden: int) -> tuple[int, ...]:
    """The seeds with which other choices are tried."""
    return tuple(range(10 if hidden < 64 else 5))


def tries(sizes: tuple[int, ...] = TRIED_SIZES, epochs: int = EPOCHS) -> list[Job]:
    """The jobs with other choices, the most expensive first."""
    kinds = [(form, labels) for labels in TOGETHER for form in ACTIVATIONS] + [("mirrored", (CHOSEN,))]
    every = [Job(hidden, form, tried_seeds(hidden), epochs, labels) for form, labels in kinds for hidden in sizes]
    return sorted(every, key=lambda job: -job.cost)


def _parts(values: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def result_file(folder: Path, job: Job) -> Path:
    """Where a job's result is kept."""
    return folder / f"{job.name}.npz"


def run_job(job: Job, folder: Path) -> None:
    """Trains and writes the result in one step, with the processor time it took."""
    start = sum(os.times()[:4])  # own and of the compiler
    result = train(job, lambda epochs: _progress.put(epochs * job.cost / job.epochs) if _progress else None)
    result["cpu_seconds"] = np.array(sum(os.times()[:4]) - start)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **cast("dict[str, Any]", result))
    part = result_file(folder, job).with_suffix(".part")
    part.write_bytes(buffer.getvalue())
    part.replace(result_file(folder, job))


def _connect(progress: Any) -> None:
    global _progress
    _progress = progress


def run(todo: list[Job], folder: Path, workers: int) -> None:
    """Runs the jobs in processes of their own and shows how far they are."""
    os.environ.update(WORKER_ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    progress = context.Queue()
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with ProcessPoolExecutor(workers, context, _connect, (progress,)) as pool, Progress(*columns) as bar:
        futures = [pool.submit(run_job, job, folder) for job in todo]
        task = bar.add_task("", total=round(sum(job.cost for job in todo) / 1e6))
        for done in _amounts(futures, progress):
            bar.advance(task, done / 1e6)
    for future in futures:
        future.result()


def _amounts(futures: list[Future[None]], progress: Any) -> Iterator[float]:
    """What the workers report, until all are done or one fails."""
    while True:
        state = wait(futures, timeout=0, return_when=FIRST_EXCEPTION)
        try:
            yield progress.get(timeout=0.5)
        except queue.Empty:
            if not state.not_done:
                return
        if any(future.exception() for future in state.done):
            for future in futures:
                future.cancel()
            return


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/paper"), show_default=True)
@click.option("--epochs", default=EPOCHS, show_default=True)
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True, help="hidden units, comma-separated")
@click.option("--workers", default=2, show_default=True, help="processes, one core each")
@click.option("--choices", is_flag=True, help="the other choices where the paper is silent, at 4 and 64 units")
def main(out: Path, epochs: int, sizes: str, workers: int, choices: bool) -> None:
    """Train the networks of the polynomial experiment; `report.py` then makes the table and figures."""
    out.mkdir(parents=True, exist_ok=True)
    every = tries(epochs=epochs) if choices else jobs(tuple(int(size) for size in sizes.split(",")), epochs)
    todo = [job for job in every if not result_file(out, job).exists()]
    click.echo(f"{len(every)} jobs, {len(every) - len(todo)} already done in {out}")
    if todo:
        start = time.perf_counter()
        run(todo, out, workers)
        times = {"jobs": len(todo), "workers": workers, "wall_seconds": round(time.perf_counter() - start)}
        (out / (TRIED_TIMES if choices else TIMES)).write_text(json.dumps(times) + "\n")


if __name__ == "__main__":
    main()
