"""`lbnn train`: a data file becomes a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lbnn.base.errors import LbnnError
from lbnn.cli.command import AS_JSON, DECIMAL, ENCODING, FORCE, SHARE, command, print_json, quiet_if, split_names
from lbnn.cli.ending import INTERRUPTED, interrupted, say
from lbnn.cli.ranks import one_of_many

NAMED_PRIORS = ("gaussian", "spike_slab")
NAMED_VARIANCES = ("full", "rank1", "row")
COUNT = click.IntRange(1, 1_000_000)


@command(
    "lbnn train weather.csv --target temperature -o weather.pt",
    "lbnn train motion.csv --target gesture -o gesture.pt      # text: its classes",
    "lbnn train wear.csv --target stage --task classify        # numbers that are classes",
)
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--target", help="The column to predict; an .npz has its targets in y.")
@click.option(
    "--task",
    type=click.Choice(("regress", "classify")),
    help="What the target is: a number or a class.  [default: a class if it holds text]",
)
@click.option("--targets", help="Several columns to predict, such as A,B.")
@click.option("--inputs", help="The columns to predict from, such as A,B; all others if left out.")
@click.option("--drop", help="Columns to leave out.")
@click.option("--group", help="A column: rows with the same value are fitted or tested together.")
@click.option("--time", help="A column: the latest rows are tested, by networks fitted to earlier ones.")
@click.option("--log-target", is_flag=True, help="Learn the logarithm of the target.")
@click.option("--hidden", help="Sizes of the hidden layers, such as 16,16; one or two of 50 units if left out.")
@click.option("--variance-head/--embedded", "head", help="Learn the noise in outputs of its own.  [default: embedded]")
@click.option(
    "--variance",
    type=click.Choice(NAMED_VARIANCES),
    help="Of the weights: one each, or factors of rows and columns, half the size in C.  [default: full]",
)
@click.option("--epochs", type=COUNT, help="Passes over the rows; 5,000 to 20,000 steps if left out.")
@click.option("--batch", type=COUNT, help="Rows in a batch; 32 or more if left out.")
@click.option("--lr", type=click.FloatRange(0, 10, min_open=True), help="Learning rate at the start; falls to 0.")
@click.option("--patience", type=COUNT, help="Stop after so many epochs without gain on 15 % of the rows.")
@click.option("--prior", type=click.Choice(NAMED_PRIORS), help="Of the weights.  [default: gaussian]")
@click.option("--kl-weight", type=click.FloatRange(0), help="Of the prior, relative to the ELBO's.  [default: 1]")
@click.option("--test-share", type=SHARE, help="Rows kept out for a test.")
@click.option("--stream/--no-stream", default=None, help="Keep the rows on disk.  [default: those of 128 MB and more]")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("model.pt"), show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of split and training.")
@DECIMAL
@ENCODING
@FORCE
@AS_JSON
def train_command(data: Path, out: Path, as_json: bool, **options: Any) -> int:
    """Train a small network on DATA: a CSV with a header, a Parquet file, or an .npz with arrays x and y.

    A target of numbers is predicted with its uncertainty, of one that holds text the probability of each class.

    All rows are fitted, unless some are kept out by --test-share, and scored by cross-validation. Ctrl-C after the
    first epoch ends the training early: the best model so far is written, with exit status 130. Under torchrun all
    processes train one model, and the first one prints and writes.
    """
    from lbnn.train.large import train_any_size

    with one_of_many() as processes:
        found = train_any_size(_job(data, out, **options), quiet_if(as_json or processes.rank > 0))
    if processes.rank:
        return INTERRUPTED if found["interrupted"] else 0
    if as_json:
        print_json(found)
    if not found["interrupted"]:
        return 0
    kept = f"{out} holds the model of epoch {found['best_epoch']}"
    return say(f"{lost}; {kept}", 2) if (lost := processes.ending.reason) else interrupted(kept)


def _job(data: Path, out: Path, **options: Any) -> Any:
    """The options as what they mean."""
    from lbnn.train.csvfile import CsvFormat
    from lbnn.train.table import Choice
    from lbnn.train.training import Job, parse_hidden

    if options["target"] and options["targets"]:
        raise LbnnError("--target is one column, --targets are several; give one of the two")
    names = {key: tuple(split_names(options[key]) or ()) for key in ("targets", "inputs", "drop")}
    targets = (options["target"],) if options["target"] else names["targets"]
    form = CsvFormat(options["decimal"], options["encoding"])
    choice = Choice(
        names["inputs"], names["drop"], options["group"], options["time"], options["log_target"], form, options["task"]
    )
    hidden = None if options["hidden"] is None else parse_hidden(options["hidden"])
    own = ("head", "variance", "epochs", "batch", "lr", "patience", "prior", "kl_weight")
    given = {key: options[key] for key in own}
    return Job(
        data,
        targets,
        choice,
        out,
        options["seed"],
        options["test_share"],
        options["force"],
        options["stream"],
        {"hidden": hidden, **given},
    )
