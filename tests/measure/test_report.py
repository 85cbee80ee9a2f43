"""The report: one page without a network, whatever names the model has, and the model itself answers inside it."""

import re
from dataclasses import replace

import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.graph.drawing import draw_graph
from lbnn.measure.live import MOST_LIVE_INPUTS
from lbnn.measure.parts import PARTS
from lbnn.model.file import read_model
from reports import HOSTILE, Elements, network, report, save_named, write_csv


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return report(save_named(folder), folder / "report.html", data=write_csv(folder / "d.csv", 1), target="out0")


def test_it_tells_all_a_review_asks_for(page):
    text = Elements(page).text
    for word in (
        "Try it",
        "Predictions",
        "Network",
        "Parity",
        "Cost of each layer",
        "Device fit",
        "Forms",
        "How to build",
    ):
        assert word in text
    for word in ("in0", "out0", "NLL", "95 % interval", "leaky_relu", "✓ agrees", "STM32F030R8", "lbnn export"):
        assert word in text


def test_every_form_has_a_row_with_what_it_loses(page):
    text = Elements(page).text
    for word in ("float32", "--weights half", "--dtype int8", "--dtype int16", "KL(float64 || form)"):
        assert word in text


def test_it_loads_nothing(page):
    """No address but those that name a format, and a policy under which the browser would refuse."""
    assert set(re.findall(r"https?://[^\"'\s)]*", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    tags = Elements(page).tags
    assert not {tag for tag, _ in tags} & {"img", "iframe", "object", "embed", "base"}
    links = [value for _, attrs in tags for key, value in attrs.items() if key in ("src", "href", "xlink:href")]
    assert all(link.startswith(("#", "data:")) for link in links)
    (policy,) = (attrs["content"] for _, attrs in tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "'unsafe-inline'" not in policy.split("script-src")[1]


def test_the_same_model_gives_the_same_page(tmp_path):
    model = save_named(tmp_path)
    assert report(model, tmp_path / "a.html") == report(model, tmp_path / "b.html")


def test_hostile_names_stay_text(tmp_path):
    model = lbnn.save(
        network(1),
        tmp_path / "m.pt",
        input_shape=(1,),
        name=HOSTILE,
        metadata={
            "inputs": [HOSTILE],
            "targets": [HOSTILE],
            "test": {"nll": HOSTILE, "coverage": {HOSTILE: 0.5}},
            "input_range": [[HOSTILE], [1]],
        },
    )
    (tmp_path / f"{HOSTILE[:8]}.csv").write_text(f'"{HOSTILE.replace(chr(34), chr(34) * 2)}",y\n1,2\n2,3\n3,4\n')
    without = report(model, tmp_path / "a.html")
    with_data = report(model, tmp_path / "b.html", data=tmp_path / f"{HOSTILE[:8]}.csv", target="y")
    for page in (without, with_data):
        found = Elements(page)
        assert [attrs.get("type") for tag, attrs in found.tags if tag == "script"] == ["application/json", None]
        assert not any(tag == "img" or "onerror" in attrs for tag, attrs in found.tags)
        assert "<script>alert" not in page and HOSTILE in found.text and "{{7*7}}" in page


def test_hostile_layer_names_stay_text(tmp_path):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("<script>alert(1)</script>", bnn.Linear(1, 1))

        def forward(self, x):
            return next(self.children())(x)

    page = report(lbnn.save(Odd(), tmp_path / "m.pt", input_shape=(1,)), tmp_path / "r.html")
    assert "<script>alert" not in page
    graph = read_model(tmp_path / "m.pt").graph
    evil = replace(graph, nodes=(replace(graph.nodes[0], name="<b>x</b>"),), output="<b>x</b>")
    assert "&lt;b&gt;x&lt;/b&gt;" in draw_graph(evil) and "<b>" not in draw_graph(evil)


def test_a_model_with_too_many_inputs_to_try_says_so(tmp_path):
    text = Elements(report(save_named(tmp_path, MOST_LIVE_INPUTS + 1), tmp_path / "r.html")).text
    assert "at most 16 inputs runs in this page; this one has 17." in text


def test_each_part_names_its_data_sheet(page):
    titles = {attrs.get("title") for tag, attrs in Elements(page).tags if tag == "tr"}
    assert {part.datasheet for part in PARTS} <= titles
