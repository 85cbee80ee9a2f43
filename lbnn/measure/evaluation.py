"""The model on data that it was not trained on: scores and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from markupsafe import Markup

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.base.terminal import counted
from lbnn.measure.charts import draw_classes, draw_predictions
from lbnn.measure.labels import class_names_of
from lbnn.model.file import Model, load
from lbnn.train import metrics
from lbnn.train.about import trained_columns, trained_targets
from lbnn.train.class_metrics import ClassSummary, class_summary
from lbnn.train.csvfile import CsvFormat
from lbnn.train.datafile import read_table
from lbnn.train.outcome import REPORTED_LEVELS
from lbnn.train.recipe import predict_in_parts
from lbnn.train.table import Choice, Table


@dataclass(frozen=True)
class Evaluated:
    """The model on given data."""

    source: str
    notes: tuple[str, ...]
    scores: metrics.Summary | ClassSummary
    pictures: tuple[Markup, ...]


def table_for(model: Model, data: Path, target: str | None, form: CsvFormat | None = None) -> Table:
    """The data, in the columns that the model takes."""
    choice = Choice(log_target=bool(model.metadata.get("log_target")), form=form or CsvFormat())
    targets = trained_targets(model.metadata) if target is None else (target,)
    classes = () if model.graph.head is None else class_names_of(model)
    table = read_table(data, targets or None, trained_columns(model.metadata), choice, classes)
    shape, outputs = model.graph.input.shape, 1 if classes else math.prod(model.graph.values[model.graph.output].shape)
    if table.x.shape[1:] != shape or table.y.shape[1] != outputs:
        got = f"{table.x.shape[1:]} inputs and {counted(table.y.shape[1], 'target')}"
        raise LbnnError(f"{data} has {got} a row; {model.name} takes {shape} and predicts {outputs}")
    return table


def score_on_data(path: Path, table: Table, source: str, inputs: Sequence[str], targets: Sequence[str]) -> Evaluated:
    """Scores and pictures of the model in `path` on data."""
    network = load(path)
    if table.classes:
        told, seen = predict_in_parts(network, torch.from_numpy(table.x)), torch.from_numpy(table.labels)
        pictures = draw_classes(told, seen, table.classes) if find_spec("matplotlib") else ()
        return Evaluated(source, table.notes, class_summary(told, seen), pictures)
    x, y = torch.from_numpy(table.x), torch.from_numpy(table.y)
    raw = predict_in_parts(network, x)
    predicted = Moments(raw.mean.reshape(y.shape), raw.var.reshape(y.shape))
    pictures = draw_predictions(network, x, y, predicted, inputs, targets) if find_spec("matplotlib") else ()
    return Evaluated(source, table.notes, metrics.summary(predicted, y, REPORTED_LEVELS), pictures)
