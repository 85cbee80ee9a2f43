"""`lbnn calibrate`: a model file with what its intervals are worth on rows that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch

from lbnn.base.errors import LbnnError
from lbnn.base.files import refuse_unwritable
from lbnn.base.moments import Moments
from lbnn.base.terminal import counted
from lbnn.measure.class_calibrating import calibrate_network, likely_coverage
from lbnn.measure.evaluation import table_for
from lbnn.measure.labels import refuse_labels, target_names
from lbnn.model.file import load, read_model, save
from lbnn.train.calibration import KEY, Calibration, calibrate
from lbnn.train.csvfile import CsvFormat
from lbnn.train.recipe import predict_in_parts
from lbnn.train.record import is_training_data


def calibrate_file(
    path: Path,
    data: Path,
    target: str | None,
    level: float,
    false_alarms: float,
    out: Path | None,
    force: bool,
    form: CsvFormat,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The command: writes the model with its calibration, over itself unless another place is named."""
    if out is not None:
        refuse_unwritable(out, force)
    model = read_model(path)
    refuse_labels(model, "calibrate")
    table = table_for(model, data, target, form)
    if is_training_data(model.metadata, data):
        raise LbnnError(f"{data} is what {path} was trained on; calibrate with rows that it has not seen")
    network, seen = load(path), torch.from_numpy(table.y)
    if model.graph.head is not None:
        return calibrate_network(network, table, out or path, level, false_alarms, say)
    raw = predict_in_parts(network, torch.from_numpy(table.x))
    found = calibrate(Moments(raw.mean.reshape(seen.shape), raw.var.reshape(seen.shape)), seen, level, false_alarms)
    written = save(network, out or path, metadata={**network.metadata, KEY: found.as_dict()})
    say("\n".join([*table.notes, *_lines(found, target_names(model)), str(written)]))
    return {**found.as_dict(), "likely_coverage": list(likely_coverage(found.rows, found.level)), "file": str(written)}


def _lines(found: Calibration, targets: tuple[str, ...]) -> list[str]:
    gaussian = NormalDist().inv_cdf(0.5 + found.level / 2)
    low, high = likely_coverage(found.rows, found.level)
    lines = [
        f"{name}: {found.level:.4g} interval mean ± {factor:.3f} sd (a Gaussian's is ± {gaussian:.3f}), "
        f"variance {scale:.3g} times the predicted, unsure above sd {limit:.4g}"
        for name, factor, scale, limit in zip(targets, found.factor, found.variance_scale, found.unsure_sd, strict=True)
    ]
    return [
        counted(found.rows, "row"),
        *lines,
        f"with so many rows the interval covers {low:.3f} to {high:.3f} of new rows like these, for 19 of 20 such sets",
    ]
