"""A report as HTML: the template, and what it may print.

Whatever comes from a model or data file reaches the page through the template's escaping, so that a name can't become
markup; the content policy names the one script that may run by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from lbnn.base import resources
from lbnn.base.templates import render
from lbnn.base.terminal import kilobytes, thousands
from lbnn.base.version import __version__
from lbnn.device.compilers import DEFAULT_FLAGS
from lbnn.exporters.c import Footprint
from lbnn.measure import parts
from lbnn.measure.counting import FLAGS_TEXT
from lbnn.measure.evaluation import Evaluated
from lbnn.measure.inspection import C_FORMS, Inspection
from lbnn.measure.labels import percent, trained_how
from lbnn.measure.layers import FEWEST, LayerCost, total
from lbnn.measure.loss import BitLoss
from lbnn.measure.parity import FLOAT32_TOLERANCE, Verdict
from lbnn.measure.slices import Drawn
from lbnn.model.file import Model
from lbnn.train.calibration import Calibration
from lbnn.train.class_calibration import ClassCalibration
from lbnn.train.record import library_versions

OPTIONS = {
    "float32": "",
    **{name: " ".join(f"--{key} {value}" for key, value in form.items()) for name, form in C_FORMS.items()},
}
"""How each form is asked for."""


@dataclass(frozen=True)
class FormRow:
    """One form of the generated C: what it takes and loses of ordinary predictions, or why there is none."""

    name: str
    need: Footprint | None
    fits: int
    loss: BitLoss | None
    reason: str

    @property
    def kl(self) -> float | None:
        """Of predictions, or of class probabilities."""
        if self.loss is None:
            return None
        return self.loss.kl_mean if self.loss.class_kl_mean is None else self.loss.class_kl_mean


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    model: Model
    inspection: Inspection
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    graph: Markup
    rows: tuple[Verdict, ...]
    left_out: Mapping[str, str]
    layers: tuple[LayerCost, ...]
    fits: tuple[parts.Fit, ...]
    forms: tuple[FormRow, ...]
    evaluated: Evaluated | None
    trained: Mapping[str, str]
    calibration: Calibration | None
    classes: tuple[str, ...]
    class_calibration: ClassCalibration | None
    live: str | None
    live_missing: str
    c_name: str
    training: tuple[tuple[str, str], ...] = ()
    fitted_to_data: bool = False
    drawn: Drawn | None = None
    layers_by: str = ""
    date: str = ""

    @property
    def trained_how(self) -> str:
        """What the scores in the model file are of."""
        return trained_how(self.model.metadata)

    @property
    def head(self) -> str | None:
        """What makes classes of the output, behind the last layer."""
        return self.model.graph.head

    @property
    def layers_total(self) -> LayerCost:
        """As `lbnn bench` sums them up."""
        return total(self.layers)

    @property
    def heaviest(self) -> int:
        """Instructions of the most expensive layer."""
        return max((layer.instructions for layer in self.layers), default=1)


def render_page(report: Report) -> str:
    """The page."""
    script = _source("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render(
        "report/page.html.j2",
        report=report,
        version=__version__,
        perhaps=parts.PERHAPS,
        fewest=FEWEST,
        reserve=(parts.RESERVE_FLASH, parts.RESERVE_RAM),
        tolerance=FLOAT32_TOLERANCE,
        verified_flags=" ".join(DEFAULT_FLAGS),
        counted_flags=FLAGS_TEXT,
        style=Markup(_source("page.css")),  # our own file
        script=Markup(script),  # our own file
        script_hash=digest,
        kilobytes=kilobytes,
        thousands=thousands,
        percent=percent,
        error=_error,
        options=OPTIONS,
        versions=library_versions(),
    )


def _source(name: str) -> str:
    return (resources.folder("codegen_templates") / "report" / name).read_text(encoding="utf-8")


def _error(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) else "not finite"
