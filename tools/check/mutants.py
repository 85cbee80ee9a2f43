"""Applies small faults to copies of the source, one at a time, and shows which test catches each.

    python tools/check/mutants.py                       every fault, about 14 minutes of one core
    python tools/check/mutants.py --only conv --jobs 2  the faults whose area, file or title holds a text
    python tools/check/mutants.py --narrow              without the whole suite for those that the listed tests miss
    python tools/check/mutants.py --list

tools/check/faults/AREA.txt hold the faults, written like a diff. The file and its tests stand above the faults:

    file lbnn/ops/linear.py
    test tests/ops/test_ops.py -k linear

    the input's mean is not squared
    - (x.mean * x.mean, weight.var)
    + (x.mean, weight.var)

The old text occurs once in the file; `-2` means its second occurrence. Each `test` line is one call of pytest, tried in
order. A fault that none of them notices goes through the quick part of the suite, and survives if that passes too. The
checkout is never touched. Exit status 1: a fault survived; 2: the tests fail without any fault.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from mutants_run import CONSOLE, LIMIT, copy_of, each, environment, put, run_tests

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).resolve().parent / "faults"
EQUIVALENT = "equivalent"
"""The file of changes that can't be observed; the random mutants read it."""

SUITE_LIMIT = 3600
"""Seconds for the suite; a fault that makes it hang is caught."""

SLOW = (
    *("c_runtime/test_budget", "c_runtime/test_every_compiler", "c_runtime/test_strict", "c_runtime/test_vector_units"),
    *("device/test_cores", "device/test_devices", "device/test_firmware", "device/test_qemu", "device/test_stack"),
    *("exporters/onnx/test_consumers", "measure/test_bench", "measure/test_report"),
    *("cli/test_cli_demo", "cli/test_cli_sizes", "device/test_callgrind"),
    *("measure/test_charts", "measure/test_counting", "measure/test_live"),
    *(
        "robust/test_extremes",
        "robust/test_file_fuzz",
        "robust/test_fuzz",
        "robust/test_mutants",
        "robust/test_mutants_random",
        "robust/test_proof",
    ),
    *("robust/test_static_analysis", "system/test_edge_example", "system/test_examples", "system/test_paper"),
    *("system/test_python_versions", "system/test_supply_chain", "system/test_wheel"),
    *("train/test_processes", "train/test_plots"),
)
SUITE = "tests " + " ".join(f"--ignore=tests/{name}.py" for name in SLOW)
"""What a fault goes through that the listed tests miss: all but emulators, benchmarks and pictures."""

CAUGHT = ("caught", "hangs")

HEAD = ("file ", "test ")
"""How lines above faults begin."""

HEADERS = ("", "-DLBNN_NO_SIMD", "-DLBNN_NO_SIMD -DLBNN_OPTIMIZE_SIZE")
"""Forms of the runtime in which a fault in it must compile: what the compiler refuses tests nothing."""


@dataclass(frozen=True)
class Fault:
    """One small change of one file, and the tests that should notice it."""

    area: str
    file: str
    title: str
    old: str
    new: str
    occurrence: int  # 0: the only one
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """For people and for --only."""
        return f"{self.area}: {self.file}: {self.title}"


@dataclass(frozen=True)
class Result:
    """What became of a fault, and the first test that failed.

    `verdict` is caught, hangs (which counts as caught), survived, or refused: by the compiler, so that no test saw it.
    """

    fault: Fault
    verdict: str
    by: str
    seconds: float


# ---- the faults ----------------------------------------------------------------------------------------------


def read_faults(folder: Path = FAULTS) -> list[Fault]:
    """Every fault of every area."""
    paths = (path for path in sorted(folder.glob("*.txt")) if path.stem != EQUIVALENT)
    return [fault for path in paths for fault in parse(path.read_text(), path.stem)]


def parse(text: str, area: str) -> Iterator[Fault]:
    """The faults of one area: paragraphs of `file` and `test` lines, and of a title with - and + lines."""
    file, tests = "", ()
    for paragraph in re.split(r"\n{2,}", text.strip()):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if lines and lines[0].startswith(HEAD):
            assert all(line.startswith(HEAD) for line in lines), f"{area}: {lines[-1]}: no blank line above"
            file = next((line[5:] for line in lines if line.startswith("file ")), file)
            tests = tuple(line[5:] for line in lines if line.startswith("test "))
        elif lines:
            yield _fault(area, file, tests, lines)


def _fault(area: str, file: str, tests: tuple[str, ...], lines: list[str]) -> Fault:
    title, *body = lines
    found = [re.fullmatch(r"(-|\+)(\d*) ?(.*)", line) for line in body]
    assert all(found), f"{area}: {title}: lines begin with - or +"
    old, new = ("\n".join(m[3] for m in found if m and m[1] == sign) for sign in "-+")
    return Fault(area, file, title, old, new, int(found[0][2] or 0) if found[0] else 0, tests)


def mutated(text: str, fault: Fault) -> str:
    """The text with the fault in it."""
    count = text.count(fault.old) if fault.old else 0
    if count < max(1, fault.occurrence) or (count > 1 and not fault.occurrence):
        raise ValueError(f"{fault.name}: its old text occurs {count} times")
    parts = text.split(fault.old)
    at = max(1, fault.occurrence)
    return fault.old.join(parts[:at]) + fault.new + fault.old.join(parts[at:])


def problem(tree: Path, fault: Fault) -> str:
    """Why a fault that has been applied is no fair one: the language refuses it before any test sees it."""
    if fault.file.endswith(".py"):
        try:
            ast.parse((tree / fault.file).read_text())
        except SyntaxError as error:
            return str(error)
    if fault.file.endswith(".h"):
        for options in HEADERS:
            command = f"gcc -std=c99 -Wall -Wextra -Wconversion -Werror -fsyntax-only -Ic_runtime {options}"
            done = subprocess.run([*command.split(), "tests/c/all_kernels.c"], cwd=tree, capture_output=True, text=True)
            if done.returncode:
                return done.stderr
    return ""


# ---- one fault ------------------------------------------------------------------------------------------------


def try_fault(source: Path, fault: Fault, narrow: bool = False) -> Result:
    """Applies a fault to a copy of `source` and runs its tests until one fails."""
    start = time.monotonic()
    with copy_of(source) as tree:
        put(tree, fault.file, mutated((tree / fault.file).read_text(), fault))
        if why := problem(tree, fault):
            return Result(fault, "refused", why, time.monotonic() - start)
        calls = [(test, LIMIT) for test in fault.tests] + ([] if narrow else [(SUITE, SUITE_LIMIT)])
        by = next(filter(None, (run_tests(tree, test, limit) for test, limit in calls)), "")
    verdict = "survived" if not by else "hangs" if by == "hangs" else "caught"
    return Result(fault, verdict, by, time.monotonic() - start)


# ---- all of them ---------------------------------------------------------------------------------------------


def check_copy(tree: Path) -> None:
    """The copy's own package, runtime and templates are used, from any folder and in any subprocess."""
    script = "import lbnn; from lbnn.base.resources import folder as f; "
    script += "print(lbnn.__file__, f('c_runtime'), f('codegen_templates'), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tree.parent,
        env=environment(tree),
        capture_output=True,
        text=True,
        check=True,
    )
    strays = [path for path in done.stdout.splitlines() if not Path(path).is_relative_to(tree)]
    if strays:
        raise ValueError(f"a copy does not stand alone, it uses {', '.join(strays)}")


def broken_tests(source: Path, faults: Iterable[Fault], jobs: int) -> dict[str, str]:
    """Listed tests that fail without any fault, and the first failure of each."""

    def failure(selection: str) -> tuple[str, str]:
        with copy_of(source) as tree:
            return selection, run_tests(tree, selection)

    together = joined(test for fault in faults for test in fault.tests)
    return {selection: found for selection, found in each("tests without a fault", failure, together, jobs) if found}


def joined(selections: Iterable[str]) -> list[str]:
    """One selection for each file: everything that any of them picks."""
    picked: dict[str, list[str]] = {}
    for file, *options in map(shlex.split, dict.fromkeys(selections)):
        picked.setdefault(file, []).append(f"({options[1]})" if options else "")
    return [file if "" in keys else f"{file} -k {shlex.quote(' or '.join(keys))}" for file, keys in picked.items()]


def run_all(source: Path, faults: list[Fault], jobs: int, narrow: bool) -> list[Result]:
    """Tries every fault, with a line for each as it ends."""
    results = []
    for result in each("faults", lambda fault: try_fault(source, fault, narrow), faults, jobs):
        results.append(result)
        CONSOLE.out(f"{result.verdict:8} {result.seconds:5.1f} s  {result.fault.name}", highlight=False)
    return sorted(results, key=lambda result: faults.index(result.fault))


def show(results: list[Result]) -> None:
    """A row for each file, the sum, and every survivor."""
    from lbnn.base.terminal import print_table

    total = Counter((result.fault.area, result.fault.file) for result in results)
    left = [result for result in results if result.verdict not in CAUGHT]
    kept = Counter((result.fault.area, result.fault.file) for result in left)
    rows = [[area, file, str(count - kept[area, file]), str(count)] for (area, file), count in total.items()]
    rows.append(["all", "", str(total.total() - kept.total()), str(total.total())])
    print_table(("area", "file", "caught", "faults"), rows)
    print(f"{sum(result.seconds for result in results):.0f} seconds; survivors: {kept.total() or 'none'}")
    for result in left:
        print(
            f"  {result.verdict}: {result.fault.name}\n    - {result.fault.old}\n    + {result.fault.new}\n{result.by}"
        )


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--only", default="", metavar="PATTERN", help="Faults whose area, file or title matches.")
@click.option("--jobs", default=1, show_default=True, help="Faults tried at the same time.")
@click.option("--narrow", is_flag=True, help="The listed tests alone, not the suite behind them.")
@click.option("--list", "listing", is_flag=True, help="Print the faults and the tests that should catch them.")
def main(only: str, jobs: int, narrow: bool, listing: bool) -> None:
    """Runs the faults that `only` selects."""
    faults = [fault for fault in read_faults() if re.search(only, fault.name)]
    if listing:
        print("\n".join(f"{fault.name}\n    {'; '.join(fault.tests)}" for fault in faults))
        return
    with copy_of(ROOT) as source:  # later edits of the checkout do not matter
        check_copy(source)
        for fault in faults:
            mutated((source / fault.file).read_text(), fault)
        if broken := broken_tests(source, faults, jobs):
            print("\n".join(f"fails without a fault: {key}\n    {found}" for key, found in broken.items()))
            sys.exit(2)
        results = run_all(source, faults, jobs, narrow)
    show(results)
    sys.exit(any(result.verdict not in CAUGHT for result in results))


if __name__ == "__main__":
    main()
