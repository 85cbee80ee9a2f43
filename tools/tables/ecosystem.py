"""Prints the table of docs/ecosystem.md from what the tests recorded when they last ran.

    make test && python tools/tables/pages.py --kinds long --only ecosystem.py

A test that tries an ecosystem has the mark `ecosystem`; tests/support/tried.py records it in out/ecosystem.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

RECORD = Path(__file__).resolve().parents[2] / "out/ecosystem.json"
COLUMNS = ("ecosystem", "tried how", "version", "result")


def table(rows: dict[str, dict[str, str]]) -> str:
    """A line for each ecosystem, by name."""
    lines = [(name, row["how"], row["version"], row["result"]) for name, row in rows.items()]
    heads = [COLUMNS, ("---",) * len(COLUMNS)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in heads + sorted(lines, key=lambda cells: cells[0].lower()))


def main() -> None:
    """The table."""
    if not RECORD.exists():
        sys.exit("nothing is recorded; run make test")
    print(table(json.loads(RECORD.read_text())))


if __name__ == "__main__":
    main()
