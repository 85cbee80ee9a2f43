"""`lbnn demo`: the whole story on one problem, for a first look."""

from __future__ import annotations

from pathlib import Path

import click

from lbnn.cli.command import command


@command("lbnn demo --out demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, help="Where to write.")
@click.option("--quick", is_flag=True, help="Less training and fewer backends: about 20 seconds.")
def demo_command(out: Path, quick: bool) -> None:
    """The whole story on the paper's problem: train, picture, export, compile, verify."""
    from lbnn.cli.demo_story import run_demo

    run_demo(out, quick)
