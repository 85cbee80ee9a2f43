"""Pictures of predictions, calibration and training, readable in grayscale and by colour-blind readers.

matplotlib is an optional dependency, imported when the first picture is drawn.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lbnn.base.errors import LbnnError
from lbnn.base.files import write_file
from lbnn.base.moments import Moments
from lbnn.train.metrics import calibration_curve, calibration_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lbnn.train.result import FitResult

Numbers = npt.NDArray[np.float64]

# Okabe and Ito's colours, told apart by every common form of colour vision; luminance and line style differ too.
BLUE, ORANGE, BLACK, GREY = "#0072B2", "#D55E00", "#1A1A1A", "#6F6F6F"
BAND_1, BAND_2 = "#8FC1E3", "#D3E6F4"  # within one and two standard deviations

MOST_BARS = 300  # error bars in one picture; more hide each other

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#B0B0B0",
    "axes.grid": True,
    "axes.labelcolor": BLACK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.figsize": (7.2, 4.3),
    "font.size": 10.5,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 160,
    "xtick.color": "#4D4D4D",
    "ytick.color": "#4D4D4D",
}

EASTERN_FONTS = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK KR", "Source Han Sans", "WenQuanYi Zen Hei"),
    *("WenQuanYi Micro Hei", "IPAexGothic", "TakaoGothic", "NanumGothic", "Droid Sans Fallback", "Arial Unicode MS"),
    *("Hiragino Sans", "PingFang SC", "Microsoft YaHei", "MS Gothic", "Malgun Gothic"),
)
"""Tried in this order for what the usual font lacks."""


def prediction_band(
    x: Tensor,
    moments: Moments[Tensor],
    *,
    data: tuple[Tensor, Tensor] | None = None,
    truth: Tensor | Moments[Tensor] | None = None,
    trained_on: tuple[float, float] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The predicted mean with bands of one and two standard deviations over a one-dimensional input.

    data: observed (x, y), drawn as dots. truth: the true function at x, or its Moments for its own 2 sigma lines.
    trained_on: the interval of the training inputs, marked by two thin lines.
    """
    grid, mean, std = _line(x, "x"), _line(moments.mean, "mean"), _line(moments.std, "std")
    _same_length(x=grid, mean=mean, std=std)
    order = np.argsort(grid, kind="stable")
    grid, mean, std = grid[order], mean[order], std[order]
    with on_axes(ax) as axes:
        axes.fill_between(grid, mean - 2 * std, mean + 2 * std, color=BAND_2, lw=0, label="±2σ")
        axes.fill_between(grid, mean - std, mean + std, color=BAND_1, lw=0, label="±1σ")
        if data is not None:
            axes.plot(*_points(data), ".", color=GREY, ms=4, alpha=0.65, mew=0, label="data", zorder=2)
        axes.plot(grid, mean, color=BLUE, lw=2.2, label="predicted mean", zorder=3)
        if truth is not None:
            _draw_truth(axes, grid, truth, order)
        if trained_on is not None:
            _mark_range(axes, *trained_on)
        axes.set(xlabel="x", ylabel="y", xlim=(grid[0], grid[-1]))
        finish_axes(axes, title)
    return axes


def calibration(
    moments: Moments[Tensor],
    target: Tensor,
    *,
    label: str = "model",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Observed share of targets below each predicted quantile; the grey lens holds 95 % of calibrated models.

    The lens is the pointwise binomial interval for as many independent targets as there are.
    """
    curve = calibration_curve(moments, target)
    expected, observed = np.array(list(curve)), np.array(list(curve.values()))
    lens = 1.96 * np.sqrt(expected * (1 - expected) / target.numel())
    name = f"{label} (error {calibration_error(moments, target):.3f})"
    with on_axes(ax, figsize=(4.8, 4.6)) as axes:
        axes.fill_between(expected, expected - lens, expected + lens, color="#DADADA", lw=0, label="95 % if calibrated")
        axes.plot([0, 1], [0, 1], color=BLACK, lw=1.2, ls=(0, (5, 3)), label="perfect")
        axes.plot([0, *expected, 1], [0, *observed, 1], color=BLUE, lw=2.2, label=name)
        axes.set(xlabel="predicted probability", ylabel="observed share below the quantile", xlim=(0, 1), ylim=(0, 1))
        axes.set_aspect("equal")
        axes.legend(loc="upper left")
        finish_axes(axes, title, legend=False)
    return axes


def regression(moments: Moments[Tensor], target: Tensor, *, name: str = "y") -> Figure:
    """Predicted against observed beside the calibration curve."""
    with styled({"figsize": (9.6, 4.6)}) as pyplot:
        figure, (left, right) = pyplot.subplots(ncols=2)
        against_observed(moments, target, name=name, ax=left)
        calibration(moments, target, ax=right)
    return figure  # type: ignore[no-any-return]


def against_observed(moments: Moments[Tensor], target: Tensor, *, name: str = "y", ax: Axes | None = None) -> Axes:
    """Predicted against observed with bars of two standard deviations.

    Of several outputs the first is shown. Rows are thinned out where there are too many to see.
    """
    mean, std, observed = (_first_output(part) for part in (moments.mean, moments.std, target))
    shown = np.linspace(0, len(observed) - 1, min(len(observed), MOST_BARS)).astype(int)
    mean, std, observed = mean[shown], std[shown], observed[shown]
    low, high = _limits(observed, mean)
    points: dict[str, Any] = dict(fmt="o", ms=4.5, color=BLUE, mec="white", mew=0.5, ecolor=BAND_1, elinewidth=1.3)
    with on_axes(ax, figsize=(4.8, 4.6)) as axes:
        axes.errorbar(observed, mean, 2 * std, **points, label="prediction ±2σ", zorder=3)
        axes.plot([low, high], [low, high], color=BLACK, lw=1.2, ls=(0, (5, 3)), label="perfect", zorder=4)
        axes.set(xlabel=f"observed {literal(name)}", ylabel=f"predicted {literal(name)}", xlim=(low, high))
        axes.legend(loc="upper left")
        finish_axes(axes, None, legend=False)
    return axes


def literal(text: str) -> str:
    """Text that matplotlib shows as it is, and not as a formula; long ones are cut."""
    return (text if len(text) <= 60 else f"{text[:57]}...").replace("$", r"\$")


def history(result: FitResult, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Training loss and validation NLL over the epochs, with the epoch whose weights the model holds."""
    epochs, loss = np.array([e.epoch for e in result.epochs], float), np.array(result.loss)
    shown = [loss]
    with on_axes(ax) as axes:
        axes.plot(epochs, loss, color="#B9D8EE", lw=0.8, label="loss")
        axes.plot(epochs, running_median(loss), color=BLUE, label="running median")
        if result.validation:
            at, validation = np.array(result.validation).T
            shown.append(validation)
            axes.plot(at, validation, color=ORANGE, lw=1.4, ls=(0, (4, 1.5)), label="validation NLL")
            _mark_best(axes, result)
        axes.set(xlabel="epoch", ylabel="nats", xlim=(epochs[0], max(epochs[-1], epochs[0] + 1)))
        axes.set_ylim(*readable_range(np.concatenate(shown)))
        finish_axes(axes, title)
    return axes


def save_picture(picture: Axes | Figure, path: str | Path) -> Path:
    """Writes the figure (PNG, SVG or PDF by suffix) and closes it."""
    from matplotlib import pyplot

    figure: Any = getattr(picture, "figure", picture)
    suffix = Path(path).suffix.lower().lstrip(".")
    if suffix not in figure.canvas.get_supported_filetypes():
        raise LbnnError(f"{path}: pictures end in .png, .svg or .pdf")
    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for a character that no font here has
        figure.savefig(drawn, format=suffix, dpi=STYLE["savefig.dpi"])
    pyplot.close(figure)
    return write_file(path, drawn.getvalue(), force=True)


def running_median(values: Numbers) -> Numbers:
    """The median over a window of about 5 % of the values, shorter at both ends: the trend without the noise."""
    half = max(1, len(values) // 40)
    return np.array([np.median(values[max(0, i - half) : i + half + 1]) for i in range(len(values))])


def readable_range(values: Numbers) -> tuple[float, float]:
    """Limits that show where the training ends up: the worst tenth may leave the picture at the top."""
    low, high = float(np.min(values)), float(np.quantile(values, 0.9))
    margin = 0.08 * (high - low) or 0.5
    return low - margin, high + 2 * margin


def _draw_truth(ax: Axes, grid: Numbers, truth: Tensor | Moments[Tensor], order: npt.NDArray[np.intp]) -> None:
    mean = _line(truth.mean if isinstance(truth, Moments) else truth, "truth")
    _same_length(x=grid, truth=mean)
    ax.plot(grid, mean[order], color=BLACK, lw=1.3, ls=(0, (5, 2)), label="true mean", zorder=4)
    if isinstance(truth, Moments):
        spread = 2 * _line(truth.std, "true std")
        for sign, label in ((1, "true ±2σ"), (-1, None)):
            edge = (mean + sign * spread)[order]
            ax.plot(grid, edge, color=ORANGE, lw=1.3, ls=(0, (1, 1.5)), label=label, zorder=4)


def _mark_range(ax: Axes, low: float, high: float) -> None:
    for edge in (low, high):
        ax.axvline(edge, color=GREY, lw=1, ls=(0, (1, 2)), zorder=1)
    place: dict[str, Any] = {"xy": ((low + high) / 2, 0.985), "xycoords": ("data", "axes fraction")}
    ax.annotate("training range", **place, ha="center", va="top", color=GREY, fontsize=9.5)


def _mark_best(ax: Axes, result: FitResult) -> None:
    best = result.best_validation
    assert best is not None
    label = f"best {best:.4f}, epoch {result.best_epoch}"
    ax.plot([result.best_epoch], [best], "o", color=ORANGE, mec="white", mew=1.4, ms=9, zorder=5, label=label)
    ax.axvline(result.best_epoch, color=GREY, lw=0.9, ls=(0, (1, 2)), zorder=1)


@contextmanager
def on_axes(ax: Axes | None, **style: Any) -> Iterator[Axes]:
    """The axes to draw on, in the module's style; a new figure if none are given."""
    with styled(style) as pyplot:
        yield pyplot.subplots()[1] if ax is None else ax


@contextmanager
def styled(style: dict[str, Any]) -> Iterator[Any]:
    """pyplot, with the module's settings and these of the figure."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise LbnnError("pictures need matplotlib; install it with: pip install 'lbnn[plot]'") from None
    settings: Any = {**STYLE, "font.family": _fonts(), **{f"figure.{name}": value for name, value in style.items()}}
    with pyplot.rc_context(settings):
        yield pyplot


@cache
def _fonts() -> list[str]:
    """The usual font, and those for names in Chinese, Japanese or Korean that are installed here."""
    from matplotlib import font_manager

    here = set(font_manager.get_font_names())
    return ["sans-serif", *(name for name in EASTERN_FONTS if name in here)]


def finish_axes(ax: Axes, title: str | None, legend: bool = True) -> None:
    """A title, and a legend in a row above the picture, where it hides nothing; inside if the row does not fit."""
    above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.01, 1.0), "borderaxespad": 0.2, "ncols": 9}
    wide = ax.get_window_extent().width > 5.0 * ax.figure.dpi
    if legend:
        place = above if wide else {"loc": "best"}
        ax.legend(columnspacing=1.3, handlelength=1.7, handletextpad=0.5, fontsize=9.5, **place)
    if title:
        ax.set_title(title, pad=27 if legend and wide else 8)


def _points(data: tuple[Tensor, Tensor]) -> tuple[Numbers, Numbers]:
    x, y = _line(data[0], "data x"), _line(data[1], "data y")
    _same_length(x=x, y=y)
    return x, y


def _line(values: Tensor, what: str) -> Numbers:
    """A tensor of shape (N,) or (N, 1) as a flat array."""
    flat: Numbers = values.detach().cpu().double().numpy()
    if flat.size != flat.shape[0] or not flat.size:
        raise LbnnError(f"{what} must have one value per row to be drawn over one axis, got {tuple(flat.shape)}")
    return flat.reshape(-1)


def _first_output(values: Tensor) -> Numbers:
    flat: Numbers = values.detach().cpu().double().numpy()
    return flat.reshape(len(flat), -1)[:, 0]


def _limits(*values: Numbers) -> tuple[float, float]:
    """A range that holds all values, with a margin."""
    low, high = float(min(map(np.min, values))), float(max(map(np.max, values)))
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _same_length(**lines: Numbers) -> None:
    if len({len(line) for line in lines.values()}) > 1:
        sizes = ", ".join(f"{name} {len(line)}" for name, line in lines.items())
        raise LbnnError(f"these must have the same number of rows: {sizes}")
