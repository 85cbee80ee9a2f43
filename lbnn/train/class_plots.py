"""Pictures of predicted classes: how calibrated, how far to trust the surest, and what is taken for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from lbnn.base.errors import LbnnError
from lbnn.train.class_metrics import (
    BINS,
    ClassPrediction,
    area_under_risk,
    confusion,
    expected_calibration_error,
    reliability,
    risk_coverage,
)
from lbnn.train.plots import BAND_1, BLACK, BLUE, GREY, finish_axes, literal, on_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NUMBERED = 20
"""Classes whose counts are written into the picture; of more only the colour is shown."""
MOST_NAMED = 40
"""Names along an axis; of more classes every second, third, ... is named."""


def classification(predicted: ClassPrediction, target: Tensor, *, names: Sequence[str] | None = None) -> Figure:
    """Reliability, risk against coverage and confusion side by side."""
    with styled({"figsize": (14.6, 4.8)}) as pyplot:
        figure, (left, middle, right) = pyplot.subplots(ncols=3)
        reliability_diagram(predicted, target, ax=left)
        risk_coverage_curve(predicted, target, ax=middle)
        confusion_matrix(predicted, target, names=names, ax=right)
    return figure  # type: ignore[no-any-return]


def reliability_diagram(
    predicted: ClassPrediction,
    target: Tensor,
    *,
    bins: int = BINS,
    label: str = "model",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The share that was right over the confidence; bars at the foot show how many rows are in each bin.

    The thin lines hold 95 % of calibrated models, bin by bin.
    """
    sure, hits, count = (part.numpy() for part in reliability(predicted, target, bins))
    error = 1.96 * np.sqrt(sure * (1 - sure) / count)
    name = f"{label} (ECE {expected_calibration_error(predicted, target, bins):.3f})"
    with on_axes(ax, figsize=(4.8, 4.6)) as axes:
        axes.bar(sure, 0.25 * count / count.max(), width=0.8 / bins, color=BAND_1, label="rows")
        axes.errorbar(sure, sure, error, fmt="none", ecolor=GREY, elinewidth=1, label="95 % if calibrated")
        axes.plot([0, 1], [0, 1], color=BLACK, lw=1.2, ls=(0, (5, 3)), label="perfect")
        axes.plot(sure, hits, "o-", color=BLUE, lw=2.2, ms=5, label=name)
        axes.set(xlabel="confidence", ylabel="share that was right", xlim=(0, 1), ylim=(0, 1))
        axes.set_aspect("equal")
        axes.legend(loc="upper left")
        finish_axes(axes, title, legend=False)
    return axes


def risk_coverage_curve(
    predicted: ClassPrediction,
    target: Tensor,
    *,
    score: Tensor | None = None,
    label: str = "model",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The error rate among the rows that are answered, over how many are."""
    coverage, risk = (part.numpy() for part in risk_coverage(predicted, target, score))
    name = f"{label} (area {area_under_risk(predicted, target, score):.4f})"
    with on_axes(ax, figsize=(4.8, 4.6)) as axes:
        axes.axhline(float(risk[-1]), color=BLACK, lw=1.2, ls=(0, (5, 3)), label="all answered")
        axes.plot(coverage, risk, color=BLUE, lw=2.2, label=name)
        axes.set(xlabel="share of rows answered", ylabel="error rate", xlim=(0, 1))
        axes.set_ylim(0, max(1.1 * float(risk.max()), 1e-3))
        axes.legend(loc="best")
        finish_axes(axes, title, legend=False)
    return axes


def confusion_matrix(
    predicted: ClassPrediction,
    target: Tensor,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """What each class is taken for: rows are the observed classes, the colour their share."""
    table = confusion(predicted, target).numpy()
    labels = [literal(name) for name in names or map(str, range(len(table)))]
    if len(labels) != len(table):
        raise LbnnError(f"there are {len(table)} classes and {len(labels)} names")
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    with on_axes(ax, figsize=(5.2, 4.8)) as axes:
        axes.grid(False)
        axes.imshow(share, cmap="Blues", vmin=0.0, vmax=1.0)
        ticks = range(0, len(table), -(-len(table) // MOST_NAMED))
        named = [labels[tick] for tick in ticks]
        axes.set_xticks(ticks, named, rotation=45 if max(map(len, named)) > 3 else 0)
        axes.set_yticks(ticks, named)
        for row, column in np.argwhere(table) if len(table) <= MOST_NUMBERED else ():
            colour = "white" if share[row, column] > 0.5 else BLACK
            axes.text(column, row, f"{table[row, column]}", ha="center", va="center", color=colour, fontsize=9)
        axes.set(xlabel="predicted", ylabel="observed")
        finish_axes(axes, title, legend=False)
    return axes
