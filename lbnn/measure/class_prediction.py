"""`lbnn predict` of a network that gives classes: the class of each row, how probable each is, and how unsure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn.base.arrays import AnyArray
from lbnn.base.errors import LbnnError
from lbnn.base.files import growing_file
from lbnn.base.terminal import counted, share_bar
from lbnn.measure.data_rows import check_row_shape, csv_rows, number_cell, outside_range, run_parts
from lbnn.measure.labels import class_names_of, output_size, tells_one_class
from lbnn.measure.totals import Totals
from lbnn.model.file import Model
from lbnn.model.inputs import unsure_entropy
from lbnn.train import class_metrics
from lbnn.train.about import trained_columns, trained_targets
from lbnn.train.class_calibration import ClassCalibration, read_class_calibration
from lbnn.train.csvfile import CsvFormat
from lbnn.train.newrows import RowReader
from lbnn.train.table import NewRows


@dataclass(frozen=True)
class PredictedClasses:
    """What is told of each row: probabilities and sets [n, K], entropies and flags [n]; some if the file has limits."""

    names: tuple[str, ...]
    probability: AnyArray
    entropy: AnyArray
    epistemic: AnyArray
    sets: Any | None
    unsure: Any | None
    out_of_range: Any | None

    @property
    def columns(self) -> dict[str, list[str]]:
        """The columns of the CSV; empty where the backend gave no number."""
        answered: Any = np.isfinite(self.probability).all(axis=1)
        best = np.where(np.isfinite(self.probability), self.probability, 0.0).argmax(axis=1)
        told = {"class": [self.names[k] if here else "" for k, here in zip(best, answered, strict=True)]}
        told |= {f"p_{name}": list(map(number_cell, self.probability[:, k])) for k, name in enumerate(self.names)}
        told |= {name: list(map(number_cell, getattr(self, name))) for name in ("entropy", "epistemic")}
        if self.sets is not None:
            told["set"] = ["|".join(np.array(self.names)[row].tolist()) for row in self.sets]
        flags = {"unsure": self.unsure, "out_of_range": self.out_of_range}
        return told | {key: [str(int(v)) for v in values] for key, values in flags.items() if values is not None}


def predict_classes(
    model: Model,
    data: Path,
    out: Path,
    backend: str,
    dtype: str,
    level: float | None,
    force: bool,
    form: CsvFormat,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The command for a network with a head: writes a row for each row of the data."""
    calibration = read_class_calibration(model.metadata)
    _check_level(level, calibration)
    names, totals = class_names_of(model), Totals()
    columns, targets = trained_columns(model.metadata), trained_targets(model.metadata)
    reader = RowReader(data, columns, targets, form, classes=names)
    with growing_file(out, force) as add, share_bar(backend) as show:
        for rows in reader:
            check_row_shape(data, model, rows)
            predicted = run_classes(model, rows, backend, dtype, lambda part: show(part * reader.share))
            add(csv_rows(predicted.columns, rows.whole, header=not totals.chunks))
            scores = _scores(predicted, rows) if tells_one_class(model) else {}
            totals.add(predicted.unsure, predicted.out_of_range, scores)
    found = {"rows": reader.rows, "predicted": reader.whole, "classes": list(names)}
    found |= {"calibrated": calibration is not None, **totals.scores}
    say("\n".join([*reader.notes, *_lines(found, totals), str(out)]))
    return {**found, "file": str(out)}


def _check_level(level: float | None, calibration: ClassCalibration | None) -> None:
    if level is not None and calibration is None:
        raise LbnnError("a set of classes that holds needs lbnn calibrate first; until then leave out --level")
    if level is not None and calibration is not None and level != calibration.level:
        raise LbnnError(f"the model is calibrated for {calibration.level:.4g}; run lbnn calibrate --level {level:.4g}")


def run_classes(
    model: Model, rows: NewRows, backend: str, dtype: str, show: Callable[[float], None]
) -> PredictedClasses:
    """What a backend tells of rows."""
    parts: list[Any] = [outcome.classes for outcome in run_parts(model, rows.x, backend, dtype, show)]
    empty = np.empty((0, output_size(model)))
    probability = np.concatenate([empty, *(np.asarray(part.probability, np.float64) for part in parts)])
    entropy, epistemic = (
        np.concatenate([empty[:, 0], *(np.asarray(getattr(part, name), np.float64) for part in parts)])
        for name in ("entropy", "epistemic")
    )
    if probability.shape[1] == 1:
        probability = np.concatenate([1.0 - probability, probability], axis=1)
    limit = unsure_entropy(model.metadata)
    unsure = None if limit is None else ~(entropy <= limit)
    found = read_class_calibration(model.metadata)
    sets = None if found is None else found.sets(probability)
    outside = outside_range(model, rows.x)
    return PredictedClasses(class_names_of(model), probability, entropy, epistemic, sets, unsure, outside)


def _scores(predicted: PredictedClasses, rows: NewRows) -> dict[str, float]:
    """How good the predictions are, if the file says what was observed."""
    if rows.y is None or rows.y.shape[1] != 1:
        return {}
    known = np.isfinite(rows.y[:, 0]) & np.isfinite(predicted.probability).all(axis=1)
    if not known.any():
        return {}
    told, seen = torch.from_numpy(predicted.probability[known]), torch.from_numpy(rows.y[known, 0]).long()
    measured = {"accuracy": class_metrics.accuracy, "nll": class_metrics.log_loss, "brier": class_metrics.brier}
    scores = {"scored": int(known.sum())} | {name: metric(told, seen) for name, metric in measured.items()}
    if predicted.sets is not None:
        scores["covered"] = float(predicted.sets[known, seen.numpy()].mean())
    return scores


def _lines(found: Mapping[str, Any], totals: Totals) -> list[str]:
    lines = [f"{found['predicted']} of {counted(found['rows'], 'row')} predicted"]
    if "nll" in found:
        scores = f"accuracy {found['accuracy']:.1%}, NLL {found['nll']:.4g}, Brier {found['brier']:.4g}"
        covered = f", the set holds it in {found['covered']:.1%}" if "covered" in found else ""
        lines.append(f"{counted(found['scored'], 'row')} with a known class: {scores}{covered}")
    return lines + totals.lines("lbnn calibrate makes the probabilities hold, and says when to be unsure")
