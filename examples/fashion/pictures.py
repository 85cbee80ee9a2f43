"""The pictures: errors among the images that are answered, and entropies of clothes beside foreign images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from data import NAMES, foreign_sets
from torch import Tensor

from lbnn import class_metrics
from lbnn.train.plots import BLACK, BLUE, GREY, ORANGE, STYLE

if TYPE_CHECKING:
    from report import Found

STYLES = {"plain": (GREY, "--"), "dropout": (ORANGE, ":"), "one pass": (BLUE, "-"), "ensemble": (BLACK, "-.")}
LABELS = {"plain": "plain", "dropout": "MC dropout, 20 passes", "one pass": "one pass", "ensemble": "ensemble of 3"}
COVERAGE = np.linspace(0.3, 1.0, 141)
SHOWN = 4


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw_abstention(found: Mapping[tuple[str, str, int], Found], labels: Tensor) -> Any:
    """The error rate over the share of images that is answered, mean over the seeds."""
    pyplot = _pyplot()
    networks = list(dict.fromkeys(network for network, _, _ in found))
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(1, len(networks), figsize=(10.0, 4.0), sharey=True)
        for ax, network in zip(axes, networks, strict=True):
            for method, (color, style) in STYLES.items():
                runs = [one for (n, m, _), one in found.items() if (n, m) == (network, method)]
                curve = np.mean([_risk(one.probability["test"], labels) for one in runs], 0)
                ax.plot(100 * COVERAGE, 100 * curve, color=color, ls=style, label=LABELS[method])
            ax.set(xlabel="% of the test images answered, the surest first", xlim=(30, 100), title=network)
        axes[0].set(ylabel="% of the answers wrong", ylim=(0, None))
        axes[0].legend(loc="upper left")
    return figure


def _risk(probability: Tensor, labels: Tensor) -> np.ndarray:
    coverage, risk = class_metrics.risk_coverage(probability, labels)
    return np.interp(COVERAGE, coverage.numpy(), risk.numpy())


def draw_foreign(one: Found, images: Tensor) -> Any:
    """Images of each set with what they were taken for, and the entropies of the whole set."""
    pyplot = _pyplot()
    sets = {"clothes": images, **foreign_sets(images)}
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(10.0, 6.2))
        left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.25))
        grid = left.subplots(len(sets), SHOWN)
        bars = right.subplots(len(sets), 1, sharex=True)
        for row, ax, (name, pictures) in zip(grid, bars, sets.items(), strict=True):
            key = "test" if name == "clothes" else name
            _draw_images(row, name, pictures, one.probability[key], one.entropy(key))
            _draw_entropies(ax, one.entropy(key).numpy(), BLUE if name == "clothes" else ORANGE)
        bars[0].set_title("Entropy of the class probabilities")
        bars[-1].set(xlabel="nats")
    return figure


def _draw_images(row: Any, name: str, images: Tensor, probability: Tensor, entropy: Tensor) -> None:
    row[0].set_ylabel(name, fontsize=10)
    for ax, image, label, nats in zip(row, images, probability.argmax(1), entropy, strict=False):
        ax.imshow(image[0], cmap="gray_r", vmin=0.0, vmax=1.0)
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
        ax.set_title(f"{NAMES[label]} {nats:.2f}", loc="center", pad=3, fontsize=8.5, fontweight="normal")


def _draw_entropies(ax: Any, entropy: np.ndarray, color: str) -> None:
    bins = np.linspace(0.0, np.log(len(NAMES)), 47)
    ax.hist(entropy, bins=bins, weights=np.full(len(entropy), 100 / len(entropy)), color=color)
    ax.axvline(np.median(entropy), color=BLACK, lw=1, ls=(0, (4, 2)))
    ax.set(ylabel="%", xlim=(0, bins[-1]))
