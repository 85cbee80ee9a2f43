"""Python 3.11 and every newer one here: valid source, nothing that was removed, and what needs no torch works.

torch has no wheel here for other versions, so networks are tested on 3.11 only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from places import ROOT

SOURCES = [path for folder in ("lbnn", "tools", "examples", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
PURE = (
    "click",
    "rich",
    "markdown_it",
    "mdurl",
    "pygments",
    "jinja2",
    "pytest",
    "_pytest",
    "py.py",
    "pluggy",
    "iniconfig",
    "packaging",
)
"""Packages of pure Python that any version can use from the environment of this one."""
HELP = """
import sys
from lbnn.cli.program import cli
for word in sys.argv[1:]:
    cli([word, "--help"], standalone_mode=False)
"""
COMMANDS = ("demo", "train", "export", "verify", "inspect", "bench", "report", "doctor")


def pythons() -> dict[str, str]:
    """Version -> program: this one, and all newer ones in the path and in pyenv."""
    found = {"{}.{}".format(*sys.version_info): sys.executable}
    folders = [*map(Path, os.get_exec_path()), *sorted(Path.home().glob(".pyenv/versions/*/bin"))]
    for minor in range(sys.version_info.minor + 1, 20):
        for folder in folders:
            program = folder / f"python3.{minor}"
            if f"3.{minor}" not in found and program.is_file() and version(program) == f"3.{minor}":
                found[f"3.{minor}"] = str(program)
    return found


def version(program: Path) -> str:
    """What a program says that it is; a shim of pyenv may lead nowhere."""
    ask = "import sys; print('{}.{}'.format(*sys.version_info))"
    return subprocess.run([program, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()


PYTHONS = pythons()


def run(
    number: str, *words: object, path: Path | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A Python of some version, without bytecode left behind."""
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **({"PYTHONPATH": str(path)} if path else {})}
    return subprocess.run(
        [PYTHONS[number], *map(str, words)],
        capture_output=True,
        text=True,
        env=variables,
        cwd=cwd,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with lbnn and the pure packages, but neither torch nor numpy."""
    folder = tmp_path_factory.mktemp("packages")
    site = Path(pytest.__file__).parent.parent
    for name in PURE:
        (folder / name).symlink_to(site / name)
    (folder / "lbnn").symlink_to(ROOT / "lbnn")
    return folder


@pytest.mark.parametrize("number", PYTHONS)
def test_the_source_is_valid_without_warnings_and_uses_nothing_that_was_removed(number):
    done = run(number, "-I", "-B", ROOT / "tests" / "support" / "python_probe.py", *SOURCES)
    assert done.returncode == 0, done.stdout + done.stderr


REMOVED = ["import os\nos.errno", "from asyncio import coroutine", "import asyncio.compat", "'\\d'", "x = 1 is 1"]


@pytest.mark.parametrize("source", REMOVED)
def test_the_probe_notices_what_was_removed_and_what_warns(source, tmp_path):
    (tmp_path / "old.py").write_text(source + "\n")
    for number in PYTHONS:
        done = run(number, "-I", "-B", ROOT / "tests" / "support" / "python_probe.py", tmp_path / "old.py")
        assert done.returncode == 1 and "old.py" in done.stdout, done


@pytest.mark.parametrize("number", PYTHONS)
def test_the_command_line_starts_and_refuses_in_one_line(number, packages, tmp_path):
    done = run(number, "-W", "error", "-c", HELP, *COMMANDS, path=packages, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("Example:") == len(COMMANDS), done.stderr
    done = run(number, "-m", "lbnn.cli.main", "frobnicate", path=packages, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", list(PYTHONS)[1:] or list(PYTHONS))
def test_the_tests_of_output_files_pass(number, packages):
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error", "--rootdir", ROOT]
    done = run(number, "-m", "pytest", *options, ROOT / "tests" / "base" / "test_files.py", path=packages)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\[100%\]|\d+ passed", done.stdout)


def test_the_classifiers_name_no_version_that_is_not_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert named == ["3.11"] and project["requires-python"] == ">=3.11"
