"""Output for people: rich tables and progress bars on a terminal, plain aligned text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

STYLES = {"ok": "green", "fails": "bold red", "missing": "yellow", "yes": "green", "no": "red"}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """A table; the first column is text, numbers stand right."""
    body = [list(row) for row in rows]
    if sys.stdout.isatty():
        _rich_table(columns, body, title)
    else:
        print("\n".join(_plain_table(columns, body, title)))


def _rich_table(columns: Sequence[str], rows: list[list[str]], title: str) -> None:
    table = Table(title=title or None, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        numeric = all(_looks_numeric(row[i]) for row in rows)
        table.add_column(column, justify="right" if numeric and i else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"[{STYLES[cell]}]{cell}[/]" if cell in STYLES else _escape(cell) for cell in row))
    Console().print(table)


def _plain_table(columns: Sequence[str], rows: list[list[str]], title: str) -> list[str]:
    widths = [max(len(row[i]) for row in [list(columns), *rows]) for i in range(len(columns))]
    right = [bool(i) and all(_looks_numeric(row[i]) for row in rows) for i in range(len(columns))]
    lines = [
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in [list(columns), *rows]
    ]
    return [title, *lines] if title else lines


def _looks_numeric(cell: str) -> bool:
    return not cell.strip("-") or cell[:1].isdigit() or cell in ("inf", "nan")


def _escape(cell: str) -> str:
    return cell.replace("[", r"\[")


@contextmanager
def progress(label: str, names: Sequence[str]) -> Iterator[Iterator[str]]:
    """Iterates over `names` with a bar on stderr that names the one being worked on; silent where nobody looks."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    seen = sys.stderr is not None and sys.stderr.isatty()  # rich would take FORCE_COLOR for a terminal
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not seen) as bar:
        task = bar.add_task(label, total=len(names))

        def steps() -> Iterator[str]:
            for name in names:
                bar.update(task, description=f"{label}: {name}")
                yield name
                bar.advance(task)

        yield steps()


@contextmanager
def share_bar(label: str, shown: bool = True) -> Iterator[Callable[[float], None]]:
    """A function that shows which share of a work is done, in a bar on stderr; silent where nobody looks."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    seen = shown and sys.stderr is not None and sys.stderr.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not seen) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def kilobytes(count: int | None) -> str:
    """Bytes for people."""
    if count is None:
        return "-"
    return f"{count} B" if count < 10_000 else f"{count / 1024:.1f} KB"


def thousands(count: int | None) -> str:
    """A count with separators, or a dash."""
    return "-" if count is None else f"{count:,}"


def counted(count: int, noun: str) -> str:
    """A number and what it counts: 1 row, 2 rows."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
