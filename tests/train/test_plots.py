"""Pictures: what is drawn is what was computed, the files exist, and matplotlib stays optional."""

import subprocess
import sys

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest
import torch

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train import plots
from lbnn.train.metrics import calibration_curve
from lbnn.train.result import Epoch, FitResult

matplotlib.use("Agg")

X = torch.tensor([[2.0], [0.0], [1.0]])
PREDICTED = Moments(torch.tensor([[20.0], [0.0], [10.0]]), torch.tensor([[4.0], [0.25], [1.0]]))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def line_of(ax, label: str) -> np.ndarray:
    (line,) = (line for line in ax.lines if line.get_label() == label)
    return np.asarray(line.get_xydata())


def band_of(ax, label: str) -> np.ndarray:
    (band,) = (c for c in ax.collections if c.get_label() == label)
    return band.get_paths()[0].vertices


def result(validation: bool = True) -> FitResult:
    values = [3.0, 1.0, 2.0, 1.5] if validation else [None] * 4
    epochs = tuple(Epoch(i + 1, 4.0 - i, 3.0 - i, 10.0, 0.1, value) for i, value in enumerate(values))
    return FitResult(epochs, 2 if validation else 4, 1.0 if validation else None, False, 0.1)


def test_the_band_is_the_mean_and_one_and_two_standard_deviations_in_order_of_x():
    ax = plots.prediction_band(X, PREDICTED)
    assert line_of(ax, "predicted mean").tolist() == [[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]]
    for label, k in (("±1σ", 1), ("±2σ", 2)):
        corners = {tuple(v) for v in band_of(ax, label).tolist()}
        assert {(0.0, -0.5 * k), (0.0, 0.5 * k), (2.0, 20 - 2.0 * k), (2.0, 20 + 2.0 * k)} <= corners


def test_data_truth_and_training_range_are_drawn_if_given():
    data = torch.tensor([0.5]), torch.tensor([7.0])
    truth = Moments(PREDICTED.mean + 1, torch.ones(3, 1))
    ax = plots.prediction_band(X, PREDICTED, data=data, truth=truth, trained_on=(0.0, 1.5), title="band")
    assert line_of(ax, "data").tolist() == [[0.5, 7.0]]
    assert line_of(ax, "true mean").tolist() == [[0.0, 1.0], [1.0, 11.0], [2.0, 21.0]]
    assert line_of(ax, "true ±2σ").tolist() == [[0.0, 3.0], [1.0, 13.0], [2.0, 23.0]]
    assert "training range" in [text.get_text() for text in ax.texts]
    assert ax.get_title(loc="left") == "band"


def test_the_calibration_picture_draws_the_calibration_curve():
    generator = torch.Generator().manual_seed(0)
    predicted, target = Moments(torch.zeros(200), torch.ones(200)), torch.randn(200, generator=generator)
    ax = plots.calibration(predicted, target, label="net")
    (drawn,) = (line for line in ax.lines if str(line.get_label()).startswith("net (error"))
    assert dict(np.asarray(drawn.get_xydata())[1:-1].tolist()) == calibration_curve(predicted, target)


def test_the_history_draws_loss_validation_and_the_best_epoch():
    ax = result().plot()
    assert line_of(ax, "loss").tolist() == [[1, 4.0], [2, 3.0], [3, 2.0], [4, 1.0]]
    assert line_of(ax, "validation NLL").tolist() == [[1, 3.0], [2, 1.0], [3, 2.0], [4, 1.5]]
    assert line_of(ax, "best 1.0000, epoch 2").tolist() == [[2, 1.0]]


def test_a_history_without_validation_has_only_the_loss():
    ax = plots.history(result(validation=False))
    assert [line.get_label() for line in ax.lines] == ["loss", "running median"]


def test_a_picture_can_be_one_of_several_and_leaves_the_users_style_alone():
    before = dict(matplotlib.rcParams)
    _, axes = matplotlib.pyplot.subplots(1, 2)
    assert plots.history(result(), ax=axes[1]) is axes[1]
    assert not axes[0].lines and axes[1].lines
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("suffix, magic", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_are_saved_and_closed(tmp_path, suffix, magic):
    path = plots.save_picture(plots.prediction_band(X, PREDICTED), tmp_path / "new" / f"band.{suffix}")
    assert path.read_bytes().startswith(magic)
    assert not matplotlib.pyplot.get_fignums()


def test_the_running_median_follows_the_trend_and_ignores_spikes():
    values = np.arange(100.0)
    values[50] = 1e6
    median = plots.running_median(values)
    assert len(median) == 100 and np.abs(np.delete(median - np.arange(100.0), 50)).max() <= 2


def test_the_first_wild_losses_do_not_flatten_the_history():
    low, high = plots.readable_range(np.array([1e9, *np.linspace(1.0, 0.0, 99)]))
    assert low < 0.0 and 0.9 < high < 1.5


@pytest.mark.parametrize(
    "x, moments, options, message",
    [
        (torch.zeros(3, 2), PREDICTED, {}, "one value per row"),
        (torch.zeros(4), PREDICTED, {}, "same number of rows: x 4, mean 3"),
        (X, PREDICTED, {"truth": torch.zeros(5)}, "same number of rows: x 3, truth 5"),
        (X, PREDICTED, {"data": (torch.zeros(2), torch.zeros(3))}, "same number of rows: x 2, y 3"),
    ],
)
def test_nonsense_gets_a_clear_error(x, moments, options, message):
    with pytest.raises(LbnnError, match=message):
        plots.prediction_band(x, moments, **options)


def test_without_matplotlib_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(LbnnError, match=r"pip install 'lbnn\[plot\]'"):
        plots.prediction_band(X, PREDICTED)


def test_training_and_metrics_do_not_import_matplotlib():
    code = "import sys, lbnn.train.fit, lbnn.train.metrics, lbnn.train.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_predicted_against_observed_has_bars_of_two_standard_deviations():
    target = torch.tensor([[19.0], [1.0], [12.0]])
    ax = plots.against_observed(PREDICTED, target, name="cost in $")
    assert np.asarray(ax.lines[0].get_xydata()).tolist() == [[19.0, 20.0], [1.0, 0.0], [12.0, 10.0]]
    heights = [float(np.ptp(segment[:, 1])) for segment in ax.collections[0].get_segments()]
    assert heights == [8.0, 2.0, 4.0]
    assert ax.get_xlabel() == r"observed cost in \$"  # not the start of a formula


def test_regression_puts_the_calibration_beside_it_and_thins_out_many_rows():
    many = Moments(torch.zeros(5000, 2), torch.ones(5000, 2))
    left, right = plots.regression(many, torch.randn(5000, 2)).axes
    assert len(left.lines[0].get_xydata()) == plots.MOST_BARS
    assert right.get_xlabel() == "predicted probability"


def test_a_picture_of_an_unknown_kind_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(LbnnError, match="png"):
        plots.save_picture(plots.prediction_band(X, PREDICTED), tmp_path / "band.xyz")
    assert list(tmp_path.iterdir()) == []
