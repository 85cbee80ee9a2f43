"""Runs cppcheck with MISRA, clang-tidy and gcc -fanalyzer over the C runtime and generated models.

    python tools/check/analyze.py                 all kernels and the models of tests/golden/c
    python tools/check/analyze.py FOLDER ...      other folders written by lbnn export
    python tools/check/analyze.py --update        writes docs/deviations.md from the table below

Exits 1 on a finding whose rule is not in DEVIATIONS, and on a deviation that no longer occurs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "c_runtime"
KERNELS = ROOT / "tests/c/all_kernels.c"
MODELS = tuple(ROOT / "tests/golden/c" / name for name in ("cnn", "mlp", "mlp_variance_binary"))
PAGE = ROOT / "docs/deviations.md"

# Every rule that the runtime or generated code breaks on purpose, and why.
DEVIATIONS = {
    "misra-c2012-2.3": "NAME_work is for callers, who declare their work memory by it",
    "misra-c2012-2.4": "an enum without a variable is how C names an integer constant without a macro",
    "misra-c2012-2.5": "LBNN_SIMD is tested with defined(), which cppcheck does not count as a use",
    "misra-c2012-5.9": "the runtime is headers alone: each source file has its own static copy of what it uses",
    "misra-c2012-8.9": "constants stand at file scope, as one readable table; work memory of the example is static",
    "misra-c2012-10.3": "pointers advance by an int; of the self-test, a comparison is kept as an int",
    "misra-c2012-10.4": "16-bit members of a shape are added to an int, to which C promotes them",
    "misra-c2012-10.5": "the result of a comparison of vectors is taken as a mask of bits",
    "misra-c2012-10.8": "a vector of floats is taken for its bits, and back",
    "misra-c2012-11.9": "the null pointer is 0: NULL would want stddef.h, and headers are included by C++ too",
    "misra-c2012-12.1": "formulas read as formulas: products before sums need no parentheses",
    "misra-c2012-12.3": "members of a structure that belong together are declared in one line",
    "misra-c2012-13.3": "*out++ is one step through an array",
    "misra-c2012-14.1": "does not occur: a pointer to floats that walks to its end is no counter of floating type",
    "misra-c2012-14.2": "the last block of pixels is moved to the left where it would be incomplete",
    "misra-c2012-14.4": "an int that is 0 or 1 is a condition; C99 without stdbool.h",
    "misra-c2012-15.5": "arguments are checked first, and a function that cannot go on returns",
    "misra-c2012-17.7": "memcpy and printf return nothing that is needed",
    "misra-c2012-17.8": "pointers and counts that are arguments advance in place, which saves registers",
    "misra-c2012-18.4": "packed weights are walked with pointers; EVA proves that they stay inside",
    "misra-c2012-20.5": "#undef ends the life of the macro that reads the list of status codes",
    "misra-c2012-20.7": "a macro's argument that is a name cannot stand in parentheses",
    "misra-c2012-21.6": "only example_main.c prints",
    "bugprone-branch-clone": "branches that name registers to the compiler are alike where it needs no names",
    "bugprone-easily-swappable-parameters": "sizes are int and arrays float *; generated code makes the calls",
    "bugprone-implicit-widening-of-multiplication-result": "offsets are int: an array has less than 2^31 elements",
    "-Wanalyzer-shift-count-overflow": "does not occur: gcc 12 takes the lanes of a vector for its bits",
}


@dataclass(frozen=True)
class Finding:
    """What a tool says about a line."""

    rule: str
    place: str
    message: str


BUILDS = ("-ULBNN_NO_SIMD", "-DLBNN_NO_SIMD")
# The same for cppcheck, which is no compiler and defines nothing of its own.
CPPCHECK_BUILDS = (("-D__GNUC__=12", "-D__SSE2__=1"), ("-DLBNN_NO_SIMD",))
CPPCHECK = (
    *("--std=c99", "--enable=all", "--inconclusive", "--addon=misra", "--quiet", "--suppress=missingIncludeSystem"),
    *("--template={file}:{line}: {message} [{id}]", f"-I{RUNTIME}"),
)
CLANG_TIDY = ("-quiet", "-header-filter=.*", "-checks=-*,bugprone-*,cert-*,clang-analyzer-*")
GCC = (
    *("-std=c99", "-O2", "-Wall", "-Wextra", "-fanalyzer", "-fdiagnostics-path-format=none"),
    *("-fno-diagnostics-show-caret", f"-I{RUNTIME}", "-o", "/dev/null"),
)


def cppcheck(sources: list[Path]) -> str:
    """All checks and MISRA C:2012, by number alone, of files that make one program."""
    return "".join(_run("cppcheck", *CPPCHECK, *build, *sources).stderr for build in CPPCHECK_BUILDS)


def clang_tidy(sources: list[Path]) -> str:
    """The checks bugprone, cert and clang-analyzer, headers included."""
    compiler = ("--", "-std=c99", f"-I{RUNTIME}")
    return "".join(_run("clang-tidy", *CLANG_TIDY, *sources, *compiler, build).stdout for build in BUILDS)


def gcc(sources: list[Path]) -> str:
    """Paths through each file that end in an error."""
    return "".join(_run("gcc", *GCC, build, "-c", source).stderr for build in BUILDS for source in sources)


TOOLS: dict[str, Callable[[list[Path]], str]] = {"cppcheck": cppcheck, "clang-tidy": clang_tidy, "gcc": gcc}


def _run(*command: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def findings(output: str) -> set[Finding]:
    """Those in lines `file:line:column: severity: message [rule]`."""
    found = re.findall(r"^([^\n:]+:\d+)(?::\d+)?: (.*) \[([\w.,=-]+)\]$", output, re.MULTILINE)
    return {Finding(rule, place, message) for place, message, rule in found}


def analyze(folders: Iterable[Path] = MODELS) -> list[Finding]:
    """What the tools say about all kernels, and about each folder as one program."""
    programs = [[KERNELS], *(sorted(folder.glob("*.c")) for folder in folders)]
    found = set().union(*(findings(tool(sources)) for sources in programs for tool in TOOLS.values()))
    return sorted(found, key=lambda finding: (finding.rule, finding.place))


def undocumented(found: list[Finding]) -> list[Finding]:
    """Findings that no deviation covers."""
    return [finding for finding in found if finding.rule not in DEVIATIONS]


PAGE_HEAD = """# Deviations from MISRA C:2012 and other rules

The C runtime and generated models break the rules below on purpose, and no other that cppcheck (all checks and MISRA),
clang-tidy (bugprone, cert, clang-analyzer) and gcc -fanalyzer look for: `make analyze` fails on any other. This page is
written by `python tools/check/analyze.py --update`.

| rule | why it is broken |
|---|---|
"""


def page() -> str:
    """docs/deviations.md."""
    return PAGE_HEAD + "".join(f"| `{rule}` | {why} |\n" for rule, why in DEVIATIONS.items())


def main() -> int:
    """Analyzes, prints a count for each rule and what is not covered."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", default=MODELS)
    parser.add_argument("--update", action="store_true", help="write docs/deviations.md and analyze nothing")
    options = parser.parse_args()
    if options.update:
        PAGE.write_text(page())
        return 0
    found = analyze(options.folders)
    counts = Counter(finding.rule for finding in found)
    for rule, count in sorted(counts.items()):
        print(f"{count:4d}  {rule}")
    failed = [f"{finding.place}: {finding.message} [{finding.rule}]" for finding in undocumented(found)]
    failed += [f"{rule}: a deviation that no longer occurs" for rule in DEVIATIONS if rule not in counts]
    print("\n".join(failed))
    print(f"{len(found)} findings of {len(counts)} rules, {len(failed)} not documented")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
