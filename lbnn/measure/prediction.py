"""`lbnn predict`: a data file through any backend, and what is told of each row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.base.files import refuse_unwritable, write_file
from lbnn.base.moments import Moments
from lbnn.base.terminal import progress
from lbnn.measure.backends import BACKENDS, choose_backends
from lbnn.measure.labels import refuse_classes, target_names
from lbnn.measure.samples import Samples
from lbnn.model.file import Model, read_model
from lbnn.model.inputs import trained_range
from lbnn.train import metrics
from lbnn.train.calibration import LEVEL, Calibration, read_calibration
from lbnn.train.csvfile import CsvFormat
from lbnn.train.datafile import read_rows
from lbnn.train.regression import trained_columns, trained_targets
from lbnn.train.table import NewRows

ROWS_IN_A_STEP = 4096


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
) -> dict[str, Any]:
    """The command: writes a row for each row of the data, empty where a value is missing."""
    refuse_unwritable(out, force)
    choose_backends([backend], "predict")
    model = read_model(path)
    refuse_classes(model, "predict")
    rows = read_rows(data, trained_columns(model.metadata), trained_targets(model.metadata), form)
    shape = model.graph.input.shape
    if rows.x.shape[1:] != shape:
        raise LbnnError(f"{data} has inputs of shape {rows.x.shape[1:]} a row; {model.name} takes {shape}")
    calibration = read_calibration(model.metadata, _outputs(model))
    level = _level(level, calibration)
    moments = run_rows(model, rows.x, backend)
    predicted = _told(model, rows, moments, level, calibration)
    write_file(out, _csv(predicted, rows, target_names(model)), force)
    found = {"rows": len(rows.whole), "predicted": len(rows.x), "level": level, "calibrated": calibration is not None}
    found |= _scores(predicted, moments, rows, bool(model.metadata.get("log_target")))
    say("\n".join([*rows.notes, *_lines(found, predicted), str(out)]))
    return {**found, "file": str(out)}


def _outputs(model: Model) -> int:
    return math.prod(model.graph.values[model.graph.output].shape)


def _level(asked: float | None, calibration: Calibration | None) -> float:
    if calibration is None:
        return LEVEL if asked is None else asked
    if asked is not None and asked != calibration.level:
        raise LbnnError(f"the model is calibrated for {calibration.level:.4g}; run lbnn calibrate --level {asked:.4g}")
    return calibration.level


def run_rows(model: Model, x: Floats, backend: str) -> Moments[Floats]:
    """The moments [n, outputs] that a backend gives for rows."""
    count = len(x) if backend not in ("torch", "onnx") else ROWS_IN_A_STEP  # a device is compiled for at every call
    starts = range(0, len(x), count)
    means, variances = [], []
    with progress(backend, [f"row {start}" for start in starts]) as steps:
        for start, _ in zip(starts, steps, strict=True):
            part = x[start : start + count]
            outcome = BACKENDS[backend].run(model, Samples(part, None, ("row",) * len(part)))
            means.append(np.asarray(outcome.mean, np.float32).reshape(len(part), -1))
            variances.append(np.asarray(outcome.var, np.float32).reshape(len(part), -1))
    return Moments(np.concatenate(means), np.concatenate(variances))


def _told(
    model: Model, rows: NewRows, moments: Moments[Floats], level: float, calibration: Calibration | None
) -> Predicted:
    tensors = Moments(*(torch.from_numpy(part.astype(np.float64)) for part in moments))
    if calibration is None:
        half = tensors.std * NormalDist().inv_cdf(0.5 + level / 2)
        low, high = tensors.mean - half, tensors.mean + half
    else:
        low, high = calibration.interval(tensors)
    mean, sd = tensors.mean, tensors.std
    if model.metadata.get("log_target"):
        mean, sd, low, high = *_lognormal(tensors), low.exp(), high.exp()
    unsure = None if calibration is None else calibration.is_unsure(tensors).numpy()
    return Predicted(mean.numpy(), sd.numpy(), low.numpy(), high.numpy(), unsure, _outside(model, rows.x))


def _lognormal(moments: Moments[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of e^z for z ~ N(mean, var)."""
    mean = torch.exp(moments.mean + moments.var / 2)
    return mean, mean * torch.expm1(moments.var).sqrt()


def _outside(model: Model, x: Floats) -> Any | None:
    """How many inputs of each row lie outside of what the model was trained on."""
    given = trained_range(model.metadata, model.graph.input.shape[0])
    if given is None:
        return None
    low, high = given
    flat = x.reshape(len(x), len(low), -1)
    return ((flat < low[:, None]) | (flat > high[:, None])).sum(axis=(1, 2))


def _csv(predicted: Predicted, rows: NewRows, targets: Sequence[str]) -> str:
    columns = _columns(predicted, targets)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    cells = iter(zip(*columns.values(), strict=True))
    empty = [""] * len(columns)
    writer.writerows(next(cells) if here else empty for here in rows.whole)
    return buffer.getvalue()


def _columns(predicted: Predicted, targets: Sequence[str]) -> dict[str, list[str]]:
    """mean, sd, low, high of each target, with its name in front where there are several; then the flags."""
    kinds = ("mean", "sd", "low", "high")
    named = {
        kind if len(targets) == 1 else f"{target}_{kind}": [_cell(v) for v in getattr(predicted, kind)[:, i]]
        for i, target in enumerate(targets)
        for kind in kinds
    }
    flags = {"unsure": predicted.unsure, "out_of_range": predicted.out_of_range}
    return named | {key: [str(int(v)) for v in values] for key, values in flags.items() if values is not None}


def _cell(value: float) -> str:
    """Enough digits for every float32; nothing where the backend gave no number."""
    return f"{value:.9g}" if math.isfinite(value) else ""


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


def _lines(found: dict[str, Any], predicted: Predicted) -> list[str]:
    lines = [f"{found['predicted']} of {found['rows']} rows predicted"]
    if "nll" in found:
        lines.append(
            f"{found['scored']} rows with a known target: NLL {found['nll']:.4g}, RMSE {found['rmse']:.4g}, "
            f"{found['level']:.4g} interval covers {found['covered']:.1%}"
        )
    if predicted.unsure is not None:
        lines.append(f"{int(predicted.unsure.sum())} rows unsure")
    else:
        lines.append("intervals are those of a Gaussian; lbnn calibrate makes them hold, and says when to be unsure")
    if predicted.out_of_range is not None and (count := int((predicted.out_of_range > 0).sum())):
        lines.append(f"{count} rows have inputs outside of the training range")
    return lines
