"""`lbnn train`: a data file becomes a model."""

from __future__ import annotations

from pathlib import Path

import click

from lbnn.cli.command import AS_JSON, command, interrupted, print_json


@command("lbnn train weather.csv --target temperature -o weather.pt")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--target", help="The column to predict; an .npz has its targets in y.")
@click.option("--hidden", help="Sizes of the hidden layers, such as 16,16; one or two of 50 units if left out.")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("model.pt"), show_default=True)
@click.option(
    "--epochs", type=click.IntRange(1, 1_000_000), help="Passes over the rows; 5,000 to 20,000 steps if left out."
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of split and training.")
@click.option("--force", is_flag=True, help="Replace existing output.")
@AS_JSON
def train_command(
    data: Path,
    target: str | None,
    hidden: str | None,
    out: Path,
    epochs: int | None,
    seed: int,
    force: bool,
    as_json: bool,
) -> int:
    """Train a small network on DATA: a CSV with a header, or an .npz with arrays x and y.

    Ctrl-C after the first epoch ends the training early: the best model so far is written, with exit status 130.
    """
    from lbnn.train import regression

    sizes = None if hidden is None else regression.parse_hidden(hidden)
    found = regression.train_file(
        data, target, sizes, out, epochs, seed, force, say=(lambda text: None) if as_json else print
    )
    if as_json:
        print_json(found)
    if found["interrupted"]:
        return interrupted(f"{out} holds the model of epoch {found['best_epoch']}")
    return 0
