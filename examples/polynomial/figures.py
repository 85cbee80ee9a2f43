"""The figures, under the paper's numbers: 1(a, b) and 2(a, b, c), and the loss outside against the size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from networks import HEADS
from results import SHOWN, SIDES, Table, nll_curve

from lbnn.train.problem import IDEAL_NLL, INSIDE, OUTSIDE, draw, true_mean, true_std

# Okabe and Ito's blue and orange, told apart by everyone; markers and line styles say the same for print in grey.
BLUE, ORANGE = "#0072B2", "#D55E00"
STYLES: dict[str, dict[str, Any]] = {
    "embedded": dict(color=BLUE, marker="o", ls="-", zorder=4, label="embedded"),
    "learned": dict(color=ORANGE, marker="s", ls="-", zorder=3, label="learned, $\\sigma_a^2+\\sigma_e^2$"),
    "learned_a": dict(
        color=ORANGE, marker="s", ls=(0, (4, 2)), mfc="white", zorder=2.5, label="learned, $\\sigma_a^2$ alone"
    ),
}
FORMS = {"exact": "exact moments", "clamped": "clamp as printed"}
TRUTH: dict[str, Any] = dict(color="black", lw=1.1, ls=(0, (1, 1)))
BORDER: dict[str, Any] = dict(color="black", lw=1.0, ls="--")
RC = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
}
PLACES = (-1, -0.5, 0, 0.5, 1)
Curves = list[dict[str, Any]]


def draw_all(table: Table, curves: Curves, out: Path) -> None:
    """All figures, as PNG files in `out`."""
    with plt.rc_context(RC):
        pictures = {
            "fig1a": architectures(),
            "fig1b": loss_by_size(table),
            "fig2a": predictions(curves, [("embedded", "exact"), ("embedded", "clamped")]),
            "fig2b": predictions(curves, [("learned", "exact"), ("learned", "clamped"), ("learned_a", "exact")]),
            "fig2c": loss_by_place(curves),
            "outside": loss_outside(table),
        }
        for name, figure in pictures.items():
            figure.savefig(out / f"{name}.png", dpi=130, metadata={"Software": None})
            plt.close(figure)


# --- 1(a) ------------------------------------------------------------------------------------------------------

OUTPUTS = {"embedded": [("$\\mu$", BLUE)], "learned": [("$\\mu$", ORANGE), ("$\\sigma_a^2$", ORANGE)]}


def architectures() -> Figure:
    """Fig. 1(a): both networks, with what they predict and how many numbers are trained."""
    figure, row = plt.subplots(1, 2, figsize=(9.0, 3.7), layout="constrained")
    for axes, (head, outputs) in zip(row, OUTPUTS.items(), strict=True):
        _network(axes, outputs)
        axes.set_title(f"{head} variance")
        count = f"{HEADS[head].parameters(128)} parameters at 128 units"
        total = "total variance: V[$\\mu$]" if head == "embedded" else (
            "total variance: V[$\\mu$] $+\\ \\sigma_a^2$, or $\\sigma_a^2$ alone"
        )  # fmt: skip
        axes.text(1.0, -2.15, f"{count}\n{total}", ha="center", va="top")
        axes.set(xlim=(-0.35, 2.35), ylim=(-2.95, 2.35))
        axes.axis("off")
    return figure


def _network(axes: Axes, outputs: list[tuple[str, str]]) -> None:
    hidden = [(1.0, y) for y in (1.6, 0.8, -1.6)]
    last = [(2.0, y) for y in np.linspace(0.6, -0.6, len(outputs))] if len(outputs) > 1 else [(2.0, 0.0)]
    for place in hidden:
        _arrow(axes, (0.0, 0.0), place)
        for end in last:
            _arrow(axes, place, end)
    _node(axes, (0.0, 0.0), "$x$", "white")
    for place in hidden:
        _node(axes, place, "", "0.85")
    axes.text(1.0, -0.3, "⋮", ha="center", va="center", fontsize=20)
    for place, (name, color) in zip(last, outputs, strict=True):
        _node(axes, place, name, color)
    axes.text(1.0, 2.15, "leaky-ReLU", ha="center", va="center", color="0.3", fontsize=10)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.plot(*zip(start, end, strict=True), color="0.65", lw=1.0, zorder=1)


def _node(axes: Axes, place: tuple[float, float], name: str, color: str) -> None:
    axes.plot(*place, "o", ms=27, mfc=color, mec="black", mew=1.0, zorder=2)
    dark = color in (BLUE, ORANGE)
    axes.text(*place, name, ha="center", va="center", color="white" if dark else "black", fontsize=13, zorder=3)


# --- 1(b), and the same outside --------------------------------------------------------------------------------


def _lines(axes: Axes, table: Table, activation: str, score: str) -> None:
    """Median and quartiles against the number of units, for each head."""
    for shift, (head, style) in zip((0.94, 1.0, 1.06), STYLES.items(), strict=True):  # side by side where they meet
        spreads = [table(hidden, activation, head, score) for hidden in table.sizes]
        middle = [spread.middle for spread in spreads]
        bars = [[s.middle - s.low for s in spreads], [s.high - s.middle for s in spreads]]
        axes.errorbar(shift * np.array(table.sizes), middle, bars, lw=1.5, ms=6, elinewidth=1.0, capsize=2.5, **style)
    axes.set_xscale("log", base=2)
    axes.set_xticks(table.sizes, [str(size) for size in table.sizes], fontsize=9)
    axes.minorticks_off()


def loss_by_size(table: Table) -> Figure:
    """Fig. 1(b): reconstruction loss inside against the number of hidden units."""
    figure, row = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained", sharey=True)
    for axes, (activation, name) in zip(row, FORMS.items(), strict=True):
        _lines(axes, table, activation, "inside")
        axes.axhline(IDEAL_NLL, label=f"ideal {IDEAL_NLL:.4f}", **TRUTH)
        axes.set(title=name, xlabel="hidden units")
    row[0].set_ylabel("reconstruction loss, |x| < 0.5 (nats)")
    figure.legend(*row[0].get_legend_handles_labels(), ncols=4, loc="outside lower center")
    return figure


def loss_outside(table: Table) -> Figure:
    """Reconstruction loss left and right of the training range against the number of hidden units."""
    figure, grid = plt.subplots(2, 2, figsize=(10.0, 6.6), layout="constrained", sharex=True, sharey=True)
    titles = dict(zip(SIDES, ("-1.5 < x < -0.5", "0.5 < x < 1.5"), strict=True))
    for row, (activation, name) in zip(grid, FORMS.items(), strict=True):
        for axes, side in zip(row, SIDES, strict=True):
            _lines(axes, table, activation, side)
            axes.set_title(f"{name}, {titles[side]}")
            axes.set_yscale("asinh", linear_width=1.0)
        row[0].set_ylabel("reconstruction loss (nats)")
    for axes in grid.flat:
        axes.set_ylim(-0.5, 60.0)  # quartiles at 2 units may lie far above
        _plain_ticks(axes, (0, 0.5, 1, 2, 5, 10, 20, 50))
    for axes in grid[1]:
        axes.set_xlabel("hidden units")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), ncols=3, loc="outside lower center")
    return figure


def _plain_ticks(axes: Axes, ticks: Sequence[float]) -> None:
    """Numbers as people write them, of those that are in sight."""
    low, high = axes.get_ylim()
    seen = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(seen, [f"{tick:g}" for tick in seen])
    axes.minorticks_off()


# --- 2(a, b, c) ------------------------------------------------------------------------------------------------


def _curve(curves: Curves, hidden: int, head: str, activation: str) -> dict[str, Any]:
    wanted = (hidden, head, activation)
    return next(curve for curve in curves if (curve["hidden"], curve["head"], curve["activation"]) == wanted)


def predictions(curves: Curves, rows: list[tuple[str, str]]) -> Figure:
    """Fig. 2(a) and (b): predictions with bands, a row for each head and form, a column for each size."""
    figure, grid = plt.subplots(
        len(rows), len(SHOWN), figsize=(11.0, 0.8 + 2.9 * len(rows)), layout="constrained", sharex=True, sharey=True
    )
    for row, (head, activation) in zip(grid, rows, strict=True):
        for axes, hidden in zip(row, SHOWN, strict=True):
            _band(axes, _curve(curves, hidden, head, activation))
            _borders(axes)
            axes.set_title(f"{hidden} units, {FORMS[activation]}")
            axes.set(xlim=(-OUTSIDE, OUTSIDE), ylim=(-2.2, 4.2), xticks=PLACES)
        row[0].set_ylabel(f"y, {STYLES[head]['label']}")
    for axes in grid[-1]:
        axes.set_xlabel("x")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), ncols=5, loc="outside lower center")
    return figure


def _band(axes: Axes, curve: dict[str, Any]) -> None:
    """Data, mean and two standard deviations, and the true ones dotted."""
    x = np.linspace(-OUTSIDE, OUTSIDE, len(curve["mean"]))
    mean, std = np.array(curve["mean"]), np.sqrt(curve["var"])
    color = STYLES[curve["head"]]["color"]
    seen_x, seen_y = draw(1, 150, torch.Generator().manual_seed(12345))
    axes.fill_between(x, mean - 2 * std, mean + 2 * std, color=color, alpha=0.28, lw=0, label="predicted ± 2 std")
    axes.plot(x, mean, color=color, lw=2, label="predicted mean")
    axes.plot(seen_x[0], seen_y[0], ".", color="0.2", ms=4, mew=0, alpha=0.7, label="data")
    points = torch.as_tensor(x)
    for sign, label in ((2, "true mean and ± 2 std"), (0, None), (-2, None)):
        axes.plot(x, true_mean(points) + sign * true_std(points), label=label, **TRUTH)


def _borders(axes: Axes) -> None:
    for sign, label in ((-1, "training range"), (1, None)):
        axes.axvline(sign * INSIDE, label=label, **BORDER)


def loss_by_place(curves: Curves) -> Figure:
    """Fig. 2(c): reconstruction loss against x for the networks of 2(a) and 2(b)."""
    figure, grid = plt.subplots(
        len(FORMS), len(SHOWN), figsize=(11.0, 6.4), layout="constrained", sharex=True, sharey="row"
    )
    for row, (activation, name) in zip(grid, FORMS.items(), strict=True):
        for axes, hidden in zip(row, SHOWN, strict=True):
            for head, style in STYLES.items():
                curve = _curve(curves, hidden, head, activation)
                nll = nll_curve(np.array(curve["mean"]), np.array(curve["var"]))
                x = np.linspace(-OUTSIDE, OUTSIDE, len(nll))
                axes.plot(x[5::10], nll[5::10], lw=1.2, ms=4, **style)
            _borders(axes)
            axes.set_yscale("asinh", linear_width=1.0)
            axes.set(title=f"{hidden} units, {name}", xlim=(-OUTSIDE, OUTSIDE), xticks=PLACES)
        row[0].set_ylabel("reconstruction loss (nats)")
    for axes in grid.flat:
        _plain_ticks(axes, (-2, -1, 0, 1, 2, 5, 10, 20, 50, 100, 200))
    for axes in grid[-1]:
        axes.set_xlabel("x")
    handles = [*grid[0, 0].get_legend_handles_labels()[0][:3], Line2D([], [], label="training range", **BORDER)]
    figure.legend(handles=handles, ncols=4, loc="outside lower center")
    return figure
