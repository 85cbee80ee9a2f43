"""The model inside the page, in a browser: it answers what the model answers."""

import base64
import io
import json

import numpy as np
import pytest

import lbnn
from lbnn.exporters import wasm
from lbnn.measure.backends import BACKENDS
from lbnn.measure.live import MOST_LIVE_INPUTS
from lbnn.measure.samples import Samples
from lbnn.model.file import read_model
from places import need
from reports import HOSTILE, Elements, network, report, save_classes, save_named, write_csv


def test_the_wasm_module_is_small_and_more_inputs_than_one_looks_at_get_none(tmp_path):
    assert len(wasm.compile_wasm(read_model(save_named(tmp_path)))) < 12_000
    many = save_named(tmp_path, MOST_LIVE_INPUTS + 1)
    assert "live-data" not in [attrs.get("id") for _, attrs in Elements(report(many, tmp_path / "r.html")).tags]


def test_without_zig_the_page_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(wasm, "missing", lambda: "pip install ziglang")
    assert "pip install ziglang" in report(save_named(tmp_path), tmp_path / "r.html")


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
    model = save_named(tmp_path, inputs)
    report(model, tmp_path / "r.html", data=write_csv(tmp_path / "d.csv", inputs), target="out0")
    open_page(browser, tmp_path / "r.html")
    values = [4.25, 0.5][:inputs]  # exact in float32
    for index, value in enumerate(values):
        slide(browser, index, value)
    mean, sd = answer(browser)
    samples = Samples(np.array([values], np.float32), None, ("ordinary",))
    want = BACKENDS["torch"].run(read_model(model), samples)
    assert mean == pytest.approx(want.mean.item(), rel=1e-5) and sd == pytest.approx(want.var.item() ** 0.5, rel=1e-5)
    assert len(browser.find_elements("css selector", ".live svg .mean")) == inputs
    assert browser.get_log("browser") == []  # no error, and nothing that the policy refused


def test_a_category_is_chosen_from_a_list(browser, tmp_path):
    columns = [{"name": "in0", "categories": []}, {"name": "site", "categories": ["roof", "yard"]}]
    model = save_named(tmp_path, 3, columns=columns)
    report(model, tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html")
    slide(browser, 0, 4.25)
    script = """const s = document.querySelector('#live-choices select');
                s.value = 1; s.dispatchEvent(new Event('change'));"""
    browser.execute_script(script)
    samples = Samples(np.array([[4.25, 0, 1]], np.float32), None, ("ordinary",))
    want = BACKENDS["torch"].run(read_model(model), samples)
    assert answer(browser)[0] == pytest.approx(want.mean.item(), rel=1e-5)
    assert len(browser.find_elements("css selector", ".live svg")) == 1


def test_dragging_moves_the_input(browser, tmp_path):
    from selenium.webdriver import ActionChains

    report(save_named(tmp_path), tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html")
    before = answer(browser)
    plot = browser.find_element("css selector", ".live svg")
    ActionChains(browser).move_to_element(plot).click_and_hold().move_by_offset(150, 0).release().perform()
    shown = float(browser.find_element("css selector", ".live output").text)
    assert 4.0 < shown < 7.0 and answer(browser) != before  # it began in the middle, at 3


def test_it_fits_a_phone_and_follows_light_and_dark(browser, tmp_path):
    report(save_named(tmp_path), tmp_path / "r.html", data=write_csv(tmp_path / "d.csv", 1), target="out0")
    open_page(browser, tmp_path / "r.html", width=360)
    assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    colours = set()
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        colours.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def edge(table):
    """How bright the last columns of pixels are, 0 to 1."""
    from matplotlib.image import imread

    return float(imread(io.BytesIO(table.screenshot_as_png))[:, -3:, :3].mean())


def test_a_table_that_goes_on_is_shaded_there_until_one_is_at_its_end(browser, tmp_path):
    """Phones have no bar that would show it."""
    report(save_named(tmp_path), tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html", width=360)
    tables = browser.find_elements("css selector", ".scroll")
    long = [table for table in tables if browser.execute_script("return arguments[0].scrollWidth", table) > 400]
    assert len(long) >= 3
    before = edge(long[0])
    browser.execute_script("arguments[0].scrollLeft = 10000", long[0])
    assert before < edge(long[0]) - 0.1


def test_a_table_that_does_not_go_on_has_no_line_at_its_end(browser, tmp_path):
    """On a wide screen they begin at half a pixel, where a line of the shade was left."""
    report(save_named(tmp_path), tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html")
    tables = browser.find_elements("css selector", ".scroll")
    assert len(tables) >= 4
    assert [edge(table) for table in tables if edge(table) < 0.99] == []


def test_values_of_the_training_stand_in_lines_on_a_phone_and_not_a_word_to_each(browser, tmp_path):
    record = {"settings": {"kl_weight": 1.0, "prior": "gaussian"}}
    report(save_named(tmp_path, training=record, data_sha256="0123456789abcdef" * 4), tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html", width=360)
    name, value = (browser.find_element("css selector", f".pairs {kind}").rect for kind in ("th", "td"))
    assert value["width"] > 140 and name["width"] + value["width"] <= 301


def test_it_prints(browser, tmp_path):
    report(save_named(tmp_path), tmp_path / "r.html")
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


def test_the_page_of_a_classifier_answers_probabilities(browser, tmp_path):
    model = save_classes(tmp_path, {"unsure_entropy": 0.1})
    report(model, tmp_path / "r.html")
    open_page(browser, tmp_path / "r.html")
    for index, value in enumerate([4.25, 0.5]):
        slide(browser, index, value)
    samples = Samples(np.array([[4.25, 0.5]], np.float32), None, ("ordinary",))
    want = BACKENDS["torch"].run(read_model(model), samples).classes
    told = browser.execute_script("return document.getElementById('live-answer').textContent")
    best = int(want.probability[0].argmax())
    assert f"{('idle', 'run', 'walk')[best]} {100 * want.probability[0, best]:.1f} %" in told and "unsure" in told
    assert f"entropy {want.entropy[0]:.3f} nats, of which {want.epistemic[0]:.3f}" in told
    script = "const s = document.getElementById('live-output'); s.value = 2; s.dispatchEvent(new Event('change'));"
    browser.execute_script(script)
    assert answer(browser)[0] == pytest.approx(want.probability[0, 2], abs=1e-5) and answer(browser)[1] == 0
    assert browser.get_log("browser") == []
