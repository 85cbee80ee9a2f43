"""The pictures of classes show what the metrics say."""

import matplotlib
import numpy as np
import pytest
import torch

from lbnn.base.errors import LbnnError
from lbnn.train import class_metrics as cm
from lbnn.train import class_plots, plots

matplotlib.use("Agg")

DRAW = torch.Generator().manual_seed(2)
PROBABILITY = torch.softmax(torch.randn(300, 3, generator=DRAW), -1)
TARGET = torch.multinomial(PROBABILITY, 1, generator=DRAW)[:, 0]


def line(ax, label):
    return next(one for one in ax.lines if one.get_label().startswith(label))


def test_the_reliability_diagram_shows_the_bins_and_the_error():
    ax = class_plots.reliability_diagram(PROBABILITY, TARGET, label="net", title="calibrated?")
    sure, hits, rows = cm.reliability(PROBABILITY, TARGET)
    drawn = line(ax, "net")
    assert np.allclose(drawn.get_xydata(), np.stack([sure, hits], 1))
    assert f"{cm.expected_calibration_error(PROBABILITY, TARGET):.3f}" in drawn.get_label()
    heights = [bar.get_height() for bar in ax.patches]
    assert np.allclose(heights, 0.25 * rows / rows.max())
    assert ax.get_title(loc="left") == "calibrated?"


def test_the_risk_coverage_curve_ends_at_the_error_rate():
    ax = class_plots.risk_coverage_curve(PROBABILITY, TARGET)
    coverage, risk = cm.risk_coverage(PROBABILITY, TARGET)
    assert np.allclose(line(ax, "model").get_xydata(), np.stack([coverage, risk], 1))
    assert line(ax, "all").get_ydata()[0] == pytest.approx(1 - cm.accuracy(PROBABILITY, TARGET))


def test_the_confusion_matrix_shows_every_count_and_the_names():
    ax = class_plots.confusion_matrix(PROBABILITY, TARGET, names=["on", "off", "a $5"])
    table = cm.confusion(PROBABILITY, TARGET)
    written = {(round(t.get_position()[1]), round(t.get_position()[0])): int(t.get_text()) for t in ax.texts}
    assert written == {(r, c): int(table[r, c]) for r in range(3) for c in range(3) if table[r, c]}
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["on", "off", plots.literal("a $5")]
    assert np.allclose(ax.images[0].get_array().sum(1), 1.0)


def test_pictures_are_saved_like_the_others(tmp_path):
    path = plots.save_picture(class_plots.reliability_diagram(PROBABILITY, TARGET), tmp_path / "reliability.png")
    assert path.stat().st_size > 1000


def test_a_wrong_number_of_names_is_refused():
    with pytest.raises(LbnnError, match="3 classes and 2 names"):
        class_plots.confusion_matrix(PROBABILITY, TARGET, names=["on", "off"])
