"""Where the parts of the checkout are, and the tools that a test needs."""

import os
import shutil
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
TOOLS = ROOT / "tools"


def lacking(what: str, how: str) -> NoReturn:
    """Skips a test, or fails it where LBNN_REQUIRE_TOOLS=1 (as in CI); `how` it would be installed."""
    if os.environ.get("LBNN_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{what} is required here and not installed{how}", pytrace=False)
    pytest.skip(f"{what} is not installed{how}")


def need(tool: str) -> str:
    """The path of `tool`; without it the test is skipped, or fails where LBNN_REQUIRE_TOOLS=1 (as in CI)."""
    return shutil.which(tool) or lacking(tool, "")


def need_file(path: Path, package: str) -> Path:
    """A file of a Debian package."""
    return path if path.exists() else lacking(str(path), f": apt install {package}")


def need_package(name: str) -> ModuleType:
    """An optional package of Python."""
    try:
        return import_module(name)
    except ImportError:
        lacking(name, ": make others")


def need_typescript() -> str:
    """The compiler of TypeScript, which `make others` installs if npm is here."""
    own = ROOT / ".venv/typescript/node_modules/.bin/tsc"
    return str(own) if own.exists() else shutil.which("tsc") or lacking("tsc", ": make others")


def need_packer(tool: str) -> str:
    """A tool of other build systems, which `make others` installs apart from our own packages."""
    own = ROOT / ".venv/packers/bin" / tool
    return str(own) if own.exists() else shutil.which(tool) or lacking(tool, ": make others")


def need_runtime(place: str) -> Path:
    """A runtime of other people, which `make runtimes` installs apart from our own packages, into `place` in .venv."""
    path = ROOT / ".venv" / place
    return path if path.exists() else lacking(path.name, ": make runtimes")
