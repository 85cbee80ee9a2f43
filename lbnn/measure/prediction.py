"""`lbnn predict`: a data file through any backend, and what is told of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.files import growing_file, refuse_unwritable
from lbnn.base.moments import Moments
from lbnn.base.terminal import counted, share_bar
from lbnn.measure.backends import choose_backends, find_runner
from lbnn.measure.class_prediction import predict_classes
from lbnn.measure.data_rows import check_row_shape, csv_rows, number_cell, outside_range, run_parts
from lbnn.measure.labels import output_size, target_names
from lbnn.measure.totals import Totals
from lbnn.model.file import Model, read_model
from lbnn.train import metrics
from lbnn.train.about import trained_columns, trained_targets
from lbnn.train.calibration import LEVEL, Calibration, read_calibration
from lbnn.train.csvfile import CsvFormat
from lbnn.train.newrows import RowReader
from lbnn.train.table import NewRows


@dataclass(frozen=True)
class Predicted:
    """What is told of each row: moments and interval [n, outputs], and flags [n] where the model file has their limits.

    For a model of logarithms these are the moments and the interval of the target itself.
    """

    mean: Floats
    sd: Floats
    low: Floats
    high: Floats
    unsure: Any | None
    out_of_range: Any | None


def predict_file(
    path: Path,
    data: Path,
    out: Path,
    backend: str,
    level: float | None,
    force: bool,
    form: CsvFormat,
    say: Callable[[str], None],
    dtype: str = "float32",
) -> dict[str, Any]:
    """The command: writes a row for each row of the data, empty where a value is missing."""
    refuse_unwritable(out, force)
    choose_backends([backend], "predict")
    find_runner(backend, dtype=dtype)  # an error before any row is read
    model = read_model(path)
    if model.graph.head is not None:
        return predict_classes(model, data, out, backend, dtype, level, force, form, say)
    reader = RowReader(data, trained_columns(model.metadata), trained_targets(model.metadata), form)
    calibration = read_calibration(model.metadata, output_size(model))
    level, totals = _level(level, calibration), Totals()
    with growing_file(out, force) as add, share_bar(backend) as show:
        for rows in reader:
            check_row_shape(data, model, rows)
            moments = run_rows(model, rows.x, backend, dtype, lambda part: show(part * reader.share))
            predicted = _told(model, rows, moments, level, calibration)
            add(csv_rows(_columns(predicted, target_names(model)), rows.whole, header=not totals.chunks))
            scores = _scores(predicted, moments, rows, bool(model.metadata.get("log_target")))
            totals.add(predicted.unsure, predicted.out_of_range, scores)
    found = {"rows": reader.rows, "predicted": reader.whole, "level": level, "calibrated": calibration is not None}
    found |= totals.scores
    say("\n".join([*reader.notes, *_lines(found, totals), str(out)]))
    return {**found, "file": str(out)}


def _level(asked: float | None, calibration: Calibration | None) -> float:
    if calibration is None:
        return LEVEL if asked is None else asked
    if asked is not None and asked != calibration.level:
        raise LbnnError(f"the model is calibrated for {calibration.level:.4g}; run lbnn calibrate --level {asked:.4g}")
    return calibration.level


def run_rows(model: Model, x: Floats, backend: str, dtype: str, show: Callable[[float], None]) -> Moments[Floats]:
    """The moments [n, outputs] that a backend gives for rows; tells which share of them is done."""
    means, variances = (
        [np.empty((0, output_size(model)), np.float32)],
        [np.empty((0, output_size(model)), np.float32)],
    )
    for outcome in run_parts(model, x, backend, dtype, show):
        means.append(np.asarray(outcome.mean, np.float32).reshape(len(outcome.mean), -1))
        variances.append(np.asarray(outcome.var, np.float32).reshape(len(outcome.var), -1))
    return Moments(np.concatenate(means), np.concatenate(variances))


def _told(
    model: Model, rows: NewRows, moments: Moments[Floats], level: float, calibration: Calibration | None
) -> Predicted:
    tensors = Moments(*(torch.from_numpy(part.astype(np.float64)) for part in moments))
    low, high = tensors.interval(level) if calibration is None else calibration.interval(tensors)
    mean, sd = tensors.mean, tensors.sd
    if model.metadata.get("log_target"):
        mean, sd, low, high = *_lognormal(tensors), low.exp(), high.exp()
    unsure = None if calibration is None else calibration.is_unsure(tensors).numpy()
    return Predicted(mean.numpy(), sd.numpy(), low.numpy(), high.numpy(), unsure, outside_range(model, rows.x))


def _lognormal(moments: Moments[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of e^z for z ~ N(mean, var)."""
    mean = torch.exp(moments.mean + moments.var / 2)
    return mean, mean * torch.expm1(moments.var).sqrt()


def _columns(predicted: Predicted, targets: Sequence[str]) -> dict[str, list[str]]:
    """mean, sd, low, high of each target, with its name in front where there are several; then the flags."""
    kinds = ("mean", "sd", "low", "high")
    named = {
        kind if len(targets) == 1 else f"{target}_{kind}": [number_cell(v) for v in getattr(predicted, kind)[:, i]]
        for i, target in enumerate(targets)
        for kind in kinds
    }
    flags = {"unsure": predicted.unsure, "out_of_range": predicted.out_of_range}
    return named | {key: [str(int(v)) for v in values] for key, values in flags.items() if values is not None}


def _scores(predicted: Predicted, moments: Moments[Floats], rows: NewRows, logarithms: bool) -> dict[str, Any]:
    """How good the predictions are, if the file says what was observed."""
    if rows.y is None or rows.y.shape != moments.mean.shape:
        return {}
    known = np.isfinite(rows.y).all(axis=1) & np.isfinite(moments.mean).all(axis=1)
    if not known.any():
        return {}
    y = rows.y[known]
    inside = (predicted.low[known] <= y) & (y <= predicted.high[known])
    seen = torch.from_numpy(np.log(y) if logarithms else y)
    summary = metrics.summary(Moments(*(torch.from_numpy(part[known]) for part in moments)), seen)
    rmse = float(np.sqrt(np.mean((predicted.mean[known] - y) ** 2)))
    return {"scored": len(y), "nll": summary.nll, "rmse": rmse, "covered": float(inside.mean())}


def _lines(found: dict[str, Any], totals: Totals) -> list[str]:
    lines = [f"{found['predicted']} of {counted(found['rows'], 'row')} predicted"]
    if "nll" in found:
        lines.append(
            f"{counted(found['scored'], 'row')} with a known target: NLL {found['nll']:.4g}, RMSE {found['rmse']:.4g}, "
            f"{found['level']:.4g} interval covers {found['covered']:.1%}"
        )
    hint = "intervals are those of a Gaussian; lbnn calibrate makes them hold, and says when to be unsure"
    return lines + totals.lines(hint)
