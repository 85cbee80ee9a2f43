"""`lbnn report`: one self-contained page about a model, for a review: what it is, predicts, costs and needs.

The page loads nothing: styles, script, pictures and the model itself (as WebAssembly) are inside, and its content
policy forbids everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from markupsafe import Markup

from lbnn.base.errors import LbnnError, one_line
from lbnn.base.files import refuse_unwritable, write_file
from lbnn.base.terminal import thousands
from lbnn.exporters import wasm
from lbnn.exporters.c import Footprint
from lbnn.exporters.c.names import identifier
from lbnn.graph.drawing import draw_graph
from lbnn.graph.reference import predict
from lbnn.measure import parts
from lbnn.measure.backends import choose_backends
from lbnn.measure.counting import reference_device, reference_layer_costs
from lbnn.measure.evaluation import score_on_data, table_for
from lbnn.measure.inspection import C_FORMS, inspect_model
from lbnn.measure.integer_verify import ordinary_loss, ordinary_samples
from lbnn.measure.labels import (
    class_names_of,
    input_names,
    output_size,
    refuse_labels,
    target_names,
    trained_scores,
)
from lbnn.measure.live import MOST_LIVE_INPUTS, live_data
from lbnn.measure.loss import BitLoss, measure_loss
from lbnn.measure.page import FormRow, Report, render_page
from lbnn.measure.parity import FLOAT32_TOLERANCE
from lbnn.measure.samples import draw_samples
from lbnn.measure.slices import draw_without_data
from lbnn.measure.stored import as_stored
from lbnn.measure.story import training_lines
from lbnn.measure.verify import verify_backends
from lbnn.model.file import Model, read_model
from lbnn.train.calibration import read_calibration
from lbnn.train.class_calibration import read_class_calibration
from lbnn.train.csvfile import CsvFormat
from lbnn.train.record import is_training_data
from lbnn.train.table import Table

LONGEST_DATE = 80


def write_report(
    path: Path,
    out: Path,
    data: Path | None = None,
    target: str | None = None,
    backends: Sequence[str] | None = None,
    samples: int = 32,
    force: bool = False,
    date: str | None = None,
    form: CsvFormat | None = None,
) -> Path:
    """Writes the page about the model in `path`, on `data` if there is some; `date` is what the page says it is."""
    refuse_unwritable(out, force)
    if target is not None and data is None:
        raise LbnnError("--target names a column of --data; give both")
    names, left_out = choose_backends(backends, "report")
    model = read_model(path)
    if data is not None:
        refuse_labels(model, "report --data")
    table = None if data is None else table_for(model, data, target, form)
    report = gather(path, model, table, data, names, left_out, samples)
    return write_file(out, render_page(replace(report, date=one_line(date or "")[:LONGEST_DATE])), force)


def gather(
    path: Path,
    model: Model,
    table: Table | None,
    data: Path | None,
    backends: Sequence[str],
    left_out: Mapping[str, str],
    samples: int,
) -> Report:
    """Runs everything that the page tells about."""
    left_out = dict(left_out)
    rows = verify_backends(model, draw_samples(model, samples, 0), backends, FLOAT32_TOLERANCE, left_out)
    inspected = inspect_model(model)
    classes = () if model.graph.head is None else class_names_of(model)
    inputs, targets = input_names(model), classes[-output_size(model) :] if classes else target_names(model)
    live_missing = why_not_live(len(inputs))
    return Report(
        model=model,
        inspection=inspected,
        inputs=inputs,
        targets=targets,
        graph=Markup(draw_graph(inspected.graph)),  # escaped there
        rows=tuple(rows),
        left_out=left_out,
        layers=reference_layer_costs(model),
        fits=tuple(parts.fits(inspected.footprint)),
        forms=tuple(form_row(model, name, form) for name, form in inspected.forms.items()),
        evaluated=None if table is None else score_on_data(path, table, str(data and data.name), inputs, targets),
        trained=trained_scores(model.metadata),
        calibration=None if classes else read_calibration(model.metadata, len(targets)),
        classes=classes,
        class_calibration=read_class_calibration(model.metadata) if classes else None,
        training=training_lines(model.metadata),
        fitted_to_data=data is not None and is_training_data(model.metadata, data),
        drawn=draw_without_data(path, model, inputs, targets) if table is None and find_spec("matplotlib") else None,
        layers_by=reference_device() or "",
        live=None if live_missing else live_data(model, inputs, targets, table),
        live_missing=live_missing,
        c_name=identifier(model.name),
    )


def why_not_live(inputs: int) -> str:
    """What the page says where the model does not run in it."""
    if inputs > MOST_LIVE_INPUTS:
        return f"A model of at most {MOST_LIVE_INPUTS} inputs runs in this page; this one has {thousands(inputs)}."
    return f"With zig the model itself runs in this page: {missing}" if (missing := wasm.missing()) else ""


def form_row(model: Model, name: str, form: Footprint | str) -> FormRow:
    """A form as the page shows it."""
    if isinstance(form, str):
        return FormRow(name, None, 0, None, form)
    return FormRow(name, form, sum(fit.fits for fit in parts.fits(form)), form_loss(model, name), "")


def form_loss(model: Model, name: str) -> BitLoss | None:
    """What a form of C_FORMS loses of ordinary predictions; float32 is what others are held to."""
    if name not in C_FORMS:
        return None
    if "dtype" in C_FORMS[name]:
        return ordinary_loss(model, C_FORMS[name]["dtype"])
    samples, stored = ordinary_samples(model), as_stored(model, C_FORMS[name]["weights"])
    exact, rounded = (predict(each.graph, samples.mean, samples.var) for each in (model, stored))
    return measure_loss(exact, rounded, model.graph)
