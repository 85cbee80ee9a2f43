"""The pictures of a report."""

import re

import pytest

from reports import report, save_named, write_csv


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return report(save_named(folder), folder / "report.html", data=write_csv(folder / "d.csv", 1), target="out0")


def test_the_pictures_use_the_pages_colours_and_have_ids_of_their_own(page):
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    assert len(figures) == 3  # the band, predicted against observed, calibration
    assert all("var(--blue)" in figure and "#0072b2" not in figure for figure in figures)
    clips = [set(re.findall(r'<clipPath id="([^"]*)"', figure)) for figure in figures]
    assert not clips[0] & clips[1] and not clips[1] & clips[2]
