"""The figures: counterparts of the paper's 1(b) and 2(a, b, c)."""

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

from lbnn.train.problem import IDEAL_NLL, INSIDE, OUTSIDE, draw, true_mean, true_std

# Okabe and Ito's colours, told apart by everyone; markers say the same for print in grey.
STYLES: dict[str, dict[str, Any]] = {
    "embedded": dict(color="#0072B2", marker="o", label="embedded"),
    "learned": dict(color="#D55E00", marker="s", label="learned, $\\sigma_a^2+\\sigma_e^2$"),
    "learned_a": dict(color="#009E73", marker="^", label="learned, $\\sigma_a^2$ alone"),
}
TRUTH = dict(color="black", lw=1.0, ls="--")
RC = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25}


def draw_all(table: Any, curves: list[dict[str, Any]], out: Path) -> None:
    """All figures, as PNG files in `out`."""
    with plt.rc_context(RC):
        pictures = {
            "fig1b": fit(curves),
            "fig2a": inside(table),
            "fig2b": outside(table),
            "fig2c": beyond(curves),
        }
        for name, figure in pictures.items():
            figure.savefig(out / f"{name}.png", dpi=120, metadata={"Software": None})
            plt.close(figure)


def _curve(curves: list[dict[str, Any]], hidden: int, head: str, activation: str = "exact") -> dict[str, Any]:
    wanted = (hidden, head, activation)
    return next(curve for curve in curves if (curve["hidden"], curve["head"], curve["activation"]) == wanted)


def _band(axes: Axes, curve: dict[str, Any]) -> None:
    """Mean and two standard deviations, and the true ones dashed."""
    x = np.linspace(-OUTSIDE, OUTSIDE, len(curve["mean"]))
    mean, std = np.array(curve["mean"]), np.sqrt(curve["var"])
    color = STYLES[curve["head"]]["color"]
    axes.fill_between(x, mean - 2 * std, mean + 2 * std, color=color, alpha=0.25, lw=0, label="predicted mean ± 2 std")
    axes.plot(x, mean, color=color, lw=2)
    points = torch.as_tensor(x)
    for sign, label in ((2, "true mean ± 2 std"), (0, None), (-2, None)):
        axes.plot(x, true_mean(points) + sign * true_std(points), label=label, **TRUTH)


def fit(curves: list[dict[str, Any]]) -> Figure:
    """Fig. 1(b): what an embedded-variance network learns from noisy points."""
    figure, axes = plt.subplots(figsize=(6.2, 4.0), layout="constrained")
    x, y = draw(1, 512, torch.Generator().manual_seed(12345))
    axes.plot(x[0], y[0], ".", color="0.55", ms=3, label="observations")
    _band(axes, _curve(curves, 16, "embedded"))
    axes.set(xlim=(-INSIDE, INSIDE), ylim=(-0.85, 1.25), xlabel="x", ylabel="y")
    axes.set_title("Embedded variance, 16 hidden units, exact moments", fontsize=10)
    axes.legend(frameon=False, loc="upper right")
    return figure


PANELS = {
    "trained and scored exact": ("exact", "inside"),
    "trained and scored clamped": ("clamped", "inside"),
    "trained clamped, scored exact": ("clamped", "inside_exact"),
}


def _lines(axes: Axes, table: Any, activation: str, score: str) -> None:
    """Median and quartiles against the number of units, for each head."""
    for head, style in STYLES.items():
        spreads = [table(hidden, activation, head, score) for hidden in table.sizes]
        axes.plot(table.sizes, [s.middle for s in spreads], lw=1.6, ms=5, **style)
        axes.fill_between(
            table.sizes, [s.low for s in spreads], [s.high for s in spreads], color=style["color"], alpha=0.18, lw=0
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(table.sizes, [str(size) for size in table.sizes], fontsize=8, rotation=45)
    axes.set_xlabel("hidden units")


def _plain_ticks(axes: Axes, ticks: Sequence[float]) -> None:
    """Numbers as people write them on a scale that is not linear."""
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def inside(table: Any) -> Figure:
    """Fig. 2(a): expected NLL inside the training range."""
    figure, row = plt.subplots(1, 3, figsize=(11.0, 4.3), layout="constrained")
    for axes, (title, (activation, score)) in zip(row, PANELS.items(), strict=True):
        _lines(axes, table, activation, score)
        axes.axhline(IDEAL_NLL, **TRUTH)
        axes.set_title(title, fontsize=10)
        if score == "inside":
            for head, style in STYLES.items():
                reported = table.medians(activation, head, "reported64")
                axes.plot(reported.keys(), reported.values(), color=style["color"], lw=1, ls=":")
            axes.set_ylim(-1.4, -0.4)
    row[2].set_yscale("symlog", linthresh=1.0)
    _plain_ticks(row[2], (-0.8, -0.4, 0, 0.4, 1, 2, 5, 10, 20, 50))
    row[0].set_ylabel("expected NLL for |x| < 0.5 (nats)")
    row[0].plot([], [], color="0.3", ls=":", lw=1, label="lowest of 10000 losses on 64 points")
    row[0].plot([], [], label=f"ideal {IDEAL_NLL:.4f}", **TRUTH)
    figure.legend(*row[0].get_legend_handles_labels(), frameon=False, ncols=5, loc="outside lower center")
    return figure


def outside(table: Any) -> Figure:
    """Fig. 2(b): expected NLL outside the training range."""
    figure, row = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained", sharey=True)
    for axes, (activation, title) in zip(row, (("exact", "exact"), ("clamped", "clamped")), strict=True):
        _lines(axes, table, activation, "outside")
        axes.set_yscale("log")
        _plain_ticks(axes, (1.5, 2, 3, 5, 10, 20, 30))
        axes.set_title(f"trained and scored {title}", fontsize=10)
    row[0].set_ylabel("expected NLL for 0.5 < |x| < 1.5 (nats)")
    row[0].legend(frameon=False, fontsize=8)
    return figure


def beyond(curves: list[dict[str, Any]]) -> Figure:
    """Fig. 2(c): predictions inside and outside the training range."""
    figure, row = plt.subplots(1, 3, figsize=(11.0, 3.8), layout="constrained", sharey=True)
    for axes, (head, style) in zip(row, STYLES.items(), strict=True):
        _band(axes, _curve(curves, 128, head))
        axes.axvspan(-INSIDE, INSIDE, color="0.5", alpha=0.12, lw=0, label="training range")
        axes.set(xlim=(-OUTSIDE, OUTSIDE), ylim=(-5, 9), xlabel="x", title=style["label"], xticks=(-1, -0.5, 0, 0.5, 1))
        axes.title.set_fontsize(10)
    row[0].set_ylabel("y, 128 hidden units, exact moments")
    row[0].legend(frameon=False, fontsize=8, loc="upper left")
    return figure
