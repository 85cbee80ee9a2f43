"""Names from data files as part of lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbnn.base.errors import one_line
from lbnn.base.terminal import counted


def shortened(names: Sequence[str], most: int = 12) -> str:
    """A list for people; long ones end in how many there are."""
    shown = ", ".join(short(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} ... ({len(names)} in all)"


def short(name: str) -> str:
    """A name from a file as part of a line for people."""
    return one_line(name if len(name) <= 40 else f"{name[:37]}...")


def missing_notes(missing: Mapping[str, int]) -> list[str]:
    """A line for each column that lacks values."""
    return [f"column {short(name)}: {counted(count, 'value')} missing" for name, count in missing.items() if count]
