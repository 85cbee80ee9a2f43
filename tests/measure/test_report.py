"""The report: one page without a network, whatever names the model has, and the model itself answers inside it."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import lbnn
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.cli.main import main
from lbnn.exporters import wasm
from lbnn.graph.drawing import MOST_NODES, draw_graph
from lbnn.measure import parity
from lbnn.measure.report import MOST_LIVE_INPUTS, input_names, input_range, write_report
from lbnn.model.file import read_model
from places import need

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}&amp;</style>-->"


def network(inputs, outputs=1):
    torch.manual_seed(0)
    layers = (bnn.Linear(inputs, 6), bnn.LeakyReLU(0.01), bnn.Linear(6, outputs))
    return bnn.Sequential(bnn.Standardize([3.0] * inputs, [2.0] * inputs), *layers)


def save(folder, inputs=1, outputs=1, **about):
    metadata = {"inputs": [f"in{i}" for i in range(inputs)], "targets": [f"out{i}" for i in range(outputs)], **about}
    return lbnn.save(network(inputs, outputs), folder / "sensor.pt", input_shape=(inputs,), metadata=metadata)


def write_csv(path, inputs):
    rng = np.random.default_rng(0)
    rows = rng.normal(3.0, 2.0, (60, inputs + 1))
    header = ",".join([*(f"in{i}" for i in range(inputs)), "out0"])
    np.savetxt(path, rows, delimiter=",", header=header, comments="")
    return path


def report(model, out, **options):
    return write_report(model, out, backends=["torch"], samples=7, **options).read_text()


class Elements(HTMLParser):
    """The tags of a page and their attributes, and its visible text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return report(save(folder), folder / "report.html", data=write_csv(folder / "d.csv", 1), target="out0")


def test_it_tells_all_a_review_asks_for(page):
    text = Elements(page).text
    for word in ("Try it", "Predictions", "Network", "Parity", "Cost of each layer", "Device fit", "How to build"):
        assert word in text
    for word in ("in0", "out0", "NLL", "95 % interval", "leaky_relu", "✓ agrees", "STM32F030R8", "lbnn export"):
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


def test_the_pictures_use_the_pages_colours_and_have_ids_of_their_own(page):
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    assert len(figures) == 3  # the band, predicted against observed, calibration
    assert all("var(--blue)" in figure and "#0072b2" not in figure for figure in figures)
    clips = [set(re.findall(r'<clipPath id="([^"]*)"', figure)) for figure in figures]
    assert not clips[0] & clips[1] and not clips[1] & clips[2]


def test_the_same_model_gives_the_same_page(tmp_path):
    model = save(tmp_path)
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


def test_a_residual_sum_is_drawn_with_a_line_around_and_a_huge_graph_not_at_all(tmp_path):
    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = bnn.Linear(2, 2), bnn.Linear(2, 2)

        def forward(self, x):
            x = self.a(x)
            return x + self.b(x)

    graph = read_model(Residual(), (2,)).graph
    drawn = draw_graph(graph)
    assert drawn.count('class="edge"') == sum(len(node.inputs) for node in graph.nodes)
    assert drawn.count("<rect") == len(graph.nodes) + 1
    deep = bnn.Sequential(*(bnn.LeakyReLU() for _ in range(MOST_NODES + 1)))
    assert draw_graph(read_model(deep, (2,)).graph) == ""


def test_the_wasm_module_is_small_and_more_inputs_than_one_looks_at_get_none(tmp_path):
    assert len(wasm.compile_wasm(read_model(save(tmp_path)))) < 12_000
    many = save(tmp_path, MOST_LIVE_INPUTS + 1)
    assert "live-data" not in [attrs.get("id") for _, attrs in Elements(report(many, tmp_path / "r.html")).tags]


def test_without_zig_the_page_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(wasm, "missing", lambda: "pip install ziglang")
    assert "pip install ziglang" in report(save(tmp_path), tmp_path / "r.html")


def test_names_and_ranges_come_from_the_file_the_data_or_the_first_layer(tmp_path):
    named = read_model(save(tmp_path, 2, input_range=[[0.0, -1.0], [1.0, 5.0]]))
    assert input_names(named) == ("in0", "in1") and input_range(named, None) == [(0.0, 1.0), (-1.0, 5.0)]
    bare = read_model(network(2), (2,))
    assert input_names(bare) == ("x0", "x1") and input_range(bare, None) == [(-1.0, 7.0), (-1.0, 7.0)]
    for wrong in (3, [[0.0], [1.0]], [[0.0, 5.0], [1.0, 5.0]], [["a", "b"], [1, 2]], [[0.0, float("nan")], [1.0, 2.0]]):
        assert input_range(replace(bare, metadata={"input_range": wrong}), None) == [(-1.0, 7.0), (-1.0, 7.0)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.pt"], "nowhere.pt"),
        (["sensor.pt", "--data", "nowhere.csv"], "no such file"),
        (["sensor.pt", "--data", "d.csv", "--target", "out9"], "no column 'out9'"),
        (["sensor.pt", "--target", "out0"], "give both"),
        (["sensor.pt", "--data", "wide.csv", "--target", "out0"], "takes (1,) and predicts 1"),
        (["sensor.pt", "-o", "d.csv"], "--force"),
        (["sensor.pt", "--backends", "gpu"], "unknown backend"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(tmp_path)
    write_csv(tmp_path / "d.csv", 1)
    write_csv(tmp_path / "wide.csv", 2)
    with pytest.raises(SystemExit) as left:
        main(["report", *words])
    problem = capsys.readouterr().err
    assert left.value.code == 2 and message in problem and problem.count("\n") == 1, problem


def test_data_in_another_shape_is_refused(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.ones((20, 3)), y=np.ones(20))
    with pytest.raises(LbnnError, match="takes"):
        report(save(tmp_path), tmp_path / "r.html", data=tmp_path / "d.npz")


# --- In a browser ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = need("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(need("chromedriver")))
    yield driver
    driver.quit()


def open_page(browser, path, width=1100):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 120).until(lambda b: b.execute_script("return !document.getElementById('live').hidden"))


def answer(browser):
    data = browser.execute_script("return {...document.getElementById('live-answer').dataset}")
    return float(data["mean"]), float(data["sd"])


def slide(browser, index, value):
    script = """const s = document.querySelectorAll('.live input')[arguments[0]];
                s.value = arguments[1]; s.dispatchEvent(new Event('input'));"""
    browser.execute_script(script, index, value)


@pytest.mark.parametrize("inputs", [1, 2])
def test_the_page_answers_what_the_model_answers(browser, tmp_path, inputs):
    model = save(tmp_path, inputs)
    report(model, tmp_path / "r.html", data=write_csv(tmp_path / "d.csv", inputs), target="out0")
    open_page(browser, tmp_path / "r.html")
    values = [4.25, 0.5][:inputs]  # exact in float32
    for index, value in enumerate(values):
        slide(browser, index, value)
    mean, sd = answer(browser)
    samples = parity.Samples(np.array([values], np.float32), None, ("ordinary",))
    want = parity.backends()["torch"](read_model(model), samples)
    assert mean == pytest.approx(want.mean.item(), rel=1e-5) and sd == pytest.approx(want.var.item() ** 0.5, rel=1e-5)
    assert len(browser.find_elements("css selector", ".live svg .mean")) == inputs
    assert browser.get_log("browser") == []  # no error, and nothing that the policy refused


def test_a_category_is_chosen_from_a_list(browser, tmp_path):
    columns = [{"name": "in0", "categories": []}, {"name": "site", "categories": ["roof", "yard"]}]
    model = save(tmp_path, 3, columns=columns)
    report(model, tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html")
    slide(browser, 0, 4.25)
    script = """const s = document.querySelector('#live-choices select');
                s.value = 1; s.dispatchEvent(new Event('change'));"""
    browser.execute_script(script)
    samples = parity.Samples(np.array([[4.25, 0, 1]], np.float32), None, ("ordinary",))
    want = parity.backends()["torch"](read_model(model), samples)
    assert answer(browser)[0] == pytest.approx(want.mean.item(), rel=1e-5)
    assert len(browser.find_elements("css selector", ".live svg")) == 1


def test_dragging_moves_the_input(browser, tmp_path):
    from selenium.webdriver import ActionChains

    report(save(tmp_path), tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html")
    before = answer(browser)
    plot = browser.find_element("css selector", ".live svg")
    ActionChains(browser).move_to_element(plot).click_and_hold().move_by_offset(150, 0).release().perform()
    shown = float(browser.find_element("css selector", ".live output").text)
    assert 4.0 < shown < 7.0 and answer(browser) != before  # it began in the middle, at 3


def test_it_fits_a_phone_and_follows_light_and_dark(browser, tmp_path):
    report(save(tmp_path), tmp_path / "r.html", data=write_csv(tmp_path / "d.csv", 1), target="out0")
    open_page(browser, tmp_path / "r.html", width=360)
    assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    colours = set()
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        colours.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_it_prints(browser, tmp_path):
    report(save(tmp_path), tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html")
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert base64.b64decode(printed).startswith(b"%PDF")


def test_hostile_names_do_nothing_in_a_browser(browser, tmp_path):
    metadata = {"inputs": [HOSTILE], "targets": [HOSTILE]}
    model = lbnn.save(network(1), tmp_path / "m.pt", input_shape=(1,), name=HOSTILE, metadata=metadata)
    report(model, tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html")
    assert browser.find_element("css selector", "h1").text == " ".join(HOSTILE.split())
    assert browser.find_elements("css selector", "img") == [] and browser.get_log("browser") == []
    assert json.loads(browser.execute_script("return document.getElementById('live-data').textContent"))
