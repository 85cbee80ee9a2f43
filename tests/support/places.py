"""Where the parts of the checkout are, and the tools that a test needs."""

import os
import shutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
TOOLS = ROOT / "tools"


def need(tool: str) -> str:
    """The path of `tool`; without it the test is skipped, or fails where LBNN_REQUIRE_TOOLS=1 (as in CI)."""
    path = shutil.which(tool)
    if path:
        return path
    if os.environ.get("LBNN_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{tool} is required here and not installed")
    pytest.skip(f"{tool} is not installed")


def need_package(name: str) -> ModuleType:
    """An optional package; without it the tests are skipped, or fail where LBNN_REQUIRE_TOOLS=1 (as in CI)."""
    try:
        return import_module(name)
    except ImportError:
        if os.environ.get("LBNN_REQUIRE_TOOLS") == "1":
            pytest.fail(f"{name} is required here and not installed: make others", pytrace=False)
        pytest.skip(f"{name} is not installed: make others")
