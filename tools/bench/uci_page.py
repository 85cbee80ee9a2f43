"""The results of the protocol for people: a table for each set, a picture, and both put into a page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.base.errors import LbnnError
from lbnn.base.files import write_file
from lbnn.train.plots import BLUE, GREY, STYLE, save_picture
from uci_methods import OURS
from uci_protocol import ByMethod, BySet
from uci_scores import LEVELS

BLOCK = re.compile(r"(<!-- table: make uci [^\n]*-->\n).*?(<!-- end of table -->\n)", re.S)
ENOUGH = 5
"""Splits, below which a standard error says little."""
HEAD = (
    *("method", "splits", "log-likelihood", "beside lbnn", "RMSE", "CRPS"),
    *(f"{level:.0%} covers".replace("%", " %") for level in LEVELS),
    *("training", "with choosing"),
)


def tables(results: BySet) -> str:
    """A table for each set, and what it says."""
    return "\n\n".join(f"**{name}**\n\n{table(methods)}\n\n{reading(methods)}" for name, methods in results.items())


def table(methods: ByMethod) -> str:
    """A row for each method: means over splits and their standard errors."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" + "|---:" * (len(HEAD) - 1) + "|"]
    lines += [f"| {' | '.join([method, *cells(methods, method)])} |" for method in methods]
    return "\n".join(lines)


def cells(methods: ByMethod, method: str) -> list[str]:
    """What stands behind the name of a method."""
    found = list(methods[method].values())
    covered = np.mean([one["coverage"] for one in found], axis=0)
    return [
        str(len(found)),
        with_error([one["log_likelihood"] for one in found]),
        "" if method == OURS else with_error(differences(methods, method), "+"),
        *(with_error([one[key] for one in found]) for key in ("rmse", "crps")),
        *(f"{share:.3f}" for share in covered),
        *(in_units(found, keys) for keys in (("training",), ("training", "choosing"))),
    ]


def reading(methods: ByMethod) -> str:
    """Who differs from lbnn by more than two standard errors, and mixtures scored as one Gaussian."""
    if max(map(len, methods.values())) < ENOUGH:
        return f"Fewer than {ENOUGH} splits say nothing about who is better."
    single = [f"{method} {np.mean(values):.3f}" for method, values in as_gaussians(methods).items()]
    lines = [
        f"Beside {OURS}, by more than two standard errors:\n",
        f"- log-likelihood: {compared(methods, 'log_likelihood', 1.0)}",
        f"- RMSE: {compared(methods, 'rmse', -1.0)}",
    ]
    return "\n".join([*lines, f"\nLog-likelihood as one Gaussian: {'; '.join(single)}."] if single else lines)


def compared(methods: ByMethod, key: str, better: float) -> str:
    """The methods by what the mean of their differences says, split by split."""
    apart: dict[str, list[str]] = {"better": [], "worse": [], "neither": []}
    for method in methods:
        values = differences(methods, method, key)
        if method != OURS and len(values) >= ENOUGH:
            gain = better * float(np.mean(values))
            clear = abs(gain) > 2.0 * standard_error(values)
            apart[("better" if gain > 0.0 else "worse") if clear else "neither"].append(method)
    return " ".join(f"**{kind}** {'; '.join(names) or 'none'}." for kind, names in apart.items())


def as_gaussians(methods: ByMethod) -> dict[str, list[float]]:
    """The log-likelihoods of mixtures, each taken for the Gaussian of its mean and variance."""
    return {
        method: [one["gaussian"] for one in found.values()]
        for method, found in methods.items()
        if any(abs(one["gaussian"] - one["log_likelihood"]) > 1e-9 for one in found.values())
    }


def with_error(values: Sequence[float], sign: str = "") -> str:
    """The mean and its standard error; a dash if there is nothing."""
    if not values:
        return "-"
    error = f" ± {standard_error(values):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):{sign}.3f}{error}"


def standard_error(values: Sequence[float]) -> float:
    """Of the mean; 0 for one value, of which nothing is known."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def differences(methods: ByMethod, method: str, key: str = "log_likelihood") -> list[float]:
    """A score minus that of lbnn, split by split."""
    other = methods.get(OURS, {})
    return [one[key] - other[split][key] for split, one in methods[method].items() if split in other]


def in_units(found: Sequence[dict[str, Any]], keys: Sequence[str]) -> str:
    """Processor time in that of plain networks."""
    return f"{sum(one[key] for one in found for key in keys) / sum(one['unit'] for one in found):.1f}"


def draw(results: BySet, path: Path) -> Path:
    """Log-likelihoods of all methods with two standard errors, a panel for each set."""
    from matplotlib import pyplot

    methods = list(dict.fromkeys(method for found in results.values() for method in found))
    rows = math.ceil(len(results) / 2)
    with pyplot.rc_context({**STYLE, "figure.figsize": (9.6, 0.8 + 2.7 * rows)}):
        figure, panels = pyplot.subplots(rows, 2, squeeze=False, sharey=True)
        for axes, (name, found) in zip(panels.flat, results.items(), strict=False):
            draw_set(axes, name, found, methods)
        for axes in panels.flat[len(results) :]:
            axes.set_axis_off()
        figure.supxlabel("test log-likelihood in nats, right is better", fontsize="medium")
        return save_picture(figure, path)


def draw_set(axes: Any, name: str, found: ByMethod, methods: Sequence[str]) -> None:
    """The panel of one set."""
    for place, method in enumerate(methods):
        if method in found:
            values = [one["log_likelihood"] for one in found[method].values()]
            look = {"color": BLUE, "fmt": "o"} if method.startswith(OURS) else {"color": GREY, "fmt": "s"}
            axes.errorbar(np.mean(values), place, xerr=2.0 * standard_error(values), capsize=3, markersize=5, **look)
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.5, -0.5)
    axes.set_title(name)
    axes.grid(False, axis="y")


def update(page: Path, results: BySet) -> None:
    """Puts the tables into the page, and draws its picture."""
    text = page.read_text()
    if not BLOCK.search(text):
        raise LbnnError(f"{page} has no place for tables, from <!-- table: make uci ... --> to <!-- end of table -->")
    filled = BLOCK.sub(lambda found: f"{found[1]}{tables(results)}\n{found[2]}", text)
    draw(results, page.parent / "images" / "uci.png")
    write_file(page, filled, force=True)
