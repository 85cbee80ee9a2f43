"""`lbnn verify`: every backend against float64."""

from __future__ import annotations

from pathlib import Path

import click

from lbnn.base.errors import LbnnError
from lbnn.cli.command import AS_JSON, DTYPE, MODEL, command, print_json, split_names
from lbnn.exporters.options import WEIGHT_FORMS, COptions


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
@DTYPE
@click.option("--input-variance", is_flag=True, help="Verify the variant whose input has a variance.")
@click.option(
    "--weights", type=click.Choice(WEIGHT_FORMS), default="source", show_default=True, help="Those of the generated C."
)
@AS_JSON
def verify_command(
    model: Path,
    backends: str | None,
    samples: int,
    seed: int,
    tolerance: float | None,
    dtype: str,
    input_variance: bool,
    weights: str,
    as_json: bool,
) -> int:
    """Prove that every backend computes what MODEL computes; exit status 1 if one does not."""
    from lbnn.measure.backends import choose_backends
    from lbnn.measure.conditioning import explain_bound
    from lbnn.measure.loss import plain_losses, show_losses
    from lbnn.measure.parity import FLOAT32_TOLERANCE, expect
    from lbnn.measure.samples import draw_samples
    from lbnn.measure.stored import as_stored, loss_by_storage, storing_backends
    from lbnn.measure.verify import plain_verdicts, show_verdicts, verify_backends
    from lbnn.model.file import read_model

    if dtype != "float32":
        options = COptions(dtype=_held_to_bits(dtype, tolerance), input_variance=input_variance, weights=weights)
        return _verify_integers(model, backends, samples, seed, options, as_json)
    names, lacking = choose_backends(split_names(backends), "verify")
    names = names if backends else storing_backends(names, weights)
    read = read_model(model)
    drawn = draw_samples(read, samples, seed, input_variance)
    stored = as_stored(read, weights, input_variance)
    expected, limit, left = expect(stored.graph, drawn), tolerance or FLOAT32_TOLERANCE, None if backends else lacking
    rows = verify_backends(stored, drawn, names, limit, left, tolerance is None, expected, weights)
    reason = explain_bound(stored, drawn, expected, limit)
    losses = loss_by_storage(read, stored, drawn, expected)
    if as_json:
        plain = plain_verdicts(rows, lacking, reason)
        print_json({"model": str(model), "sha256": read.sha256, **plain, **plain_losses(losses)})
    else:
        show_verdicts(rows, lacking, f"{model}: {drawn.counted} against float64", reason)
        show_losses(losses, f"lost by --weights {weights}, beside the weights of the model file")
    return 0 if all(row.passed for row in rows) else 1


def _held_to_bits(dtype: str, tolerance: float | None) -> str:
    """The arithmetic, of which no error passes."""
    if tolerance is not None:
        raise LbnnError(f"--dtype {dtype} is held to every bit of the integer reference; leave out --tolerance")
    return dtype


def _verify_integers(
    model: Path, backends: str | None, samples: int, seed: int, options: COptions, as_json: bool
) -> int:
    from lbnn.measure import integer_verify as ints
    from lbnn.measure.samples import draw_samples
    from lbnn.model.file import read_model

    asked = split_names(backends)
    names, lacking = ints.integer_backends(asked)
    read = read_model(model)
    drawn, dtype = draw_samples(read, samples, seed, options.input_variance), options.dtype
    rows = ints.verify_integers(read, drawn, names, dtype, None if asked else lacking, options.weights)
    losses = ints.integer_losses(read, drawn, ints.expect_integers(read, drawn, dtype))
    if as_json:
        head = {"model": str(model), "sha256": read.sha256, "dtype": dtype}
        print_json({**head, **ints.plain_integers(rows, losses, lacking)})
    else:
        ints.show_integers(rows, losses, lacking, f"{model}: {drawn.counted} in {dtype}")
    return 0 if all(row.passed for row in rows) else 1
