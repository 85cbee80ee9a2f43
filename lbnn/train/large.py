"""`lbnn train` on a table that does not fit memory: two passes over the file, then batches of rows from the disk.

The first pass finds the columns and what they hold, the second writes the rows as float32 into a temporary folder
beside the model. A table of millions of rows needs no cross-validation: rows that were never fitted give the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.temporary import held_folder, sweep
from lbnn.base.terminal import counted, share_bar
from lbnn.train.about import described
from lbnn.train.chunks import Chunk, csv_chunks
from lbnn.train.datafile import FEWEST_ROWS, form_of, is_npz, naming
from lbnn.train.descent import default_loss
from lbnn.train.fit import fit
from lbnn.train.labels import check_class_options, check_class_sizes
from lbnn.train.listing import shortened
from lbnn.train.outcome import Trained, plain_scores, summary_lines
from lbnn.train.packing import Packed, Shares, megabytes, pack_rows
from lbnn.train.parquetfile import is_parquet, parquet_chunks, parquet_size
from lbnn.train.priors import LinearWarmup
from lbnn.train.processes import joined_processes
from lbnn.train.recipe import (
    MOST_STEPS,
    Recipe,
    as_scale,
    build_scaled,
    build_scaled_classes,
    class_recipe_for,
    joined_outcomes,
    recipe_for,
)
from lbnn.train.record import training_record
from lbnn.train.result import FitResult
from lbnn.train.rowfile import RowFile
from lbnn.train.survey import Survey, survey
from lbnn.train.table import categories, target_line
from lbnn.train.together import is_first_of_its_machine, machine, wait_for_all
from lbnn.train.training import WATCHED, Job, check_places, origin, train_file, written
from lbnn.train.validation import mean_nll

LARGE = 128_000_000
"""Bytes of a CSV from which its rows stay on the disk: in memory it takes ten times as many."""
TEST_SHARE, TEST_ROWS = 0.1, 100_000
"""Rows that are not fitted, unless a share is asked for: this share, but no more than so many."""
MOST_SCORED = 200_000
"""Of the test rows so many are enough, and all that memory has to hold."""
STEPS_OF_AN_EPOCH = 1000
"""At most: then there is something to show, and Ctrl-C has something to keep."""


def train_any_size(job: Job, say: Callable[[str], None]) -> dict[str, Any]:
    """The command: `train_file`, or the same with the rows on the disk where they are many."""
    check_places(job)
    return train_large(job, say) if is_large(job) else train_file(job, say)


def is_large(job: Job) -> bool:
    """By the size of the file, unless the job says so."""
    if is_npz(job.data):
        if job.stream:
            raise LbnnError("--stream reads rows of a CSV or a Parquet file; an .npz is read as a whole")
        return False
    if job.stream is not None:
        return job.stream
    with naming(job.data):
        size = parquet_size(job.data) if is_parquet(job.data) else job.data.stat().st_size
    if size >= LARGE and job.choice.time is not None:
        raise LbnnError(f"{job.data} has {megabytes(size)}, and --time needs all rows in memory; add --no-stream")
    return size >= LARGE


def train_large(job: Job, say: Callable[[str], None]) -> dict[str, Any]:
    """The command for a table on the disk."""
    check_places(job)
    if job.choice.time is not None:
        raise LbnnError("--time needs all rows in memory; leave out --stream")
    torch.set_num_threads(1)
    job = replace(job, choice=replace(job.choice, form=form_of(job.data, job.choice.form)))
    with _packed(job, say) as (found, packed):
        trained = _trained(job, found, packed, say)
    targets = [f"log({name})" if job.choice.log_target else name for name in job.targets]
    low, high = packed.every.low, packed.every.high
    inputs = packed.files["fit"].inputs
    ends = [low[:inputs].tolist(), high[:inputs].tolist()]
    about = described(found.columns, targets, found.classes, found.whole, ends)
    about |= {"test": plain_scores(trained)} | origin(job, trained, list(job.targets))
    return written(job, trained, about, (inputs,), say)


@contextmanager
def _packed(job: Job, say: Callable[[str], None]) -> Iterator[tuple[Survey, Packed]]:
    """The table as files of rows, which are there as long as the block runs."""
    processes, place = joined_processes(), _existing(job.out)
    with naming(job.data), share_bar("looking at the rows", processes.rank == 0) as show:
        found = survey(lambda: _shown(_chunks(job), show), job.targets, job.choice)
        _check(found, job)
    with _folder(place, job.out.name) as folder:
        with share_bar("writing them as numbers", processes.rank == 0) as show:
            chunks = _shown(_named(job), show)
            packed = pack_rows(chunks, found, job.targets, job.choice, _shares(found.whole, job), job.seed, folder)
        if found.classes:
            check_class_sizes(found.classes, packed.of_class.tolist())
        _agree(found, packed, folder)
        say(_description(job, found, packed))
        yield found, packed
        wait_for_all(processes)  # the others read these files, too


@contextmanager
def _folder(place: Path, label: str) -> Iterator[Path | None]:
    """A temporary folder, of which each machine needs one."""
    if not is_first_of_its_machine():
        yield None
        return
    sweep(place)
    with held_folder(place, label) as folder:
        yield folder


def _existing(out: Path) -> Path:
    """The folder that the model will be in, or the nearest that is there."""
    return next(parent for parent in out.absolute().parents if parent.is_dir())


def _chunks(job: Job) -> Iterator[Chunk]:
    return parquet_chunks(job.data) if is_parquet(job.data) else csv_chunks(job.data, job.choice.form)


def _named(job: Job) -> Iterator[Chunk]:
    """The chunks, where whatever is wrong with the file is said with its name."""
    with naming(job.data):
        yield from _chunks(job)


def _shown(chunks: Iterator[Chunk], show: Callable[[float], None]) -> Iterator[Chunk]:
    for chunk in chunks:
        yield chunk
        show(chunk.share)


def _check(found: Survey, job: Job) -> None:
    if found.whole < FEWEST_ROWS:
        raise LbnnError(f"{counted(found.whole, 'row')} without a missing value; at least {FEWEST_ROWS} are needed")
    check_class_options(found.classes, job.recipe)
    if job.choice.log_target and found.lowest <= 0.0:
        raise LbnnError(f"a logarithm needs targets above zero; the lowest is {found.lowest:g}")


def _shares(rows: int, job: Job) -> Shares:
    test = min(TEST_SHARE, TEST_ROWS / rows) if job.test_share is None else job.test_share
    return Shares(test, min(test, MOST_SCORED / rows), WATCHED if job.recipe.get("patience") else 0.0)


def _agree(found: Survey, packed: Packed, folder: Path | None) -> None:
    """All processes have the same table, and those of one machine read the same files."""
    roles = [role for role, file in packed.files.items() if not file.rows and (role != "watched")]
    if roles:
        what = {"fit": "to fit", "test": "for the test"}[roles[0]]
        raise LbnnError(f"no row is left {what}; change --test-share, or leave out --stream")
    processes = joined_processes()
    mine = [float(found.whole), float(packed.fitted.mean.sum())]
    if processes.mean(mine, torch.device("cpu")) != mine:
        raise LbnnError("the processes do not read the same table")
    if processes.store is not None:
        key = f"rows of machine {machine()}"
        if folder is not None:
            processes.store.set(key, str(folder))
        wait_for_all(processes)
        packed.move(Path(processes.store.get(key).decode()))


def _description(job: Job, found: Survey, packed: Packed) -> str:
    names = [name for column in found.columns for name in column.inputs]
    fitted, test = packed.files["fit"], packed.files["test"]
    size = 4 * sum(file.rows for file in packed.files.values()) * (fitted.inputs + fitted.outputs)
    return "\n".join(
        [
            f"{counted(found.whole, 'row')}, {counted(len(names), 'input')}: {shortened(names)}",
            *categories(found.columns),
            *found.notes,
            target_line(job.targets, found.classes),
            f"the rows stay on the disk, {megabytes(size)} while it trains; {fitted.rows} are fitted, and "
            f"{test.rows} others give the scores instead of a cross-validation",
        ]
    )


def _trained(job: Job, found: Survey, packed: Packed, say: Callable[[str], None]) -> Trained:
    fitted, test = packed.files["fit"], packed.files["test"]
    recipe = (class_recipe_for if found.classes else recipe_for)(fitted.rows, (fitted.inputs,), **job.recipe)
    epochs, steps = lengths(recipe, fitted.rows, job.recipe.get("epochs") is not None)
    model, history = _fitted(packed, recipe, len(found.classes), job.seed, epochs, steps)
    if history.interrupted:
        trained = Trained(model, history, None, torch.empty(0), "interrupted")
    else:
        trained = Trained(model, history, *_tested(model, test), counted(test.rows, "test row"))
    watched = packed.files["watched"].rows
    counts = {"fitted": fitted.rows, "watched to stop": watched, "for the test": test.rows, "in all": found.whole}
    trained = replace(trained, record=training_record(recipe, counts, job.seed))
    passes = steps == math.ceil(fitted.rows / recipe.batch)
    say(summary_lines(trained, None if passes else steps))
    return trained


def lengths(recipe: Recipe, rows: int, asked: bool) -> tuple[int, int]:
    """Epochs and the steps of each: those that were asked for, else no more steps than a recipe has at most."""
    batches = math.ceil(rows / recipe.batch)
    total = recipe.epochs * batches if asked else min(MOST_STEPS, recipe.epochs * batches)
    steps = min(batches, STEPS_OF_AN_EPOCH)
    return math.ceil(total / steps), steps


def _built(packed: Packed, recipe: Recipe, classes: int, seed: int) -> bnn.Sequential:
    """The network that `train_network` or `train_classes` would begin with."""
    inputs, mean, spread = packed.files["fit"].inputs, packed.fitted.mean, packed.fitted.deviation
    x, y = (as_scale(mean[part], spread[part]) for part in (slice(inputs), slice(inputs, None)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if classes:
            return build_scaled_classes((inputs,), x, classes, recipe.hidden, recipe.variance)
        return build_scaled((inputs,), x, y, recipe.hidden, recipe.head, recipe.variance)


def _fitted(
    packed: Packed, recipe: Recipe, classes: int, seed: int, epochs: int, steps: int
) -> tuple[bnn.Sequential, FitResult]:
    """As `train_network` or `train_classes`, from files."""
    data, watched = packed.files["fit"], packed.files["watched"]
    model, cpu = _built(packed, recipe, classes, seed), torch.device("cpu")
    loss = default_loss(model)
    return model, fit(
        model,
        data,
        epochs=epochs,
        batch_size=recipe.batch,
        steps_per_epoch=steps,
        lr=recipe.lr,
        prior=recipe.prior,
        kl_weight=LinearWarmup(recipe.kl_weight / (data.rows * data.outputs)),
        validation=(lambda network: mean_nll(network, watched.in_order(), loss, cpu)) if watched.rows else None,
        patience=recipe.patience,
        seed=seed,
    )


def _tested(model: bnn.Sequential, test: RowFile) -> tuple[Any, torch.Tensor]:
    """Predictions for the test rows, and what was observed."""
    with torch.no_grad():
        told, seen = zip(*((model(x), y) for x, y in test.in_order()), strict=True)
    return joined_outcomes(told), torch.cat(seen)
