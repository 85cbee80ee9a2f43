"""Methods side by side on regression sets, by the standard protocol: make uci UCI=DIR.

    python tools/bench/uci.py DIR                      # all methods on all splits of the sets in DIR
    python tools/bench/uci.py DIR --methods "lbnn;MC dropout" --sets yacht,energy --splits 5
    python tools/bench/uci.py DIR --choices --splits 3 # how the rule of lbnn train was chosen, on training rows alone
    python tools/bench/uci.py DIR --page docs/uci.md   # and put the tables into the page, with a picture

Results are kept split by split in out/uci, so that an interrupted run goes on where it was; delete them after a change
of a method. tools/bench/uci_protocol.py describes the layout of DIR.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from lbnn.base.errors import LbnnError
from lbnn.base.terminal import progress
from uci_methods import CHOICES, COMPARED, METHODS
from uci_page import tables, update
from uci_protocol import Job, find_jobs, find_sets, read_split, results, run


def run_missing(jobs: Sequence[Job], workers: int) -> None:
    """Those that have no result, after a look at all data; the bar names the first that is not done."""
    for split in {(job.folder, job.split): job for job in jobs}.values():
        read_split(split)
    missing = {str(job): job for job in jobs if not job.result.is_file()}
    with progress("training", list(missing)) as names:
        if workers > 1:
            run_in_pool(missing, names, workers)
        else:
            for name in names:
                run(missing[name])


def run_in_pool(jobs: Mapping[str, Job], names: Iterable[str], workers: int) -> None:
    """Several at once; Ctrl-C, which reaches all processes, ends the workers without a word."""
    with ProcessPoolExecutor(workers, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)) as pool:
        futures = {name: pool.submit(run, job) for name, job in jobs.items()}
        try:
            for name in names:
                futures[name].result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, metavar="DIR", help="holds a folder for each set")
    parser.add_argument("--out", type=Path, default=Path("out/uci"))
    parser.add_argument("--methods", default="", help=f"names, separated by semicolons: {'; '.join(METHODS)}")
    parser.add_argument("--choices", action="store_true", help="how the rule was chosen: on training rows alone")
    parser.add_argument("--sets", default="", help="names of folders, separated by commas; all if left out")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--page", type=Path, help="put the tables into this page")
    parser.add_argument("--so-far", action="store_true", help="train nothing: what is there already")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing and prints the tables."""
    options = read_options(arguments)
    methods = options.methods.split(";") if options.methods else list(CHOICES if options.choices else COMPARED)
    try:
        sets = find_sets(options.root, [name for name in options.sets.split(",") if name])
        jobs = list(find_jobs(sets, methods, options.splits, options.out, options.choices))
        if not options.so_far:
            run_missing(jobs, options.jobs)
        found = results(jobs)
        print(tables(found))
        if options.page:
            update(options.page, found)
    except LbnnError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
