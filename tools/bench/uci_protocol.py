"""The standard protocol: the layout of a folder of sets, one training on one split, and where its scores are kept.

A set is a folder with data.txt, index_features.txt and index_target.txt, and for each split N index_train_N.txt and
index_test_N.txt; all of them may lie in a folder `data` inside. A method sees the training rows of a split and predicts
its test rows. The name of a result holds a digest of the files that it is of: other data are trained anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from lbnn.base.errors import LbnnError
from lbnn.base.files import write_file
from uci_methods import METHODS
from uci_nets import Array
from uci_scores import score

ByMethod = dict[str, dict[int, dict[str, Any]]]
"""Results of one set by method and split."""
BySet = dict[str, ByMethod]
COMMON = ("data.txt", "index_features.txt", "index_target.txt")


@dataclass(frozen=True)
class Job:
    """One method on one split of one set; `inside` tests on a tenth of the training rows."""

    folder: Path
    name: str
    split: int
    method: str
    out: Path
    inside: bool = False

    def __str__(self) -> str:
        return f"{self.method} on {self.name}, split {self.split}"

    @property
    def files(self) -> list[Path]:
        """Of which the result is."""
        parts = (f"index_train_{self.split}.txt", f"index_test_{self.split}.txt")
        return [self.folder / file for file in (*COMMON, *parts)]

    @property
    def result(self) -> Path:
        """Where its scores are kept."""
        digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in self.files)).hexdigest()[:12]
        kind = f"{self.name}-inside" if self.inside else self.name
        return self.out / kind / f"{self.method}-{self.split:02d}-{digest}.json"


def find_sets(root: Path, names: Sequence[str] = ()) -> dict[str, Path]:
    """The folders of the sets by name: all, or those that are named."""
    if not root.is_dir():
        raise LbnnError(f"{root} is no folder; give the one that holds the sets: make uci UCI=DIR")
    if (root / "data.txt").is_file():
        raise LbnnError(f"{root} is a set itself; give the folder above it: make uci UCI={root.parent}")
    places = [place for folder in sorted(root.iterdir()) for place in (folder, folder / "data")]
    found = {
        (place.parent if place.name == "data" else place).name: place
        for place in places
        if (place / "data.txt").is_file()
    }
    missing = [name for name in names if name not in found]
    if not found or missing:
        wanted = f"set {missing[0]}" if missing else "set"
        layout = "a folder with data.txt, index_train_0.txt and so on"
        raise LbnnError(f"{root} holds no {wanted}, that is {layout}; give the folder above it: make uci UCI=DIR")
    return {name: found[name] for name in names} if names else found


def find_jobs(
    sets: dict[str, Path], methods: Sequence[str], splits: int, out: Path, inside: bool = False
) -> Iterator[Job]:
    """Every split of every set, method by method."""
    for method in methods:
        if method not in METHODS:
            raise LbnnError(f"there is no method {method!r}; choose from: {'; '.join(METHODS)}")
    counts = {name: count_splits(folder) for name, folder in sets.items()}
    for method in methods:
        for split in range(splits):
            for name, folder in sets.items():
                if split < counts[name]:
                    yield Job(folder, name, split, method, out, inside)


def count_splits(folder: Path) -> int:
    """How many there are; a file that is missing is named."""
    count = len(list(folder.glob("index_train_*.txt")))
    parts = [f"index_{part}_{split}.txt" for split in range(max(1, count)) for part in ("train", "test")]
    for file in (*COMMON, *parts):
        if not (folder / file).is_file():
            raise LbnnError(f"{folder} is not a whole set: {file} is missing")
    return count


def read_split(job: Job) -> tuple[Array, Array, Array, Array]:
    """Inputs [n, d] and targets [n] to train on, and to test."""
    data = _read(job.files[0])
    if not np.isfinite(data).all():
        raise LbnnError(f"{job.files[0]} holds values that are not finite; leave their rows out")
    rows, columns = data.shape
    features, targets = (_read_index(file, columns, "columns") for file in job.files[1:3])
    fitted, scored = (_read_index(file, rows, "rows") for file in job.files[3:])
    if len(targets) != 1:
        raise LbnnError(f"{job.files[2]} names {len(targets)} targets; one is needed")
    if job.inside:
        scored, fitted = np.split(np.random.default_rng(job.split).permutation(fitted), [len(fitted) // 10])
    x, y = data[:, features], data[:, targets[0]]
    return x[fitted], y[fitted], x[scored], y[scored]


def _read_index(file: Path, end: int, what: str) -> Array:
    index = _read(file).ravel()
    if not index.size or np.any(index != np.round(index)) or index.min() < 0 or index.max() >= end:
        raise LbnnError(f"{file} is no list of {what} of data.txt, which has {end}; the first is 0")
    return index.astype(int)


def _read(file: Path) -> Array:
    try:
        return np.loadtxt(file, ndmin=2)
    except ValueError as problem:
        raise LbnnError(f"{file} is not a table of numbers: {problem}") from None


def run(job: Job) -> None:
    """Chooses, trains, predicts, scores and writes, on one thread; times are of the processor.

    Nothing is done where another run was quicker, so that several can share the work.
    """
    if job.result.is_file():
        return
    torch.set_num_threads(1)
    method = METHODS[job.method]
    x, y, new, target = read_split(job)
    with threadpool_limits(1):
        unit = method.unit(x, y)
        begun = time.process_time()
        chosen = method.choose(x, y)
        ready = time.process_time()
        prediction = method.fit(x, y, chosen, new)
        done = time.process_time()
    scores = asdict(score(prediction, torch.from_numpy(target)))
    times = {"choosing": ready - begun, "training": done - ready, "unit": unit}
    record = scores | times | {"rows": len(x), "chosen": None if chosen is None else str(chosen)}
    job.result.parent.mkdir(parents=True, exist_ok=True)
    write_file(job.result, json.dumps(record, indent=1), force=True)


def results(jobs: Sequence[Job]) -> BySet:
    """What is there already: by set, by method, by split."""
    found: BySet = {}
    for job in jobs:
        if job.result.is_file():
            kept = found.setdefault(job.name, {}).setdefault(job.method, {})
            kept[job.split] = json.loads(job.result.read_text())
    return found
