"""Prints the parts that `lbnn inspect` and the report know, with the documents that their memories are from."""

from __future__ import annotations

from lbnn.base.terminal import thousands
from lbnn.measure.parts import KIB, PARTS, Chip

COLUMNS = ("part", "core", "FPU", "flash, KB", "RAM, KB", "from", "note")


def row(part: Chip) -> tuple[str, ...]:
    """One part."""
    sizes = (thousands(part.flash // KIB), thousands(part.ram // KIB))
    return (part.name, part.core, "yes" if part.fpu else "no", *sizes, part.datasheet, part.note)


def main() -> None:
    """The table."""
    rows = [COLUMNS, ("---", "---", "---", "---:", "---:", "---", "---"), *map(row, PARTS)]
    print("\n".join(f"| {' | '.join(cells)} |" for cells in rows))


if __name__ == "__main__":
    main()
