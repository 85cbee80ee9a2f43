"""`lbnn predict`: a data file through a model."""

from __future__ import annotations

from pathlib import Path

import click

from lbnn.cli.command import AS_JSON, DECIMAL, DTYPE, ENCODING, FORCE, MODEL, SHARE, command, print_json, quiet_if


@command("lbnn predict weather.pt today.csv -o predicted.csv")
@MODEL
@click.argument("data", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("predicted.csv"), show_default=True)
@click.option("--backend", default="torch", show_default=True, help="torch, onnx, c or a device, as in lbnn verify.")
@DTYPE
@click.option("--level", type=SHARE, help="Of the interval or set; as calibrated, or 0.9.")
@DECIMAL
@ENCODING
@FORCE
@AS_JSON
def predict_command(
    model: Path,
    data: Path,
    out: Path,
    backend: str,
    dtype: str,
    level: float | None,
    decimal: str,
    encoding: str,
    force: bool,
    as_json: bool,
) -> None:
    """Write mean, sd, interval and whether MODEL is unsure for each row of DATA; of classes their probabilities."""
    from lbnn.measure.prediction import predict_file
    from lbnn.train.csvfile import CsvFormat

    form = CsvFormat(decimal, encoding)
    found = predict_file(model, data, out, backend, level, force, form, quiet_if(as_json), dtype)
    if as_json:
        print_json(found)
