"""`lbnn report`: one page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lbnn.cli.command import DECIMAL, ENCODING, MODEL, command, split_names


@command("lbnn report weather.pt -o weather.html --data weather.csv --target temperature")
@MODEL
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("report.html"), show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="CSV or .npz to show predictions and calibration on.")
@click.option("--target", help="The column of --data that MODEL predicts; default from the model file.")
@click.option("--backends", help="Comma-separated, for the parity table; default is a choice of those here.")
@click.option(
    "--samples", type=click.IntRange(1, 1_000_000), default=32, show_default=True, help="For the parity table."
)
@DECIMAL
@ENCODING
@click.option("--date", help="A date, or whatever tells this page from others, for its head; no clock is asked.")
@click.option("--force", is_flag=True, help="Replace existing output.")
def report_command(model: Path, out: Path, backends: str | None, decimal: str, encoding: str, **options: Any) -> None:
    """Write one self-contained page about MODEL, to attach to a review."""
    from lbnn.measure.report import write_report
    from lbnn.train.csvfile import CsvFormat

    form = CsvFormat(decimal, encoding)
    print(write_report(model, out, backends=split_names(backends), form=form, **options))
