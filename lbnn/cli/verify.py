"""`lbnn verify`: every backend against float64."""

from __future__ import annotations

from pathlib import Path

import click

from lbnn.cli.command import AS_JSON, MODEL, command, print_json, split_names


@command("lbnn verify gas_sensor.pt --backends torch,onnx,c,cortex-m4")
@MODEL
@click.option("--backends", help="Comma-separated; default is every one whose tools are here.")
@click.option("--samples", type=click.IntRange(1, 1_000_000), default=64, show_default=True, help="Inputs to compare.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs.")
@click.option(
    "--tolerance",
    type=float,
    help="Largest error that passes; default 1e-5, or what float32 may lose where that is more.",
)
@click.option("--input-variance", is_flag=True, help="Verify the variant whose input has a variance.")
@AS_JSON
def verify_command(
    model: Path,
    backends: str | None,
    samples: int,
    seed: int,
    tolerance: float | None,
    input_variance: bool,
    as_json: bool,
) -> int:
    """Prove that every backend computes what MODEL computes; exit status 1 if one does not."""
    from lbnn.measure.backends import choose_backends
    from lbnn.measure.conditioning import explain_bound
    from lbnn.measure.parity import FLOAT32_TOLERANCE, expect
    from lbnn.measure.samples import draw_samples
    from lbnn.measure.verify import plain_verdicts, show_verdicts, verify_backends
    from lbnn.model.file import read_model

    names, lacking = choose_backends(split_names(backends), "verify")
    read = read_model(model)
    drawn = draw_samples(read, samples, seed, input_variance)
    expected, limit = expect(read.graph, drawn), tolerance or FLOAT32_TOLERANCE
    left_out = None if backends else lacking
    rows = verify_backends(read, drawn, names, limit, left_out, bounded=tolerance is None, expected=expected)
    reason = explain_bound(read, drawn, expected, limit)
    if as_json:
        print_json({"model": str(model), "sha256": read.sha256, **plain_verdicts(rows, lacking, reason)})
    else:
        show_verdicts(rows, lacking, f"{model}: {len(drawn)} samples against float64", reason)
    return 0 if all(row.passed for row in rows) else 1
