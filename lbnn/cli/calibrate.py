"""`lbnn calibrate`: intervals that hold on rows that the model has not seen."""

from __future__ import annotations

from pathlib import Path

import click

from lbnn.cli.command import AS_JSON, DECIMAL, ENCODING, FORCE, MODEL, SHARE, command, print_json, quiet_if


@command("lbnn calibrate weather.pt last_week.csv --level 0.9")
@MODEL
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--level", type=SHARE, default=0.9, show_default=True, help="Share of new rows to be inside.")
@click.option("--false-alarms", type=SHARE, default=0.05, show_default=True, help="Share of such rows called unsure.")
@click.option("--target", help="The column of DATA that MODEL predicts; default from the model file.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Where to write; default is MODEL itself.")
@DECIMAL
@ENCODING
@FORCE
@AS_JSON
def calibrate_command(
    model: Path,
    data: Path,
    level: float,
    false_alarms: float,
    target: str | None,
    out: Path | None,
    decimal: str,
    encoding: str,
    force: bool,
    as_json: bool,
) -> None:
    """Put into MODEL how wide its interval must be to hold on DATA: rows that it was not trained on.

    Of classes the temperature of the logits, and from which probability on a class belongs to the set.
    """
    from lbnn.measure.calibrating import calibrate_file
    from lbnn.train.csvfile import CsvFormat

    form = CsvFormat(decimal, encoding)
    found = calibrate_file(model, data, target, level, false_alarms, out, force, form, quiet_if(as_json))
    if as_json:
        print_json(found)
