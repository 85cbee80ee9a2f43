"""Prints the table of docs/ecosystem.md from what the tests recorded when they last ran.

    make test && python tools/tables/pages.py --kinds long --only ecosystem.py
    python tools/tables/ecosystem.py check    # status 1 where the page says another thing, versions aside

A test that tries an ecosystem has the mark `ecosystem`; tests/support/tried.py records it in out/ecosystem.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD, PAGE = ROOT / "out/ecosystem.json", ROOT / "docs/ecosystem.md"
COLUMNS = ("ecosystem", "tried how", "version", "result")


def table(rows: dict[str, dict[str, str]]) -> str:
    """A line for each ecosystem, by name."""
    lines = [(name, row["how"], row["version"], row["result"]) for name, row in rows.items()]
    heads = [COLUMNS, ("---",) * len(COLUMNS)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in heads + sorted(lines, key=lambda cells: cells[0].lower()))


def without_versions(text: str) -> list[str]:
    """The rows of a table, each without its third cell."""
    rows = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [" | ".join(cell.strip() for cell in (*row[:2], *row[3:])) for row in rows if len(row) == len(COLUMNS)]


def differences(page: str, rows: dict[str, dict[str, str]]) -> list[str]:
    """Where the page says another thing than was recorded, in a line each."""
    said, found = without_versions(page), without_versions(table(rows))
    return [
        *(f"- {row}" for row in said if row not in found),
        *(f"+ {row}" for row in found if row not in said),
    ]


def main() -> None:
    """The table, or how the page differs from it."""
    if not RECORD.exists():
        sys.exit("nothing is recorded; run make test")
    rows = json.loads(RECORD.read_text())
    if sys.argv[1:] != ["check"]:
        print(table(rows))
    elif wrong := differences(PAGE.read_text(), rows):
        advice = "write it anew with python tools/tables/pages.py --kinds long --only ecosystem.py"
        sys.exit("\n".join((*wrong, f"docs/ecosystem.md is not what the tests recorded: {advice}")))


if __name__ == "__main__":
    main()
