"""`lbnn report`: one self-contained page about a model, for a review: what it is, predicts, costs and needs.

The page loads nothing: styles, script, pictures and the model itself (as WebAssembly) are inside, and its content
policy forbids everything else. Whatever comes from a model or data file reaches it through the template's escaping, so
that a name can't become markup; the policy names the one script that may run by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from markupsafe import Markup

from lbnn.base import resources
from lbnn.base.errors import LbnnError
from lbnn.base.files import refuse_existing, write_file, write_folder
from lbnn.base.moments import Moments
from lbnn.base.terminal import kilobytes, thousands
from lbnn.base.version import __version__
from lbnn.exporters import wasm
from lbnn.exporters.c import COptions, generate
from lbnn.exporters.c.names import identifier
from lbnn.graph.drawing import draw_graph
from lbnn.measure import inspection, parity, parts, verify
from lbnn.measure.inspection import Inspection
from lbnn.measure.layers import LayerCost, layer_costs
from lbnn.model.file import Model, load, read_model
from lbnn.train import metrics
from lbnn.train.datafile import Table, read_table
from lbnn.train.regression import REPORTED_LEVELS, predict_in_parts, trained_columns

BACKENDS = ("torch", "onnx", "c", "cortex-m0", "cortex-m4", "mps2-an386")
"""Compared unless others are asked for, where their tools are here."""
MOST_LIVE_INPUTS = 6
"""A slice for each input is drawn; more would not be looked at."""
MOST_POINTS = 400
BEYOND = 0.4
"""How far the interactive plot goes beyond the training range, as a share of it."""


@dataclass(frozen=True)
class Evaluated:
    """The model on given data."""

    source: str
    notes: tuple[str, ...]
    scores: metrics.Summary
    pictures: tuple[Markup, ...]


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    model: Model
    inspection: Inspection
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    graph: Markup
    rows: tuple[parity.Row, ...]
    left_out: Mapping[str, str]
    layers: tuple[LayerCost, ...]
    fits: tuple[parts.Fit, ...]
    evaluated: Evaluated | None
    trained: Mapping[str, str]
    live: str | None
    live_missing: str
    c_name: str

    @property
    def heaviest(self) -> int:
        """Instructions of the most expensive layer."""
        return max((layer.instructions for layer in self.layers), default=1)


def write_report(
    path: Path,
    out: Path,
    data: Path | None = None,
    target: str | None = None,
    backends: Sequence[str] | None = None,
    samples: int = 32,
    force: bool = False,
) -> Path:
    """Writes the page about the model in `path`, on `data` if there is some."""
    refuse_existing(out, force)
    if target is not None and data is None:
        raise LbnnError("--target names a column of --data; give both")
    names, left_out = _backends(backends)
    model = read_model(path)
    table = None if data is None else _table(model, data, target)
    return write_file(out, render(gather(path, model, table, data, names, left_out, samples)), force)


def _backends(asked: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    if asked:
        return parity.choose(asked)
    lacking = {name: parity.missing(name) for name in BACKENDS}
    return [name for name in BACKENDS if not lacking[name]], {name: how for name, how in lacking.items() if how}


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
    rows = verify.run(model, parity.draw_samples(model, samples, 0), backends, parity.FLOAT32_TOLERANCE, left_out)
    inspected = inspection.inspect(model)
    inputs, targets = (
        input_names(model),
        _names(model, "targets", _size(inspected.graph.values[inspected.graph.output])),
    )
    live = None if wasm.missing() or len(inputs) > MOST_LIVE_INPUTS else live_data(model, inputs, targets, table)
    return Report(
        model=model,
        inspection=inspected,
        inputs=inputs,
        targets=targets,
        graph=Markup(draw_graph(inspected.graph)),  # escaped there
        rows=tuple(rows),
        left_out=left_out,
        layers=_layer_costs(model),
        fits=tuple(parts.fits(inspected.footprint)),
        evaluated=None if table is None else evaluate(path, table, str(data and data.name), inputs, targets),
        trained=_trained_scores(model.metadata),
        live=live,
        live_missing=wasm.missing() if len(inputs) <= MOST_LIVE_INPUTS else "",
        c_name=identifier(model.name),
    )


def render(report: Report) -> str:
    """The page."""
    script = _source("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = _environment().get_template("page.html.j2")
    return page.render(
        report=report,
        version=__version__,
        reserve=(parts.RESERVE_FLASH, parts.RESERVE_RAM),
        tolerance=parity.FLOAT32_TOLERANCE,
        style=Markup(_source("page.css")),  # our own file
        script=Markup(script),  # our own file
        script_hash=digest,
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.folder("codegen_templates") / "report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    environment.filters.update(kilobytes=kilobytes, thousands=thousands, percent=_percent, error=_error)
    return environment


def _source(name: str) -> str:
    return (resources.folder("codegen_templates") / "report" / name).read_text(encoding="utf-8")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _error(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) else "not finite"


# --- Names, ranges and scores, which a model file may hold or not -----------------------------------------------


def _size(value: Any) -> int:
    return math.prod(value.shape)


def input_names(model: Model) -> tuple[str, ...]:
    """The name of each input, or x0, x1, ... where the file does not name them."""
    return _names(model, "inputs", _size(model.graph.input))


def _names(model: Model, key: str, count: int) -> tuple[str, ...]:
    given = model.metadata.get(key)
    if isinstance(given, list) and len(given) == count and all(isinstance(name, str) for name in given):
        return tuple(given)
    letter = {"inputs": "x", "targets": "y"}[key]
    return (letter,) if count == 1 else tuple(f"{letter}{i}" for i in range(count))


def input_range(model: Model, table: Table | None) -> list[tuple[float, float]]:
    """Where the training inputs were: of the model file, else of the data, else what the first layer standardises."""
    count = _size(model.graph.input)
    given = model.metadata.get("input_range")
    if _is_range(given, count):
        low, high = given  # type: ignore[misc]
        return list(zip(low, high, strict=True))
    if table is not None:
        flat = table.x.reshape(len(table), -1)
        return list(zip(flat.min(axis=0).tolist(), flat.max(axis=0).tolist(), strict=True))
    centre, spread = (np.broadcast_to(a, model.graph.input.shape).ravel() for a in parity.input_scale(model.graph))
    return [(float(c - 2 * s), float(c + 2 * s)) for c, s in zip(centre, spread, strict=True)]


def _is_range(given: Any, count: int) -> bool:
    """Two lists of so many finite numbers, each low below its high."""
    try:
        low, high = (np.array(part, dtype=np.float64) for part in given)
    except (TypeError, ValueError):
        return False
    shapes = low.shape == high.shape == (count,)
    return bool(shapes and np.isfinite([low, high]).all() and (low < high).all())


def _trained_scores(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What the file says of its test rows, as far as it is numbers."""
    test = metadata.get("test")
    test = test if isinstance(test, dict) else {}
    coverage = test.get("coverage")
    coverage = coverage if isinstance(coverage, dict) else {}
    scores = {"test rows": test.get("rows"), "NLL": test.get("nll"), "RMSE": test.get("rmse")}
    shown = {name: f"{value:.4g}" for name, value in scores.items() if isinstance(value, (int, float))}
    covered = {f"{k} interval covers": _percent(v) for k, v in coverage.items() if isinstance(v, (int, float))}
    return {**shown, **covered}


# --- The model on data --------------------------------------------------------------------------------------------


def _table(model: Model, data: Path, target: str | None) -> Table:
    """The data, in the columns that the model takes."""
    targets = model.metadata.get("targets")
    if target is None and isinstance(targets, list) and len(targets) == 1 and isinstance(targets[0], str):
        target = targets[0]
    table = read_table(data, target, trained_columns(model.metadata))
    shape, outputs = model.graph.input.shape, math.prod(model.graph.values[model.graph.output].shape)
    if table.x.shape[1:] != shape or table.y.shape[1] != outputs:
        got = f"{table.x.shape[1:]} inputs and {table.y.shape[1]} targets"
        raise LbnnError(f"{data} has {got} a row; {model.name} takes {shape} and predicts {outputs}")
    return table


def evaluate(path: Path, table: Table, source: str, inputs: Sequence[str], targets: Sequence[str]) -> Evaluated:
    """Scores and pictures of the model in `path` on data."""
    network = load(path).eval()
    x, y = torch.from_numpy(table.x), torch.from_numpy(table.y)
    raw = predict_in_parts(network, x)
    predicted = Moments(raw.mean.reshape(y.shape), raw.var.reshape(y.shape))
    pictures = _pictures(network, x, y, predicted, inputs, targets) if find_spec("matplotlib") else ()
    return Evaluated(source, table.notes, metrics.summary(predicted, y, REPORTED_LEVELS), pictures)


def _pictures(
    network: torch.nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    predicted: Moments[torch.Tensor],
    inputs: Sequence[str],
    targets: Sequence[str],
) -> tuple[Markup, ...]:
    """Predicted against observed and calibration; for one input and one output also the band over it."""
    from lbnn.train import plots

    drawn = [
        plots.against_observed(predicted, y, name=targets[0]).get_figure(),
        plots.calibration(predicted, y).get_figure(),
    ]
    if x[0].numel() == y[0].numel() == 1:
        low, high = float(x.min()), float(x.max())
        margin = BEYOND * (high - low)
        grid = torch.linspace(low - margin, high + margin, 300).reshape(-1, *x.shape[1:])
        band = predict_in_parts(network, grid)
        few = torch.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).long()
        axes = plots.prediction_band(
            grid.reshape(-1), Moments(band.mean.reshape(-1), band.var.reshape(-1)),
            data=(x[few].reshape(-1), y[few].reshape(-1)), trained_on=(low, high),
        )  # fmt: skip
        axes.set(xlabel=plots.literal(inputs[0]), ylabel=plots.literal(targets[0]))
        drawn.insert(0, axes.get_figure())
    return tuple(inline_svg(figure, number) for number, figure in enumerate(drawn))


# Colours of lbnn.train.plots as variables of the page, which differ in light and dark.
COLOURS = {
    "#0072b2": "--blue",
    "#d55e00": "--orange",
    "#1a1a1a": "--ink",
    "#000000": "--ink",
    "#6f6f6f": "--muted",
    "#4d4d4d": "--muted",
    "#8fc1e3": "--band1",
    "#d3e6f4": "--band2",
    "#e6e6e6": "--grid",
    "#dadada": "--lens",
    "#b0b0b0": "--line",
    "#ffffff": "--card",
}


def inline_svg(figure: Any, number: int) -> Markup:
    """A matplotlib figure as SVG inside the page, in the page's colours; `number` keeps its ids apart from others'."""
    from matplotlib import pyplot, rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": f"lbnn{number}"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of characters that the font lacks
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    pyplot.close(figure)
    text = buffer.getvalue()
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'<svg[^>]*?(viewBox="[^"]*")[^>]*>', r"<svg \1>", text, count=1)
    themed = re.sub(r"#[0-9a-f]{6}\b", lambda m: f"var({COLOURS[m[0]]})" if m[0] in COLOURS else m[0], text)
    return Markup(re.sub(r"\n\s*", "\n", themed))  # matplotlib escapes text


# --- Costs and the model inside the page ----------------------------------------------------------------------------


def _layer_costs(model: Model) -> tuple[LayerCost, ...]:
    """Instructions of each layer on a Cortex-M4F; none where it can't be emulated."""
    from lbnn.device.devices import run_model
    from lbnn.measure.bench import COUNTED, DEVICE_FLAGS, REFERENCE_DEVICES, ordinary_inputs

    device = next((name for name in REFERENCE_DEVICES if not parity.missing(name)), None)
    if device is None:
        return ()
    inputs = ordinary_inputs(model)[:COUNTED].reshape(COUNTED, -1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_folder(Path(temporary) / "c", generate(model, COptions(name="model")))
        try:
            result = run_model(device, folder, "model", inputs, flags=DEVICE_FLAGS, profile=True)
        except LbnnError:
            return ()
        return layer_costs(model, folder / "model.c", result)


def live_data(model: Model, inputs: Sequence[str], targets: Sequence[str], table: Table | None) -> str:
    """What the script needs, as JSON that can stand inside an HTML element: no < > &."""
    choices = _choices(model, inputs)
    chosen = {choice["first"] + i for choice in choices for i in range(len(choice["levels"]))}
    ranges = enumerate(zip(inputs, input_range(model, table), strict=True))
    data = {
        "wasm": base64.b64encode(wasm.compile_wasm(model)).decode(),
        "count": len(inputs),
        "inputs": [_live_input(i, name, *ends) for i, (name, ends) in ranges if i not in chosen],
        "choices": choices,
        "outputs": list(targets),
        "points": _points(table) if table is not None and len(inputs) == 1 else [],
    }
    return re.sub(r"[<>&]", lambda m: f"\\u{ord(m[0]):04x}", json.dumps(data))


def _live_input(index: int, name: str, low: float, high: float) -> dict[str, Any]:
    """A number that can be dragged, some way beyond its range too."""
    beyond = BEYOND * (high - low)
    return {"index": index, "name": name, "low": low, "high": high, "from": low - beyond, "to": high + beyond}


def _choices(model: Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
    """The categories: where the indicators of each begin among the inputs."""
    choices, first = [], 0
    for column in trained_columns(model.metadata):
        if column.levels:
            choices.append({"first": first, "name": column.name, "levels": list(column.levels)})
        first += len(column.inputs)
    return choices if first == len(inputs) else []


def _points(table: Table) -> list[list[float]]:
    """Some rows of the data to draw, (x, y of each output)."""
    few = np.linspace(0, len(table) - 1, min(len(table), MOST_POINTS)).astype(int)
    return np.concatenate([table.x.reshape(len(table), -1), table.y], axis=1)[few].tolist()  # type: ignore[no-any-return]
