"""Builds and runs generated C with every compiler, language, level and word size, and prints what held.

    python tools/check/matrix.py

A cell is ok if the build has no warning, both self-tests pass and the predictions keep the parity contract. Below it:
which Pythons of this machine accept our source.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from lbnn.base.terminal import print_table, progress

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("support", "c_runtime", "system")]
builds: Any = importlib.import_module("test_every_compiler")
versions: Any = importlib.import_module("test_python_versions")


def main() -> None:
    """Prints both tables; status 1 if anything fails."""
    rows = compiler_rows()
    print_table(("compiler", "machine", "language", "form", *builds.LEVELS), rows, "generated C")
    print()
    pythons = [(number, program, accepts(program, versions.SOURCES)) for number, program in versions.PYTHONS.items()]
    print_table(("python", "program", "source"), pythons, "our source")
    sys.exit(any("fails" in row for row in [*rows, *pythons]))


def compiler_rows() -> list[tuple[str, ...]]:
    """A row for each compiler, machine, language and form."""
    choices = product(builds.COMPILERS, builds.MACHINES, builds.LANGUAGES, builds.FORMS)
    with tempfile.TemporaryDirectory() as folder, progress("building", list(map("/".join, choices))) as names:
        base = builds.export_forms(Path(folder))
        return [(*words, *levels(base, *words)) for name in names for words in [name.split("/")]]


def levels(folder: Path, compiler: str, machine: str, language: str, form: str) -> list[str]:
    """What came of each level."""
    if not shutil.which(compiler):
        return ["missing"] * len(builds.LEVELS)
    return [outcome(folder, compiler, machine, language, level, form) for level in builds.LEVELS]


def outcome(folder: Path, *choice: str) -> str:
    """One build and run."""
    try:
        builds.try_out(folder, *choice)
    except AssertionError as error:
        lines = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
        print(f"{' '.join(choice)}: {lines[0]}", file=sys.stderr)
        return "fails"
    return "ok"


def accepts(program: str, sources: list[Path]) -> str:
    """Whether a Python compiles all sources without a warning and has all that they use of its library."""
    command = [program, "-I", "-B", str(ROOT / "tests" / "support" / "python_probe.py"), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout.strip() + done.stderr, file=sys.stderr, end="")
    return "fails" if done.returncode else "ok"


if __name__ == "__main__":
    main()
