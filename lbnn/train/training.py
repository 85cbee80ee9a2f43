"""`lbnn train`: from a data file to a model that takes raw units and gives raw units, with what it is worth.

The model is fitted to all rows. Its scores are those of networks fitted in the same way to some of the rows, on the
others: cross-validation, or one share of test rows where that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.files import refuse_unwritable
from lbnn.base.terminal import counted
from lbnn.model.file import save
from lbnn.model.inputs import range_of
from lbnn.train.about import KEY_OF_CLASSES, described
from lbnn.train.datafile import FEWEST_ROWS, file_sha256, read_table
from lbnn.train.labels import check_class_options, check_class_sizes
from lbnn.train.outcome import Trained, picture, plain_scores, summary_lines
from lbnn.train.processes import PeerLost, joined_processes
from lbnn.train.recipe import (
    Recipe,
    class_recipe_for,
    joined_outcomes,
    predict_in_parts,
    recipe_for,
    train_classes,
    train_network,
)
from lbnn.train.record import KEY_OF_DATA, KEY_OF_TRAINING, how_chosen, training_record
from lbnn.train.result import FitResult
from lbnn.train.splits import folds, held_out, others
from lbnn.train.table import Choice, Table, describe

WIDEST = 4096
FOLDS = 3
WATCHED = 0.15
"""Share of the rows that decide when to stop, where patience is asked for."""


def train_table(table: Table, seed: int = 0, test_share: float | None = None, **given: Any) -> Trained:
    """Fits all rows but a share for the test, if one is asked for, and scores by it or else by cross-validation.

    `given` are fields of a Recipe; what is not given follows from the data.
    """
    if len(table) < FEWEST_ROWS:
        raise LbnnError(f"{counted(len(table), 'row')} without a missing value; at least {FEWEST_ROWS} are needed")
    if table.classes:
        check_class_sizes(table.classes, np.bincount(table.labels, minlength=len(table.classes)).tolist())
    recipe = (class_recipe_for if table.classes else recipe_for)(len(table), table.x.shape[1:], **given)
    trained = _fitted_and_scored(table, recipe, seed, test_share)
    return replace(trained, record=training_record(recipe, _counts(table, recipe, seed, test_share), seed))


def _counts(table: Table, recipe: Recipe, seed: int, test_share: float | None) -> dict[str, int]:
    """How many rows the network was fitted to, how many decided when to stop, how many were for the test."""
    test = 0 if test_share is None else len(held_out(table, test_share, seed))
    rest = table if test_share is None else table.rows(others(table, held_out(table, test_share, seed)))
    watched = len(held_out(rest, WATCHED, seed)) if recipe.patience else 0
    return {"fitted": len(rest) - watched, "watched to stop": watched, "for the test": test, "in all": len(table)}


def _fitted_and_scored(table: Table, recipe: Recipe, seed: int, test_share: float | None) -> Trained:
    if test_share is None:
        model, history = _fitted(table, recipe, seed)
        return _cross_validated(model, history, table, recipe, seed)
    part = held_out(table, test_share, seed)
    model, history = _fitted(table.rows(others(table, part)), recipe, seed)
    if history.interrupted:
        return Trained(model, history, None, torch.empty(0), "interrupted")
    test = predict_in_parts(model, torch.from_numpy(table.x[part]))
    return Trained(model, history, test, _observed(table, part), counted(len(part), "test row"))


def _observed(table: Table, rows: Any) -> torch.Tensor:
    """Numbers [n, outputs] or numbers of classes [n]."""
    return torch.from_numpy((table.labels if table.classes else table.y)[rows])


def _fitted(table: Table, recipe: Recipe, seed: int) -> tuple[bnn.Sequential, FitResult]:
    """A network for the table, of which some rows are watched if the recipe has patience."""
    watched = held_out(table, WATCHED, seed) if recipe.patience else None
    if table.classes:
        return train_classes(table.x, table.labels, len(table.classes), recipe, seed, watched)
    return train_network(table.x, table.y, recipe, seed, watched)


def _cross_validated(model: bnn.Sequential, history: FitResult, table: Table, recipe: Recipe, seed: int) -> Trained:
    """Every row predicted by a network that was fitted to the other folds; Ctrl-C leaves out what is not done."""
    parts, done = folds(table, FOLDS, seed), []
    for part in [] if history.interrupted else parts:
        try:
            network, past = _fitted(table.rows(others(table, part)), recipe, seed)
        except (KeyboardInterrupt, PeerLost):  # in the first epoch
            break
        if past.interrupted:
            break
        done.append(predict_in_parts(network, torch.from_numpy(table.x[part])))
    if not done:
        return Trained(model, history, None, torch.empty(0), "interrupted")
    rows = np.concatenate(parts[: len(done)])
    how = f"{counted(len(rows), 'row')} in {len(parts)}-fold cross-validation"
    return Trained(model, history, joined_outcomes(done), _observed(table, rows), how)


def parse_hidden(text: str) -> tuple[int, ...]:
    """The sizes of the hidden layers in a text such as 50 or 16,16."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and 1 <= int(word) <= WIDEST for word in words):
        raise LbnnError(f"--hidden takes numbers from 1 to {WIDEST}, such as 16,16; got {text!r:.40}")
    return tuple(map(int, words))


@dataclass(frozen=True)
class Job:
    """What `lbnn train` is asked: the data and its targets, what of it to use, and what is not to follow from it."""

    data: Path
    targets: tuple[str, ...]
    choice: Choice
    out: Path
    seed: int = 0
    test_share: float | None = None
    force: bool = False
    stream: bool | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)


def train_file(job: Job, say: Callable[[str], None]) -> dict[str, Any]:
    """The command: reads, trains, and writes the model and a picture beside it; returns what it found."""
    check_places(job)
    table = read_table(job.data, job.targets or None, choice=job.choice)
    check_class_options(table.classes, job.recipe)
    say(describe(table))
    if table.x.ndim == 2:
        torch.set_num_threads(1)  # layers this small only wait for each other on several
    trained = train_table(table, job.seed, job.test_share, **job.recipe)
    say(summary_lines(trained))
    about = described(table.columns, table.targets, table.classes, len(table), range_of(table.x))
    about |= {"test": plain_scores(trained)}
    about |= origin(job, trained, list(job.targets) if table.columns else list(table.targets))
    return written(job, trained, about, table.x.shape[1:], say)


def check_places(job: Job) -> None:
    """Refuses what could not be written at the end."""
    if job.out.suffix == ".png":
        raise LbnnError(f"{job.out} is a picture; name a file for the model, such as model.pt")
    if joined_processes().rank == 0:
        refuse_unwritable(job.out, job.force)
        refuse_unwritable(job.out.with_suffix(".png"), job.force)


def written(
    job: Job, trained: Trained, about: dict[str, Any], shape: tuple[int, ...], say: Callable[[str], None]
) -> dict[str, Any]:
    """Writes the model and the picture; what the command found. Of many processes the first one writes."""
    files = _files(trained, job.out, about, shape) if joined_processes().rank == 0 else []
    say("\n".join(map(str, files)))
    history = trained.history
    ended = {"epochs": len(history.epochs), "best_epoch": history.best_epoch, "interrupted": history.interrupted}
    return {**about, **ended, "files": list(map(str, files))}


def origin(job: Job, trained: Trained, columns: list[str]) -> dict[str, Any]:
    """Which data the model comes from and how it was trained, and whether it predicts logarithms of its columns."""
    logarithm = {"log_target": True, "target_columns": columns} if job.choice.log_target else {}
    rows = trained.record["rows"]
    chosen = {"chosen": how_chosen(job.choice, job.seed)} if rows["fitted"] < rows["in all"] else {}
    record = {"data": job.data.name, **trained.record, **chosen, "epochs": len(trained.history.epochs)}
    return {KEY_OF_DATA: file_sha256(job.data), KEY_OF_TRAINING: record, **logarithm}


def _files(trained: Trained, out: Path, about: dict[str, Any], shape: tuple[int, ...]) -> list[Path]:
    """The model, and the picture where matplotlib is here to draw it."""
    files = [save(trained.model, out, shape, metadata=about)]
    if trained.test is not None and find_spec("matplotlib"):
        files.append(picture(trained, about.get(KEY_OF_CLASSES) or about["targets"], out.with_suffix(".png")))
    return files
