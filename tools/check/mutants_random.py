"""Tries mutants that are drawn at random, and shows which survive the tests.

    python tools/check/mutants_random.py --count 200 --seed 1 --jobs 2
    python tools/check/mutants_random.py --count 200 --seed 1 --list
    python tools/check/mutants_random.py --count 60 --area kernels

The areas and their tests are in mutants_draw.py, the operators in mutants_python.py and mutants_c.py. Results are kept
in out/mutants-random.json: a second call of the same draw tries only what is missing or survived. What can't be
observed is listed with the reason in faults/equivalent.txt and not tried. A mutant that can't be imported or compiled
is `refused`: no test has earned it. Exit status 1: a mutant survived; 2: the tests fail without any.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from mutants import ROOT, Fault, broken_tests, check_copy, problem
from mutants_draw import AREAS, GOLDEN, Mutant, draw, equivalents, selections
from mutants_run import CONSOLE, RefusedError, copy_of, each, put, run_tests

RESULTS = ROOT / "out" / "mutants-random.json"
SECONDS = 40
"""Of the processor, for one call of pytest: most need less than ten."""

VERDICTS = ("refused", "caught", "hangs", "equivalent", "survived")


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: one of VERDICTS, the first test that failed or the reason, and the time."""

    area: str
    file: str
    line: int
    operator: str
    old: str
    new: str
    verdict: str
    by: str
    seconds: float

    def diff(self) -> str:
        """For people."""
        lines = difflib.unified_diff(self.old.splitlines(), self.new.splitlines(), n=0, lineterm="")
        return "\n".join([f"{self.file}:{self.line}: {self.operator}", *list(lines)[3:]])


def try_mutant(source: Path, mutant: Mutant, narrow: bool = False) -> Outcome:
    """Puts a mutant into a copy of `source` and runs its tests until one fails."""
    start = time.monotonic()
    with copy_of(source) as tree:
        put(tree, mutant.file, mutant.edit.applied((tree / mutant.file).read_text()))
        verdict, by = _verdict(tree, mutant, narrow)
    return outcome(mutant, verdict, by, time.monotonic() - start)


def outcome(mutant: Mutant, verdict: str, by: str, seconds: float = 0.0) -> Outcome:
    """The row for a mutant."""
    edit = mutant.edit
    place = (mutant.area, mutant.file, mutant.line, edit.operator, mutant.old, mutant.new)
    return Outcome(*place, verdict, by, round(seconds, 1))


def _verdict(tree: Path, mutant: Mutant, narrow: bool) -> tuple[str, str]:
    if mutant.file.endswith(".h") and (why := problem(tree, Fault("", mutant.file, "", "", "", 0, ()))):
        return "refused", why.splitlines()[0]
    try:
        for number, selection in enumerate(selections(mutant, narrow)):
            if by := run_tests(tree, selection, SECONDS, probe="" if number else mutant.file):
                return ("hangs" if by == "hangs" else "caught"), by
    except RefusedError as error:
        return "refused", str(error).strip().splitlines()[-1]
    except ValueError as error:  # the mutant leaves no test to be selected
        return "caught", str(error).splitlines()[0]
    return "survived", ""


# ---- results that last ------------------------------------------------------------------------------------------


class Results:
    """Outcomes by the keys of their mutants, and the tests that pass without a mutant in the tree as it is."""

    def __init__(self, path: Path, root: Path = ROOT) -> None:
        self.path, self.state = path, state(root)
        kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self.outcomes = {key: Outcome(**row) for key, row in kept.get("outcomes", {}).items()}
        self.sound = set(kept["sound"] if kept.get("state") == self.state else ())

    def save(self) -> None:
        """Whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = {key: asdict(row) for key, row in self.outcomes.items()}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"state": self.state, "sound": sorted(self.sound), "outcomes": rows}, indent=1))
        new.replace(self.path)


def state(root: Path) -> str:
    """A digest of everything that a test may read."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    digest = hashlib.sha256()
    for name in sorted(filter(None, done.stdout.split("\0"))):
        path = root / name
        digest.update(name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


# ---- the command ------------------------------------------------------------------------------------------------


def unsound(mutants: list[Mutant], results: Results, jobs: int, narrow: bool) -> dict[str, str]:
    """Tests that fail without any mutant; those that pass are remembered."""
    needed = {test: None for mutant in mutants for test in selections(mutant, narrow) if test not in results.sound}
    broken = broken_tests(ROOT, [Fault("", "", "", "", "", 0, tuple(needed))], jobs)
    if not broken:
        results.sound |= {*needed}
        results.save()
    return broken


def run(mutants: list[Mutant], results: Results, jobs: int, narrow: bool = False) -> list[Outcome]:
    """Tries those that are not settled, and gives the outcomes of all."""
    known, listed = results.outcomes, equivalents()
    for mutant in mutants:
        if why := listed.get(mutant.listed()):
            known[mutant.key] = outcome(mutant, "equivalent", why)
    again = "" if narrow else "survived"
    todo = {m.key: m for m in mutants if m.key not in known or known[m.key].verdict == again}
    with copy_of(ROOT) as source:  # later edits of the checkout do not matter
        check_copy(source)
        work = each("mutants", lambda m: (m, try_mutant(source, m, narrow)), [*todo.values()], jobs)
        for mutant, row in work:
            known[mutant.key] = row
            results.save()
            CONSOLE.out(f"{row.verdict:8} {row.seconds:6.1f} s  {row.file}:{row.line} {row.operator}", highlight=False)
    return [known[mutant.key] for mutant in mutants]


def show(outcomes: list[Outcome]) -> None:
    """A row for each area, what only the golden files noticed, and every survivor as a diff."""
    from lbnn.base.terminal import print_table

    count = Counter((row.area, row.verdict) for row in outcomes)
    areas = list(dict.fromkeys(row.area for row in outcomes))
    rows = [
        [area, str(sum(count[area, v] for v in VERDICTS)), *(str(count[area, v]) for v in VERDICTS)] for area in areas
    ]
    total = [sum(count[area, verdict] for area in areas) for verdict in VERDICTS]
    rows.append(["all", str(sum(total)), *map(str, total)])
    print_table(("area", "drawn", *VERDICTS), rows)
    print(f"noticed by the golden files alone: {sum(row.by.startswith(GOLDEN) for row in outcomes)}")
    for row in outcomes:
        if row.verdict == "survived":
            print(f"\nsurvived: {row.diff()}")


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--count", default=100, show_default=True, help="Mutants to draw.")
@click.option("--seed", default=1, show_default=True, help="Gives other mutants.")
@click.option("--area", "areas", multiple=True, type=click.Choice(tuple(AREAS)), help="Draw from these alone.")
@click.option("--jobs", default=1, show_default=True, help="Mutants tried at the same time.")
@click.option("--narrow", is_flag=True, help="Quick tests alone: what survives them is tried again by a call without.")
@click.option("--trust", is_flag=True, help="Do not try the tests without a mutant first.")
@click.option("--results", "path", default=RESULTS, type=click.Path(path_type=Path), help="Where outcomes are kept.")
@click.option("--list", "listing", is_flag=True, help="Print the mutants and try none.")
def main(
    count: int, seed: int, areas: tuple[str, ...], jobs: int, narrow: bool, trust: bool, path: Path, listing: bool
) -> None:
    """Draws, tries, shows."""
    mutants = draw(ROOT, count, seed, areas or tuple(AREAS))
    if listing:
        print("\n\n".join(outcome(mutant, "", "").diff() for mutant in mutants))
        return
    results = Results(path)
    if broken := {} if trust else unsound(mutants, results, jobs, narrow):
        print("\n".join(f"fails without a mutant: {key}\n    {found}" for key, found in broken.items()))
        sys.exit(2)
    outcomes = run(mutants, results, jobs, narrow)
    show(outcomes)
    sys.exit(any(row.verdict == "survived" for row in outcomes))


if __name__ == "__main__":
    main()
