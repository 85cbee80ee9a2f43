"""Makes the results files, the figures and the numbers in README.md.

From the jobs in out/paper where there are any, else from the committed results.csv, choices.csv and results.json. A
size counts once all its jobs are done.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import figures
import findings
import results
import statements
from networks import HEADS
from results import Results, Table, digits, select
from run import EPOCHS

HERE = Path(__file__).parent
LABELS = {"embedded": "embedded", "learned": "learned, σa² + σe²", "learned_a": "learned, σa² alone"}


def inside_table(table: Table, activation: str, score: str) -> str:
    """A row for each size, a column for each head: median and quartiles."""
    lines = ["| units | seeds | parameters | " + " | ".join(LABELS.values()) + " |", "|--:|--:|--:|--:|--:|--:|"]
    for hidden in table.sizes:
        seeds = len(select(table.runs, hidden, activation, "embedded"))
        cells = [str(table(hidden, activation, head, score)) for head in HEADS]
        counts = f"{HEADS['embedded'].parameters(hidden)}, {HEADS['learned'].parameters(hidden)}"
        lines.append(f"| {hidden} | {seeds} | {counts} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def outside_table(table: Table, activation: str, suffix: str = "") -> str:
    """A row for each size, left and right apart: medians."""
    columns = [(head, side) for head in HEADS for side in results.SIDES]
    names = " | ".join(f"{LABELS[head]}: {side}" for head, side in columns)
    lines = [f"| units | {names} |", "|--:|" + "--:|" * len(columns)]
    for hidden in table.sizes:
        cells = [digits(table(hidden, activation, head, side + suffix).middle) for head, side in columns]
        lines.append(f"| {hidden} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fill(text: str, blocks: dict[str, str]) -> str:
    """Replaces what stands between the markers `<!-- name -->` and `<!-- /name -->`."""
    for name, block in blocks.items():
        pattern = re.compile(rf"(<!-- {name} -->).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, block=block: f"{match[1]}\n{block}\n{match[2]}", text)  # type: ignore[misc]
        assert count == 1, name
    return text


def blocks(found: Results) -> dict[str, str]:
    """The generated parts of README.md."""
    table = Table(found.runs)
    return {
        "short": findings.short(table),
        "statements": statements.summary(found),
        "measured": statements.details(found),
        "inside-exact": inside_table(table, "exact", "inside"),
        "inside-clamped": inside_table(table, "clamped", "inside"),
        "rescored-clamped": inside_table(table, "clamped", "inside_exact"),
        "outside-exact": outside_table(table, "exact"),
        "outside-clamped": outside_table(table, "clamped"),
        "outside-rescored": outside_table(table, "clamped", "_exact"),
        "findings": findings.beyond_the_paper(table),
        "choices": findings.choices_table(found),
        "choices-found": findings.choices_found(found),
        "seconds": findings.times(found),
    }


def gather(folder: Path, epochs: int, stored: Path) -> Results:
    """Finished jobs; what is not finished, from the stored results."""
    done, tried = results.finished(folder, epochs), results.finished_tries(folder, epochs)
    have = results.read(stored) if not (done and tried) else Results([], [], {})
    runs, extra = results.collect(folder, done) if done else (have.runs, {})
    tried_runs, tried_extra = results.collect_tries(folder, tried) if tried else (have.tried, {})
    return Results(runs, tried_runs, {**have.extra, **extra, **tried_extra})


@click.command()
@click.option("--jobs", "folder", type=click.Path(path_type=Path), default=Path("out/paper"), show_default=True)
@click.option("--epochs", default=EPOCHS, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=HERE, show_default=True)
def main(folder: Path, epochs: int, out: Path) -> None:
    """Rewrite the results files, the figures and the numbers in README.md."""
    found = gather(folder, epochs, out)
    results.write(found, out)
    figures.draw_all(Table(found.runs), found.extra["curves"], out)
    readme = out / "README.md"
    readme.write_text(fill(readme.read_text(), blocks(found)))


if __name__ == "__main__":
    main()
