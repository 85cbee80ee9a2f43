"""`lbnn inspect`: a model before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import click

from lbnn.cli.command import AS_JSON, MODEL, command, print_json


@command("lbnn inspect gas_sensor.pt --graph")
@MODEL
@click.option("--graph", "show_graph", is_flag=True, help="Print the graph as it is exported.")
@click.option("--plan", "show_plan", is_flag=True, help="Print the memory plan.")
@click.option("--input-variance", is_flag=True, help="For the variant whose input has a variance.")
@AS_JSON
def inspect_command(model: Path, show_graph: bool, show_plan: bool, input_variance: bool, as_json: bool) -> None:
    """Layers, parameters, multiplications, flash and RAM, before anything is compiled."""
    from lbnn.measure.inspection import inspect_model, show_inspection
    from lbnn.model.file import read_model

    found = inspect_model(read_model(model), input_variance)
    if as_json:
        print_json(found.as_plain())
    elif show_graph or show_plan:
        shown = ((found.graph, show_graph), (found.plan, show_plan))
        print("\n\n".join(str(part) for part, wanted in shown if wanted))
    else:
        show_inspection(found)
