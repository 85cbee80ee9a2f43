"""The pictures of a report."""

import re

import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.exporters import wasm
from lbnn.measure.slices import MOST_SLICES, slices
from reports import report, save_classes, save_named, write_csv


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return report(save_named(folder), folder / "report.html", data=write_csv(folder / "d.csv", 1), target="out0")


def test_the_pictures_use_the_pages_colours_and_have_ids_of_their_own(page):
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert len(figures) == 3  # the band, predicted against observed, calibration
    assert all("var(--blue)" in figure and "#0072b2" not in figure for figure in figures)
    clips = [set(re.findall(r'<clipPath id="([^"]*)"', figure)) for figure in figures]
    assert not clips[0] & clips[1] and not clips[1] & clips[2]


def test_the_band_has_a_row_of_its_own_so_that_the_others_are_of_one_size(page):
    figures = re.findall(r"<figure( class=\"whole\")?>.*?viewBox=\"0 0 ([\d.]+) ([\d.]+)\"", page, re.DOTALL)
    assert [bool(wide) for wide, *_ in figures] == [True, False, False]
    assert abs(float(figures[1][2]) - float(figures[2][2])) < 1.0


@pytest.fixture
def quick(monkeypatch):
    """The model inside the page has tests of its own."""
    monkeypatch.setattr(wasm, "missing", lambda: "pip install ziglang")


def pictures(page):
    return len(re.findall(r"<figure", page))


def test_without_data_there_are_slices_along_inputs(quick, tmp_path):
    page = report(save_named(tmp_path, 3), tmp_path / "r.html")
    assert pictures(page) == 3 and "Along inputs, the others in the middle of their range: mean" in page
    assert pictures(report(save_classes(tmp_path), tmp_path / "c.html")) == 2
    many = report(save_named(tmp_path, 20), tmp_path / "m.html")
    assert pictures(many) == MOST_SLICES and "those 6 of 20 along which most changes" in many


def test_without_data_images_have_a_picture_of_their_weights(quick, tmp_path):
    model = bnn.Sequential(bnn.Conv2d(1, 2, 3), bnn.Flatten(), bnn.Linear(8, 1, variance="rank1"))
    page = report(lbnn.save(model, tmp_path / "i.pt", input_shape=(1, 4, 4)), tmp_path / "r.html")
    assert pictures(page) == 1 and "How well the weights of each layer are known" in page


def test_a_slice_is_what_the_model_says_there(tmp_path):
    model = lbnn.load(save_named(tmp_path, 4))
    choices = [{"first": 1, "name": "kind", "levels": ["a", "b"]}]
    found = slices(model, [(0.0, 2.0), (0.0, 1.0), (0.0, 1.0), (-4.0, 0.0)], list("wxyz"), choices)
    assert [one.name for one in found] == ["w", "z"]  # never along the indicators of a category
    with torch.no_grad():
        for one, place in zip(found, (0, 3), strict=True):
            assert (one.grid[0], one.grid[-1]) == pytest.approx((one.ends[0] * 1.4 - 0.4 * one.ends[1],
                                                                  one.ends[1] * 1.4 - 0.4 * one.ends[0]))  # fmt: skip
            x = torch.tensor([[1.0, 1.0, 0.0, -2.0]])
            x[0, place] = one.grid[7]
            want = model(x)
            assert one.out.mean[7] == pytest.approx(want.mean[0]) and one.out.var[7] == pytest.approx(want.var[0])
