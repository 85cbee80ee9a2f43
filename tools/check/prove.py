"""Proves with Frama-C's EVA that C kernels and two whole models stay inside memory and the range of numbers.

    python tools/check/prove.py                       all kernels in all builds, ten minutes of one core
    python tools/check/prove.py --only lbnn_linear    some of them

tests/proof holds a function prove_NAME for each kernel, with intervals for its inputs. A proof is one run of EVA with
no alarm and no open check; it is void if the kernel's body was not analysed or the function never returns. Exits 1 if
a proof fails or if a function of the runtime was analysed by none.
"""

from __future__ import annotations

import argparse
import csv
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from lbnn.exporters.c.footprint import KERNELS
from lbnn.exporters.c.half_footprint import HALF_KERNELS
from lbnn.exporters.c.int_footprint import INTEGER_KERNELS

ROOT = Path(__file__).resolve().parents[2]
HARNESSES = ROOT / "tests/proof"
RUNTIME = ROOT / "c_runtime"
MODELS = ROOT / "tests/golden/c"

BUILDS = {"8": "-DLBNN_BLOCK=8", "4": "-DLBNN_BLOCK=4", "size": "-DLBNN_OPTIMIZE_SIZE", "half": "-DLBNN_HALF_WEIGHTS"}
# Words of half floats may be any bits, of which no interval of a float is left: memory alone is proved.
FINITE_BUILDS = ("8", "4", "size")
# What is looked for: with finite inputs any result that is not finite, with all bit patterns all other alarms.
INPUTS = {"finite": ("non-finite", ""), "any bits": ("none", "-DPROVE_ANY_BITS")}
MODEL_ENTRIES = ("mlp_predict", "cnn_predict")
# Kernels that are the same code in every build.
SCALAR = {"lbnn_abs", "lbnn_leaky_relu", "lbnn_leaky_relu_clamped"}
# The divisions of the clamped form need the relation between a tail and its moments, those of the heads that between
# probabilities and their sum, matches of max pools that between a difference and a sum,
# smooth activations that between a variance and its limit: no interval holds them.
NOT_FINITE = {
    *("lbnn_leaky_relu_clamped", "lbnn_softmax", "lbnn_softmax_fast", "lbnn_sigmoid"),
    *("lbnn_hardswish", "lbnn_max_pool", "lbnn_max_pool_2x2", "lbnn_piecewise", "lbnn_smooth", "lbnn_smooth_point"),
    *("lbnn_elu", "lbnn_elu_point"),  # tails and their density; an exponential whose bits are shifted
    *("lbnn_tabulated", "lbnn_sqrtf_by_digits"),
}
# Headers of these kernels, which are analysed in the first build alone.
HEADERS_OF_HEADS = (
    *("lbnn_elu.h", "lbnn_hardswish.h", "lbnn_heads.h", "lbnn_piecewise.h", "lbnn_smooth.h", "lbnn_tabulated.h"),
)
# Steps of the integer kernels whose callers are proved with a contract in place of the body.
INTEGER_STEPS = (
    *("lbnn_int_sqrt", "lbnn_int_lifted", "lbnn_int_apart", "lbnn_int_dropped", "lbnn_int_between"),
    *("lbnn_int_scale_shift", "lbnn_int_soft_at", "lbnn_int_float_of", "lbnn_int_behind"),
    "lbnn_int_below_four",
)
# The same of float kernels. The second reads a table: none does so for size, nor in models.c.
EXPONENTIALS = ("lbnn_exp2", "lbnn_density_by_steps")
# Called for what is left of a block, of which LBNN_OPTIMIZE_SIZE leaves nothing (LBNN_WHOLE_BLOCKS).
DEAD = {("lbnn_conv_pixel_one", "size"), ("lbnn_linear_one", "size"), ("lbnn_sum_run", "size")}
OPTIONS = (
    *("-eva-precision", "0", "-eva-auto-loop-unroll", "2000", "-eva-slevel", "20000"),
    *("-eva-subdivide-non-linear", "8"),
    *("-machdep", "gcc_x86_32", "-eva-no-show-progress", "-no-unicode"),
    "-warn-invalid-pointer",  # also where a pointer outside of its array is computed and never followed
)
LOOSE = "lbnn_leaky_relu_point:0,lbnn_sqrtf_by_digits:0"  # functions whose paths are joined
LOOSE_INTEGERS = "lbnn_int_larger:0,lbnn_int_smaller:0,lbnn_int_look_at:0,lbnn_int_narrow:16,lbnn_int_activate:16"
PROVED = {"Valid", "Considered valid", "Dead"}


@dataclass(frozen=True)
class Goal:
    """One function prove_NAME, in one build, with one kind of inputs."""

    name: str
    build: str
    inputs: str

    @property
    def is_model(self) -> bool:
        """A whole model, not a kernel."""
        return self.name in MODEL_ENTRIES

    @property
    def is_integer(self) -> bool:
        """A kernel that computes with integers."""
        return self.name.startswith("lbnn_int")

    @property
    def contracts(self) -> tuple[str, ...]:
        """Functions that have a contract in place of their body; none has it in its own proof."""
        floats = EXPONENTIALS[:1] if self.is_model or self.build == "size" else EXPONENTIALS
        steps = INTEGER_STEPS if self.is_integer else floats
        return tuple(step for step in steps if step != self.name)


@dataclass(frozen=True)
class Proof:
    """What EVA said: statements (reached, all) by function analysed, functions defined, and what it could not prove."""

    goal: Goal
    functions: dict[str, tuple[int, int]]
    defined: frozenset[str]
    alarms: tuple[str, ...]

    @property
    def runtime(self) -> dict[str, tuple[int, int]]:
        """The functions of the runtime alone."""
        return {name: counts for name, counts in self.functions.items() if name.startswith("lbnn_")}


def goals(only: Iterable[str] = ()) -> list[Goal]:
    """Every proof, or those of the names in `only`."""
    names = [*KERNELS, "lbnn_exp2"]
    finite = [
        Goal(n, build, "finite") for build in FINITE_BUILDS for n in names if n not in NOT_FINITE and _once(n, build)
    ]
    finite.append(Goal("lbnn_density_by_steps", "8", "finite"))
    any_bits = [Goal(n, "8", "any bits") for n in (*KERNELS, "lbnn_sqrtf_by_digits")]
    any_bits += [Goal(n, "half", "any bits") for n in HALF_KERNELS]
    integers = dict.fromkeys((*INTEGER_KERNELS, *INTEGER_STEPS))
    any_bits += [Goal(n, "8", "any bits") for n in integers]
    models = [Goal(n, "8", inputs) for n in MODEL_ENTRIES for inputs in INPUTS]
    chosen = set(only)
    return [goal for goal in (*finite, *any_bits, *models) if not chosen or goal.name in chosen]


def _once(name: str, build: str) -> bool:
    return build == "8" or name not in SCALAR


def prove(goal: Goal, runtime: Path = RUNTIME, define: str = "") -> Proof:
    """Runs EVA; `define` is given to the preprocessor (PROVE_SHORT: fewer boxes)."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.csv"
        done = subprocess.run(command(goal, runtime, define, report), capture_output=True, text=True, check=False)
        if done.returncode or not report.exists():
            raise RuntimeError(f"frama-c failed on {goal}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        rows = list(csv.DictReader(report.read_text().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    functions = _functions(done.stdout)
    return Proof(goal, functions, _defined(done.stdout), (*_void(goal, functions, done.stdout), *_unproved(goal, rows)))


def command(goal: Goal, runtime: Path, define: str, report: Path) -> list[str]:
    """The command line of Frama-C."""
    special, inputs = INPUTS[goal.inputs]
    folders = " ".join(f"-I{shlex.quote(str(folder))}" for folder in (HARNESSES, runtime, MODELS))  # read by a shell
    split = f"split_less:0,lbnn_emit:0,{goal.name}:0" if goal.is_model else "split_less:0,lbnn_emit:0"
    special_functions = ("-eva-split-return-function", split, "-eva-slevel-function", LOOSE)
    paths = ("-eva-slevel-function", LOOSE_INTEGERS) if goal.is_integer else special_functions
    contract = ("-eva-use-spec", ",".join(goal.contracts)) if goal.contracts else ()
    source = HARNESSES / ("models.c" if goal.is_model else "integers.c" if goal.is_integer else "kernels.c")
    return [
        *("frama-c", "-eva", *OPTIONS, *paths, *contract),
        *("-warn-special-float", special, "-main", f"prove_{goal.name}"),
        f"-cpp-extra-args={folders} -DLBNN_NO_SIMD {BUILDS[goal.build]} {inputs} {define}",
        *(str(source), "-then", "-report-csv", str(report), "-then", "-metrics", "-metrics-eva-cover"),
    ]


def _functions(log: str) -> dict[str, tuple[int, int]]:
    found = re.findall(r"^ *(\w+): (\d+) stmts out of (\d+)", log, re.MULTILINE)
    return {name: (int(reached), int(total)) for name, reached, total in found}


def _defined(log: str) -> frozenset[str]:
    listing = log.partition("Defined functions")[2].partition("Specified-only")[0]
    return frozenset(re.findall(r"\b(lbnn_\w+) \(\d+ calls?\)", listing))


def _void(goal: Goal, functions: dict[str, tuple[int, int]], log: str) -> list[str]:
    """What makes a run without alarms worth nothing."""
    missing = [f"{goal.name} was not analysed"] if goal.name not in functions else []
    endless = re.findall(r"Values at end of function (\w+):\s+NON TERMINATING", log)
    return missing + [f"{name} does not return" for name in endless]


def _unproved(goal: Goal, rows: list[dict[str, str]]) -> list[str]:
    """Alarms and open checks; the promise of a contract is proved where its body is."""
    promised = {*goal.contracts, *INTEGER_STEPS}  # those of integers hold relations: their proofs check them box by box
    return [
        f"{row['file']}:{row['line']}: {row['property kind']}: {row['property']} ({row['status']})"
        for row in rows
        if row["status"] not in PROVED and not (row["function"] in promised and row["property kind"] == "postcondition")
    ]


def never_analysed(proofs: list[Proof]) -> set[str]:
    """Functions of the runtime that no proof analysed, build by build."""
    missing = set()
    for build in {proof.goal.build for proof in proofs} & {*FINITE_BUILDS}:  # half floats change none but a few
        chosen = [proof for proof in proofs if proof.goal.build == build]
        # Those that only SCALAR kernels call are analysed in the first build.
        reached = {name for proof in chosen for name in proof.runtime} | (_scalar(proofs) if build != "8" else set())
        unseen = {name for proof in chosen for name in proof.defined - reached if (name, build) not in DEAD}
        missing |= {f"{name} ({build})" for name in unseen - (set() if build == "8" else _functions_of_heads())}
    return missing


def _functions_of_heads() -> set[str]:
    """Of heads and smooth activations: analysed in the first build alone."""
    text = "".join((RUNTIME / header).read_text() for header in HEADERS_OF_HEADS)
    return set(re.findall(r"^LBNN_(?:INLINE|KERNEL|DEFAULT_KERNEL) .*?\b(lbnn_\w+)\(", text, re.MULTILINE))


def _scalar(proofs: list[Proof]) -> set[str]:
    return {name for proof in proofs if proof.goal.name in SCALAR | {*EXPONENTIALS} for name in proof.runtime}


def coverage(functions: dict[str, tuple[int, int]]) -> float:
    """Statements reached of those in the functions, in percent."""
    return 100.0 * sum(reached for reached, _ in functions.values()) / max(1, sum(n for _, n in functions.values()))


def table(proofs: list[Proof]) -> Table:
    """A row for each proof."""
    grid = Table("proof", "build", "inputs", "functions", "statements", "alarms", box=None)
    for proof in proofs:
        goal, counts = proof.goal, proof.runtime
        numbers = (str(len(counts)), f"{coverage(counts):.0f} %", str(len(proof.alarms)))
        grid.add_row(goal.name, goal.build, goal.inputs, *numbers)
    return grid


def union(proofs: list[Proof]) -> dict[str, tuple[int, int]]:
    """Of each function the most statements that one proof reached."""
    most: dict[str, tuple[int, int]] = {}
    for proof in proofs:
        for name, counts in proof.runtime.items():
            most[name] = max(counts, most.get(name, counts))
    return most


def main() -> int:
    """Proves, prints the table and what failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="kernels or models; default: all")
    only = parser.parse_args().only
    progress = Console(stderr=True)
    proofs = [prove(goal) for goal in track(goals(only), "proving", console=progress, disable=not progress.is_terminal)]
    Console(width=110).print(table(proofs))
    failed = [f"{p.goal.name} ({p.goal.build}, {p.goal.inputs}): {alarm}" for p in proofs for alarm in p.alarms]
    failed += [] if only else [f"{name}: analysed by no proof" for name in sorted(never_analysed(proofs))]
    print("\n".join(failed))
    counts = union(proofs)
    partly = [f"{name} {reached} of {total}" for name, (reached, total) in sorted(counts.items()) if reached < total]
    print("statements that no single proof reached together: " + ", ".join(partly))
    print(
        f"{len(proofs)} proofs, {len(counts)} functions, {coverage(counts):.1f} % of statements, {len(failed)} failures"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
