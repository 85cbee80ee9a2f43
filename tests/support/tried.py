"""Records which ecosystems the tests tried, and how that went; `tools/tables/ecosystem.py` makes a table of it.

    @pytest.mark.ecosystem("C: CMake", "installed, and found by find_package", program="cmake", result="links and runs")

`package` is pinned in one of tests/*.txt or constraints.txt, `program` says its version, `version` is that itself. A
test can add what only it knows: record_property("version", ...). A row holds where all tests hold that have its name.
"""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from typing import Any

import pytest

from ecosystem import RECORD
from places import ROOT

BAD = {"failed": "**fails**", "skipped": "not tried: not installed"}
ROWS: dict[str, dict[str, str]] = {}
"""Of this run, in the process that hears of every test."""


def pinned(package: str) -> str:
    """`package 1.2`, as the Makefile installs it."""
    files = [*sorted((ROOT / "tests").glob("*.txt")), ROOT / "constraints.txt"]
    (version, *_) = re.findall(rf"^{re.escape(package)}==(\S+)", "\n".join(file.read_text() for file in files), re.M)
    return f"{package} {version}"


@cache
def installed(program: str) -> str:
    """`program 1.2`, as it says itself; nothing where it is not there."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    found = re.search(r"\d+\.\d+", re.sub(r"\(.*?\)", "", done.stdout))
    return f"{program} {found[0]}" if found else program


def row_of(name: str, how: str, result: str, version: str = "", package: str = "", program: str = "") -> dict[str, str]:
    """What a mark says."""
    known = pinned(package) if package else installed(program) if program else version
    return {"name": name, "how": how, "version": known, "result": result}


def merged(row: dict[str, Any] | None, outcome: str, more: dict[str, Any]) -> dict[str, Any]:
    """A row after one more test: the worst of all outcomes stays."""
    now = {key: more[key] for key in ("how", "version", "result")}
    if row is not None and row["result"] in BAD.values():
        return row
    return now | ({"result": BAD[outcome]} if outcome in BAD else {})


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sends the row along with the report of the test."""
    for mark in item.iter_markers("ecosystem"):
        item.user_properties.append(("ecosystem", row_of(*mark.args, **mark.kwargs)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Hears of every test, also of those that ran in other processes."""
    properties: dict[str, Any] = dict(report.user_properties)
    if "ecosystem" in properties and (report.when == "call" or not report.passed):
        row = properties["ecosystem"]
        ROWS[row["name"]] = merged(ROWS.get(row["name"]), report.outcome, row | properties)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes down what was tried now, beside what other runs tried before."""
    if hasattr(session.config, "workerinput") or not ROWS:
        return
    before = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(before | ROWS, indent=1, sort_keys=True))
