"""Pictures of a model's predictions, as SVG in the colours of the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from markupsafe import Markup

from lbnn.base.classes import Classes
from lbnn.base.moments import Moments
from lbnn.measure.live import BEYOND, MOST_POINTS
from lbnn.train import class_plots, plots
from lbnn.train.recipe import predict_in_parts


def draw_predictions(
    network: torch.nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    predicted: Moments[torch.Tensor],
    inputs: Sequence[str],
    targets: Sequence[str],
) -> tuple[Markup, ...]:
    """Predicted against observed and calibration; for one input and one output also the band over it."""
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
        with plots.on_axes(None, figsize=(9.6, 4.2)) as axes:
            plots.prediction_band(
                grid.reshape(-1), Moments(band.mean.reshape(-1), band.var.reshape(-1)),
                data=(x[few].reshape(-1), y[few].reshape(-1)), trained_on=(low, high), ax=axes,
            )  # fmt: skip
            axes.set(xlabel=plots.literal(inputs[0]), ylabel=plots.literal(targets[0]))
        drawn.insert(0, axes.get_figure())
    return tuple(inline_svg(figure, number) for number, figure in enumerate(drawn))


def draw_classes(predicted: Classes[torch.Tensor], target: torch.Tensor, names: Sequence[str]) -> tuple[Markup, ...]:
    """Reliability, risk against coverage, and what is taken for what."""
    drawn = [
        class_plots.reliability_diagram(predicted, target),
        class_plots.risk_coverage_curve(predicted, target),
        class_plots.confusion_matrix(predicted, target, names=names),
    ]
    return tuple(inline_svg(axes.get_figure(), number) for number, axes in enumerate(drawn))


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
