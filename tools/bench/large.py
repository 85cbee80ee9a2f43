"""Trains on tables of up to 10,000,000 rows that stay on the disk, and prints what memory that takes.

    python tools/bench/large.py                     # into out/large; about 15 minutes of one core, 2 GB of disk
    python tools/bench/large.py --rows 100000

Eight inputs, y = sin(2 a) + b c + d / 2 + noise of sigma 0.1 + 0.1 |e|; three inputs say nothing. Peak memory is the
most that the process held resident, by resource.getrusage; the first row has a table that hardly takes any, and shows
what Python and torch take themselves.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from lbnn.base.terminal import progress, share_bar

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h")
ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Measured:
    """A command on a table: peak memory in MB, seconds, and what it printed."""

    memory: float
    seconds: float
    found: dict[str, Any]


def batches(rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    """The table in parts, four digits a number."""
    rng = np.random.default_rng(seed)
    for start in range(0, rows, ROWS_AT_ONCE):
        x = rng.uniform(-1, 1, (min(ROWS_AT_ONCE, rows - start), len(NAMES)))
        a, b, c, d, e = x.T[:5]
        y = np.sin(2 * a) + b * c + d / 2 + sigma(e) * rng.normal(size=len(x))
        columns = {name: np.round(values, 4) for name, values in zip((*NAMES, "y"), (*x.T, y), strict=True)}
        yield pa.RecordBatch.from_pydict(columns)


def sigma(e: Any) -> Any:
    """Of the noise."""
    return 0.1 + 0.1 * np.abs(e)


def ideal() -> tuple[float, float]:
    """NLL and RMSE of who knows the formula: log sigma and sigma^2 averaged over e uniform in [-1, 1]."""
    e = (np.arange(100_000) + 0.5) / 100_000
    nll = float(np.log(sigma(e)).mean()) + 0.5 * (math.log(2 * math.pi) + 1)
    return nll, float(np.sqrt((sigma(e) ** 2).mean()))


def write_table(path: Path, rows: int, seed: int) -> Path:
    """A CSV or a Parquet file, by its ending; one that is there is used again."""
    if path.exists():
        return path
    first = next(batches(1, seed))
    making = path.with_name(f"new {path.name}")
    writers = {".csv": pa.csv.CSVWriter, ".parquet": pa.parquet.ParquetWriter}
    with writers[path.suffix](making, first.schema) as writer, share_bar(f"writing {path.name}") as show:
        for number, batch in enumerate(batches(rows, seed), 1):
            writer.write_batch(batch) if path.suffix == ".parquet" else writer.write(batch)
            show(min(1.0, number * ROWS_AT_ONCE / rows))
    return making.rename(path)


def measured(*words: Any) -> Measured:
    """Runs a command in a process of its own."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "lbnn", *map(str, words), "--force", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return Measured(usage.ru_maxrss / 1024, time.perf_counter() - start, json.loads(text))


def row(path: Path, rows: int, options: Sequence[str]) -> str:
    """A line of the table."""
    model = path.with_suffix(".pt")
    trained = measured("train", path, "--target", "y", "--stream", "-o", model, *options)
    predicted = _predicted(model, path) if path.suffix == ".csv" else None
    test = trained.found["test"]
    cells = (
        f"{rows:,} rows, {path.suffix[1:]}",
        f"{path.stat().st_size / 1e6:,.0f} MB",
        f"{trained.memory:.0f} MB",
        f"{predicted.memory:.0f} MB" if predicted else "",
        f"{trained.seconds:.0f} s",
        f"{predicted.seconds:.0f} s" if predicted else "",
        f"{test['nll']:.3f}",
        f"{test['rmse']:.3f}",
        f"{test['coverage']['95%']:.1%}",
    )
    return f"| {' | '.join(cells)} |"


def _predicted(model: Path, path: Path) -> Measured:
    told = path.with_suffix(".told.csv")
    found = measured("predict", model, path, "-o", told)
    told.unlink()
    return found


def main() -> None:
    """Writes the tables, trains and predicts, prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, default=Path("out/large"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="csv,parquet", help="which files")
    parser.add_argument("options", nargs="*", help="for lbnn train, behind --")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    sizes = [(1000, ".csv"), *((args.rows, f".{kind}") for kind in args.kinds.split(","))]
    print("| | on disk | `train` | `predict` | `train` | `predict` | NLL | RMSE | 95 % covers |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    with progress("measuring", [f"{count:,} rows, {kind[1:]}" for count, kind in sizes]) as steps:
        for (count, kind), _ in zip(sizes, steps, strict=True):
            path = write_table(args.out / f"{count} rows, seed {args.seed}{kind}", count, args.seed)
            print(row(path, count, args.options), flush=True)
    nll, rmse = ideal()
    print(f"| who knows the formula | | | | | | {nll:.3f} | {rmse:.3f} | 95.0% |")


if __name__ == "__main__":
    main()
