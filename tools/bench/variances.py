"""What factors in place of free variances cost in accuracy: make variances UCI=DIR.

    python tools/bench/variances.py DIR         # regression sets in DIR, and the paper's problem
    python tools/bench/variances.py DIR --sets bostonHousing --splits 2 --page docs/variances.md

Each network is what `lbnn train --variance ...` fits, with the same seed. The sets are those of tools/bench/uci.py; of
the paper's problem 4,096 points are drawn with each seed, for two hidden layers of 16, and the expected NLL over its
inputs is exact. Results are kept one by one in out/variances, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.files import write_file
from lbnn.base.moments import Moments
from lbnn.base.terminal import progress
from lbnn.nn.spread import VARIANCES
from lbnn.train.problem import draw, inside_grid, true_mean, true_std
from lbnn.train.recipe import predict_in_parts, recipe_for, train_network
from uci_protocol import Job, find_sets, read_split

POINTS, GRID, HIDDEN = 4096, 2000, (16, 16)
PAPER = {"paper, embedded": False, "paper, head": True}
BLOCK = "<!-- table: make variances -->\n", "<!-- end of table -->\n"

Scores = dict[tuple[str, str], dict[int, float]]
"""NLL in nats of each split or seed, by set and variance."""


def moments_of(x: Floats, y: Floats, new: Floats, variance: str, seed: int, **given: object) -> Moments[torch.Tensor]:
    """What the trained network predicts, in float64."""
    recipe = recipe_for(len(x), x.shape[1:], variance=variance, **given)
    model, _ = train_network(x, y, recipe, seed, progress=False)
    out = predict_in_parts(model, torch.from_numpy(new))
    return Moments(out.mean.double(), out.var.double())


def expected_nll(out: Moments[torch.Tensor], mean: torch.Tensor, var: torch.Tensor | float) -> float:
    """Of observations with this mean and variance, on average over rows."""
    return float((0.5 * torch.log(2.0 * math.pi * out.var) + ((mean - out.mean) ** 2 + var) / (2.0 * out.var)).mean())


def score_set(folder: Path, name: str, variance: str, split: int) -> float:
    """The NLL on the test rows of a split."""
    x, y, new, seen = read_split(Job(folder, name, split, "", Path()))
    rows = [part.astype(np.float32) for part in (x, y[:, None], new)]
    return expected_nll(moments_of(*rows, variance, 0), torch.from_numpy(seen[:, None]), 0.0)


def score_paper(head: bool, variance: str, seed: int) -> float:
    """The expected NLL over the inputs of the paper's problem."""
    x, y = (part.numpy() for part in draw(POINTS, 1, torch.Generator().manual_seed(seed)))
    grid = inside_grid(GRID)[:, None]
    out = moments_of(x, y, grid.numpy().astype(np.float32), variance, seed, hidden=HIDDEN, head=head)
    return expected_nll(out, true_mean(grid), true_std(grid) ** 2)


def run(sets: dict[str, Path], splits: int, out: Path, so_far: bool) -> Scores:
    """All that have no result yet, unless what there is `so_far` is enough, and then all results."""
    jobs: dict[tuple[str, str, int], Callable[[], float]] = {}
    for split in range(splits):
        for variance in VARIANCES:
            for name, folder in sets.items():
                jobs[name, variance, split] = lambda f=folder, n=name, v=variance, s=split: score_set(f, n, v, s)  # type: ignore[misc]
            for name, head in PAPER.items():
                jobs[name, variance, split] = lambda h=head, v=variance, s=split: score_paper(h, v, s)  # type: ignore[misc]
    places = {key: out / f"{'-'.join(map(str, key))}.json" for key in jobs}
    with progress("training", [key for key, place in places.items() if not (so_far or place.is_file())]) as missing:
        for key in missing:
            write_file(places[key], json.dumps(jobs[key]()), force=True)
    scores: Scores = {}
    for (name, variance, split), place in places.items():
        if place.is_file():
            scores.setdefault((name, variance), {})[split] = json.loads(place.read_text())
    return scores


def table(scores: Scores) -> str:
    """A row for each set: the NLL with full variances, and how much more the others have, with its standard error."""
    head = f"| NLL in nats | splits or seeds | full | {' | '.join(f'{v} - full' for v in VARIANCES[1:])} |"
    lines = [head, "|---|---:" + "|---:" * len(VARIANCES) + "|"]
    for name in dict.fromkeys(name for name, _ in scores):
        full = scores[name, "full"]
        more = [with_error(full, scores.get((name, variance), {})) for variance in VARIANCES[1:]]
        lines.append(f"| {name} | {len(full)} | {np.mean(list(full.values())):.3f} | {' | '.join(more)} |")
    return "\n".join(lines) + "\n"


def with_error(full: dict[int, float], other: dict[int, float]) -> str:
    """The mean of the differences and its standard error; of fewer splits with their number."""
    differences = np.array([other[split] - value for split, value in full.items() if split in other])
    if len(differences) < 2:
        return "-"
    error, few = differences.std(ddof=1) / math.sqrt(len(differences)), len(differences) < len(full)
    return f"{differences.mean():+.3f} ± {error:.3f}" + (f" ({len(differences)})" if few else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """The table, printed and perhaps put into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, metavar="DIR", help="holds a folder for each set")
    parser.add_argument("--sets", default="bostonHousing,concrete", help="names, separated by commas")
    parser.add_argument("--splits", type=int, default=5, help="of each set, and seeds of the paper's problem")
    parser.add_argument("--out", type=Path, default=Path("out/variances"))
    parser.add_argument("--so-far", action="store_true", help="train nothing, show what there is")
    parser.add_argument("--page", type=Path, help="to put the table into")
    options = parser.parse_args(arguments)
    try:
        sets = find_sets(options.root, options.sets.split(","))
        options.out.mkdir(parents=True, exist_ok=True)
        text = table(run(sets, options.splits, options.out, options.so_far))
    except LbnnError as error:
        print(error, file=sys.stderr)
        return 2
    print(text)
    if options.page:
        before, rest = options.page.read_text().split(BLOCK[0])
        write_file(options.page, before + BLOCK[0] + text + BLOCK[1] + rest.split(BLOCK[1], 1)[1], force=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
