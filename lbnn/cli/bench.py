"""`lbnn bench`: what a prediction costs on each backend."""

from __future__ import annotations

from pathlib import Path

import click

from lbnn.cli.command import AS_JSON, DTYPE, MODEL, command, print_json, split_names

WEIGHTS_COUNTED = ("source", "half")
"""As C source or in half floats: a .bin file has the same bytes."""


@command("lbnn bench gas_sensor.pt --backends onnx,c,cortex-m4-gcc --layers")
@MODEL
@click.option("--backends", help="Comma-separated; default is a choice of those whose tools are here.")
@click.option("--layers", is_flag=True, help="Instructions of each layer on a Cortex-M4F, and the fewest near kinks.")
@DTYPE
@click.option(
    "--weights",
    type=click.Choice(WEIGHTS_COUNTED),
    default="source",
    show_default=True,
    help="Those of the generated C.",
)
@AS_JSON
def bench_command(model: Path, backends: str | None, layers: bool, dtype: str, weights: str, as_json: bool) -> None:
    """What a prediction of MODEL costs: instructions, flash, RAM, and time relative to onnxruntime."""
    from lbnn.measure.bench import choose_measured, measure_backends, plain_bench, show_bench, show_layers

    names, lacking = choose_measured(split_names(backends))
    found = measure_backends(model, names, asked=backends is not None, dtype=dtype, weights=weights)
    if as_json:
        print_json({"model": str(model), "dtype": dtype, "weights": weights, **plain_bench(found, lacking)})
        return
    form = ("" if dtype == "float32" else f" in {dtype}") + (
        "" if weights == "source" else " with weights in half floats"
    )
    show_bench(found, lacking, f"{model}: one prediction{form}")
    if layers:
        show_layers(found)
