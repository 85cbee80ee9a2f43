"""What the intervals of `lbnn calibrate` cover on public data: python tools/bench/uci_calibration.py DIR.

Of each set a third of the rows, drawn anew for each network, trains it as `lbnn train` does. The others are divided at
random, several times for each network, into rows to calibrate by and rows to count on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.base.terminal import progress
from lbnn.train.calibration import calibrate
from lbnn.train.metrics import coverage
from uci_methods import ours
from uci_nets import Array
from uci_page import with_error
from uci_protocol import Job, find_sets, read_split

NETWORKS, DIVISIONS, LEVEL = 5, 4, 0.9
HEAD = ("set", "rows to calibrate by", "rows counted", "splits", "calibrated", "before")


def all_rows(folder: Path, name: str) -> tuple[Array, Array]:
    """Inputs [n, d] and targets [n] of training and test rows."""
    x, y, x_test, y_test = read_split(Job(folder, name, 0, "", Path()))
    return np.concatenate([x, x_test]), np.concatenate([y, y_test])


def shares(x: Array, y: Array, seed: int) -> Iterator[tuple[int, int, float, float]]:
    """Of each division of one network: rows to calibrate by, rows counted, shares inside with and without."""
    draw = np.random.default_rng(seed)
    trained, unseen = np.split(draw.permutation(len(x)), [len(x) // 3])
    predicted = ours(x[trained], y[trained], None, x[unseen])
    moments, target = Moments(predicted.mean.T, predicted.var.T), torch.from_numpy(y[unseen])[:, None]
    for _ in range(DIVISIONS):
        used, counted = np.array_split(draw.permutation(len(unseen)), 2)
        rest = Moments(moments.mean[counted], moments.var[counted])
        low, high = calibrate(Moments(moments.mean[used], moments.var[used]), target[used], LEVEL).interval(rest)
        inside = ((low <= target[counted]) & (target[counted] <= high)).double().mean()
        yield len(used), len(counted), float(inside), coverage(rest, target[counted], [LEVEL])[LEVEL]


def count(sets: dict[str, tuple[Array, Array]]) -> Iterator[tuple[str, str]]:
    """Set and line of the table."""
    found: dict[str, list[tuple[int, int, float, float]]] = {name: [] for name in sets}
    runs = {f"{name}, network {seed}": (name, seed) for name in sets for seed in range(NETWORKS)}
    with progress("calibrating", list(runs)) as labels:
        for name, seed in (runs[label] for label in labels):
            found[name] += shares(*sets[name], seed)
    for name, divisions in found.items():
        used, counted, inside, before = zip(*divisions, strict=True)
        cells = [min(used), min(counted), len(divisions), with_error(inside), with_error(before)]
        yield name, " | ".join(map(str, cells))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, metavar="DIR", help="holds a folder for each set, as for make uci")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        sets = {name: all_rows(folder, name) for name, folder in find_sets(options.root).items()}
        lines = [f"| {name} | {cells} |" for name, cells in count(sets)]
    except LbnnError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    print("\n".join([f"| {' | '.join(HEAD)} |", "|---" + "|---:" * (len(HEAD) - 1) + "|", *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
