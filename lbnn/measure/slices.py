"""Pictures of a model without any data: its predictions along each input, or how well its weights are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup

from lbnn.base.classes import Classes
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.graph import Graph
from lbnn.measure.charts import inline_svg
from lbnn.measure.labels import input_range
from lbnn.measure.live import BEYOND, find_choices, indicators
from lbnn.model.file import Model, load
from lbnn.train import plots
from lbnn.train.recipe import predict_in_parts

MOST_SLICES = 6
MOST_CURVES = 6
"""Classes in one picture."""
CURVE_COLOURS = (plots.BLUE, plots.ORANGE, plots.BLACK)
MOST_SLICED = 256
"""Of more a slice along one says little."""
STEPS = 200
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_LAYERS = 30


@dataclass(frozen=True)
class Slice:
    """What a model says along one input, the others being in the middle of their range."""

    name: str
    ends: tuple[float, float]
    grid: torch.Tensor
    out: Any

    @property
    def change(self) -> float:
        """How much the prediction changes."""
        level = self.out.probability if isinstance(self.out, Classes) else self.out.mean[:, :1]
        return float((level.amax(0) - level.amin(0)).max())


@dataclass(frozen=True)
class Drawn:
    """Pictures and what they show."""

    caption: str
    pictures: tuple[Markup, ...]


def draw_without_data(path: Path, model: Model, inputs: Sequence[str], targets: Sequence[str]) -> Drawn | None:
    """Slices along inputs that have names, or can have; of images, windows and very many inputs the weights."""
    if len(model.graph.input.shape) > 1 or len(inputs) > MOST_SLICED:
        return draw_weights(model.graph)
    found = slices(load(path), input_range(model, None), inputs, find_choices(model, inputs))
    return draw_slices(found, targets, len(inputs)) if found else draw_weights(model.graph)


def slices(
    network: torch.nn.Module,
    ranges: Sequence[tuple[float, float]],
    inputs: Sequence[str],
    choices: Sequence[Mapping[str, Any]],
) -> list[Slice]:
    """Along each input; of categories the first is taken. Of many inputs those along which most changes."""
    chosen, first = indicators(choices), {choice["first"] for choice in choices}
    middle = torch.tensor([float(i in first) if i in chosen else (a + b) / 2 for i, (a, b) in enumerate(ranges)])
    found = []
    for number, (low, high) in enumerate(ranges):
        if number not in chosen:
            margin, rows = BEYOND * (high - low), middle.repeat(STEPS, 1)
            rows[:, number] = torch.linspace(low - margin, high + margin, STEPS)
            found.append(Slice(inputs[number], (low, high), rows[:, number], predict_in_parts(network, rows)))
    most = sorted(found, key=lambda one: -one.change)[:MOST_SLICES]
    return [one for one in found if one in most]


def draw_slices(shown: Sequence[Slice], targets: Sequence[str], inputs: int) -> Drawn:
    """The first output, or the probabilities of classes, over each input, all to one scale."""
    is_class = isinstance(shown[0].out, Classes)
    low, high = (-0.03, 1.03) if is_class else _bounds(shown)
    pictures = []
    for number, one in enumerate(shown):
        with plots.on_axes(None, figsize=(4.8, 3.4)) as ax:
            (_draw_classes if is_class else _draw_band)(ax, one, targets)
            name = "probability" if is_class else plots.literal(targets[0])
            ax.set(xlabel=plots.literal(one.name), ylabel=name, ylim=(low, high))
        pictures.append(inline_svg(ax.get_figure(), number))
    along = "Along the input" if inputs == 1 else "Along inputs, the others in the middle of their range"
    most = f", those {len(shown)} of {inputs} along which most changes" if len(shown) < inputs else ""
    what = "the probability of classes" if is_class else "mean, ±1σ and ±2σ"
    return Drawn(f"{along}{most}: {what}.", tuple(pictures))


def _bounds(shown: Sequence[Slice]) -> tuple[float, float]:
    """All bands of two standard deviations, and some air."""
    low, high = (
        float(extreme(torch.cat([one.out.mean[:, 0] + sign * one.out.sd[:, 0] for one in shown])))
        for extreme, sign in ((torch.amin, -2.0), (torch.amax, 2.0))
    )
    air = 0.05 * (high - low) or 1.0
    return low - air, high + air


def _draw_band(ax: Any, one: Slice, targets: Sequence[str]) -> None:
    plots.prediction_band(one.grid, Moments(one.out.mean[:, 0], one.out.var[:, 0]), trained_on=one.ends, ax=ax)


def _draw_classes(ax: Any, one: Slice, targets: Sequence[str]) -> None:
    """The curve of each class; of many those of the first ones."""
    for number, name in enumerate(targets[:MOST_CURVES]):
        line: Any = ("-", (0, (5, 3)))[number // 3]
        curve = one.out.probability[:, number]
        ax.plot(one.grid, curve, color=CURVE_COLOURS[number % 3], ls=line, label=plots.literal(name))
    for edge in one.ends:
        ax.axvline(edge, color=plots.GREY, lw=1, ls=(0, (1, 2)))
    ax.set(xlim=(float(one.grid[0]), float(one.grid[-1])))
    ax.legend(loc="best", fontsize=9.5)


def draw_weights(graph: Graph) -> Drawn | None:
    """For each layer with Gaussian weights, how many standard deviations they are from zero."""
    ratios = {node.name: _ratios(node.params["weight"]) for node in graph.nodes if _is_gaussian(node.params)}
    ratios = {name: values for name, values in list(ratios.items())[:MOST_LAYERS] if len(values)}
    if not ratios:
        return None
    with plots.on_axes(None, figsize=(9.6, 1.3 + 0.36 * len(ratios))) as ax:
        for place, values in enumerate(ratios.values()):
            ends = np.quantile(values, QUANTILES)
            ax.plot(ends[[0, 4]], [place, place], color=plots.BAND_1, lw=2, solid_capstyle="butt")
            ax.plot(ends[[1, 3]], [place, place], color=plots.BLUE, lw=6, solid_capstyle="butt")
            ax.plot(ends[2], place, "o", color=plots.ORANGE, ms=6, zorder=3)
        ax.axvline(1.0, color=plots.BLACK, lw=1.2, ls=(0, (5, 3)))
        ax.set_yticks(range(len(ratios)), [plots.literal(name) for name in ratios])
        ax.set(xscale="log", xlabel="|mean| / σ of the weights: median, half and 90 % of them", ylabel="layer")
        ax.invert_yaxis()
    caption = "How well the weights of each layer are known: left of the dashed line σ is larger than the weight."
    return Drawn(caption, (inline_svg(ax.get_figure(), 0),))


def _is_gaussian(params: Any) -> bool:
    return isinstance(params.get("weight"), (Moments, Factored))


def _ratios(weight: Any) -> Any:
    """|mean| / sigma of the weights that vary."""
    mean, var = (np.asarray(part, np.float64).ravel() for part in (weight.mean, weight.var))
    return np.abs(mean[var > 0.0]) / np.sqrt(var[var > 0.0])
