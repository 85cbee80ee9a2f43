"""Feeds the readers of CSV, .npz and model files with random and forged files; prints how each kind was received.

    python tools/check/fuzz_files.py --examples 20000 --seed 1

The properties are those of tests/support/file_fuzz.py. The first file that breaks one is printed and ends the run.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from lbnn.base.terminal import print_table, progress


@dataclass
class Result:
    """How the files of one property were received, and the dearest of them."""

    received: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    grown: int = 0


def main() -> None:
    """Runs every property and prints a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=5000, help="files of each kind; a model counts for ten")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
    properties = importlib.import_module("file_fuzz").PROPERTIES
    warnings.simplefilter("ignore")  # numpy warns of headers that it will refuse
    with progress("fuzzing", list(properties)) as names:
        results = {name: fuzz(name, properties[name], chosen.examples, chosen.seed) for name in names}
    columns = ("file", "files", "read", "refused", "slowest ms", "memory added MB")
    print_table(columns, [row(name, result) for name, result in results.items()])


def fuzz(name: str, subject: Any, examples: int, number: int) -> Result:
    """Checks so many files of one kind."""
    result, before = Result(), peak()

    @seed(number)
    @settings(max_examples=examples // 10 if name.startswith("model") else examples, database=None, deadline=None,
              phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(subject.files)
    def check(case: Any) -> None:
        start = time.process_time()
        result.received[subject.check(case, Path(folder))] += 1
        result.slowest = max(result.slowest, time.process_time() - start)

    with tempfile.TemporaryDirectory() as folder:
        check()
    result.grown = peak() - before
    return result


def row(name: str, result: Result) -> tuple[str, ...]:
    """A line of the table."""
    refused = result.received["refused"]
    total = sum(result.received.values())
    return (name, f"{total}", f"{total - refused}", f"{refused}", f"{1000 * result.slowest:.0f}", f"{result.grown}")


def peak() -> int:
    """The most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
