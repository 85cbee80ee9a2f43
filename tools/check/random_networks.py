"""Runs random networks of every layer and argument on every backend and holds each to float64.

    python tools/check/random_networks.py [--networks 2000] [--seed 0] [--jobs 2] [--share 10]

Network number n is always the same: `--seed n --networks 1` runs it alone. Each either agrees with the float64
reference or is refused by an LbnnError of one line; anything else is a finding, printed as a program that shows it, and
status 1.
One in `--share` also runs on an emulated Cortex-M0, an emulated Cortex-M4 or under sanitizers.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lbnn.base.terminal import print_table, progress

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from draws import SeededDraw
from network_checks import AGREES, BOUNDED, FINDING, REFUSED, Finding, Result, backends_for, check, findings
from network_choices import draw_recipe
from recipes import Numbers, Recipe

BLOCK = 40  # networks between two looks at whether a worker died


@dataclass(frozen=True)
class Examined:
    """What one network was made of and what became of it."""

    number: int
    uses: tuple[tuple[str, str, str], ...]  # layer, argument, value
    results: tuple[Result, ...]
    findings: tuple[Finding, ...]


def examine(number: int, share: int) -> Examined:
    """One network on its backends."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torch's about odd arguments
    recipe = draw_recipe(SeededDraw(number))
    results = check(recipe, number, backends_for(number, share))
    return Examined(number, tuple(uses_of(recipe)), tuple(results), tuple(findings(recipe, number, results)))


def uses_of(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """Every layer and expression with the values of its arguments, as text; (layer, "", "") once for each."""
    for part in recipe.parts():
        name = part.kind.replace("bnn.", "").replace("nn.", "torch.nn.")
        yield name, "", ""
        for space in (part.arguments, part.weights or {}):
            yield from ((name, key, _label(value)) for key, value in space.items() if key != "seed")
    for step in recipe.steps:
        if isinstance(step.call, str):
            yield step.call.replace("{0}", "x").replace("{1}", "y").replace("{2}", "dim"), "", ""


def _label(value: Any) -> str:
    return f"tensor of rank {len(value.shape)}" if isinstance(value, Numbers) else str(value)


def examine_all(numbers: Sequence[int], jobs: int, share: int) -> Iterator[Examined]:
    """All of them in order; a network that kills its process is a finding like any other."""
    for start in range(0, len(numbers), BLOCK):
        block = numbers[start : start + BLOCK]
        try:
            with ProcessPoolExecutor(jobs) as pool:
                done = list(pool.map(examine, block, [share] * len(block)))
        except BrokenProcessPool:
            done = [_alone(number, share) for number in block]
        yield from done


def _alone(number: int, share: int) -> Examined:
    try:
        with ProcessPoolExecutor(1) as pool:
            return pool.submit(examine, number, share).result()
    except BrokenProcessPool:
        text = repr(draw_recipe(SeededDraw(number)))
        return Examined(number, (), (), (Finding(number, ("?",), "the process died", text),))


def show_findings(examined: Examined) -> None:
    """What was found, as soon as it is."""
    for finding in examined.findings:
        print(
            f"# network {finding.number} on {', '.join(finding.backends)}: {finding.what}\n{finding.program}\n",
            flush=True,
        )


def show(examined: Sequence[Examined]) -> int:
    """The tables; how many findings there are."""
    print_table(
        ("backend", "networks", "within 1e-5", "within the bound", "refused", "findings"), _backend_rows(examined)
    )
    reasons = Counter(_reason(r.what) for e in examined for r in e.results if r.status == REFUSED)
    print_table(("times", "refused because"), [[str(count), reason] for reason, count in reasons.most_common()])
    print_table(("layer or expression", "times", "arguments: value x times"), _use_rows(examined))
    found = sum(len(each.findings) for each in examined)
    print(f"{len(examined)} networks, {found} findings")
    return found


def _backend_rows(examined: Iterable[Examined]) -> list[list[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in examined:
        for result in each.results:
            counts[result.backend][result.status] += 1
    return [
        [name, str(found.total()), *(str(found[status]) for status in (AGREES, BOUNDED, REFUSED, FINDING))]
        for name, found in counts.items()
    ]


def _reason(message: str) -> str:
    """A message without the names and numbers of one network."""
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "N", re.sub(r"'[^']*'", "'...'", message))


def _use_rows(examined: Iterable[Examined]) -> list[list[str]]:
    times: Counter[str] = Counter()
    values: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for layer, argument, value in (use for each in examined for use in each.uses):
        if argument:
            values[layer][argument][value] += 1
        else:
            times[layer] += 1
    return [
        [layer, str(count), "; ".join(f"{key}: {_most(found)}" for key, found in values[layer].items())]
        for layer, count in sorted(times.items())
    ]


def _most(found: Counter[str]) -> str:
    """The most frequent values, and how many more there are."""
    shown = [f"{value} x {count}" for value, count in found.most_common(4)]
    return ", ".join([*shown, *([f"{len(found) - 4} more"] if len(found) > 4 else [])])


def main() -> int:
    """Runs the networks and prints what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first network")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--share", type=int, default=10, help="one in so many on emulated cores; 0 for none")
    given = parser.parse_args()
    numbers = range(given.seed, given.seed + given.networks)
    results = examine_all(numbers, given.jobs, given.share)
    examined = []
    with progress("random networks", [str(number) for number in numbers]) as steps:
        for _ in steps:
            examined.append(next(results))
            show_findings(examined[-1])
    return 1 if show(examined) else 0


if __name__ == "__main__":
    raise SystemExit(main())
