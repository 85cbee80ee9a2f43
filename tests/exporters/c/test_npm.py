"""The package for npm: in Node and in a browser the numbers of the reference, and types that say what is there."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_decide import CALIBRATION, RANGE, saved

import lbnn
from browsers import chromium
from c_models import read, run
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.exporters.c import COptions, export_c
from lbnn.graph.passes import prepare
from lbnn.graph.reference import classify, predict
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors
from lbnn.measure.samples import draw_samples
from lbnn.measure.stored import as_stored
from lbnn.model.file import Model, read_model
from places import need, need_package, need_typescript

NAMES = ("Röhre", 'a "b" \\ c', "3")


def classifier() -> Model:
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Linear(2, 5), bnn.ReLU(), bnn.Linear(5, 3), bnn.SoftmaxHead())
    return read_model(model, (2,))


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "moments": (lambda: read("gas_sensor"), {}),
    "input variance": (lambda: read("gas_sensor"), {"input_variance": True}),
    "images": (lambda: read("zoo"), {}),
    "half floats": (lambda: read("gas_sensor"), {"weights": "half"}),
    "classes": (classifier, {}),
}
ASK = """
import { load } from "./net/net.js";
const model = await load();
const rows = ROWS;
console.log(JSON.stringify(rows.map((row) => model.predict(...row)), (_, v) => v instanceof Float32Array ? [...v] : v));
"""


def rows_of(model: Model, spread: bool) -> tuple[list[Any], Any]:
    samples = draw_samples(model, 7, seed=1, input_variance=spread)
    arrays = [part.reshape(7, -1).astype(np.float32) for part in (samples.mean, samples.var) if part is not None]
    return [[array[i].tolist() for array in arrays] for i in range(7)], samples


def assert_right(model: Model, spread: bool, samples: Any, found: list[dict[str, Any]]) -> None:
    graph = prepare(model.graph, spread)
    want = predict(graph, samples.mean, samples.var if spread else None)
    classes = classify(graph, want)
    if classes is not None:
        np.testing.assert_allclose([row["probability"] for row in found], classes.probability, atol=1e-3)
        assert [row["label"] for row in found] == np.argmax(classes.probability, axis=1).tolist()
        return
    mean, var = (np.array([row[key] for row in found]) for key in ("mean", "variance"))
    assert max(part.max() for part in errors(Outcome(mean, var), want)) <= FLOAT32_TOLERANCE


@pytest.mark.ecosystem("Web: Node", "npm package, WebAssembly", program="node", result="the numbers of the reference")
@pytest.mark.parametrize("name", CASES)
def test_node_gives_the_numbers_of_the_reference(name: str, tmp_path: Path) -> None:
    make, options = CASES[name]
    model, spread = as_stored(make(), options.get("weights", "source"), False), options.get("input_variance", False)
    export_c(model, tmp_path / "net", COptions(name="net", package="npm", **options))
    rows, samples = rows_of(model, spread)
    (tmp_path / "ask.mjs").write_text(ASK.replace("ROWS", json.dumps(rows)))
    found = json.loads(run(need("node"), "ask.mjs", cwd=tmp_path))
    assert_right(model, spread, samples, found)


WRONG = """
import { load } from "./net/net.js";
import { readFile } from "node:fs/promises";
const bytes = await readFile("net/net.wasm");
const model = await load(await WebAssembly.compile(bytes));
const said = [[NaN, 1, 1, 1], [1], [3.4e38, 3.4e38, 3.4e38, 3.4e38]].map((row) => {
  try { model.predict(row); return "nothing"; } catch (error) { return `${error.name}: ${error.message}`; }
});
const one = model.predict([0, 0, 0, 0]), kept = one.mean[0];
(await load(bytes)).predict([1, 2, 3, 4]);
model.predict([1, 2, 3, 4]);
console.log(JSON.stringify([...said, one.mean[0] === kept]));
"""


@pytest.mark.ecosystem("Web: Node", "npm package, WebAssembly", program="node", result="the numbers of the reference")
def test_errors_are_thrown_and_results_are_the_callers_own(tmp_path: Path) -> None:
    export_c(read("gas_sensor"), tmp_path / "net", COptions(name="net", package="npm"))
    (tmp_path / "ask.mjs").write_text(WRONG)
    finite, length, overflow, kept = json.loads(run(need("node"), "ask.mjs", cwd=tmp_path))
    assert finite == "Error: net: an input is not finite, or an input variance is negative"
    assert length == "RangeError: net takes 4 numbers as input, got 1"
    assert overflow == "Error: net: an output is not finite, or an output variance is negative" and kept is True


def test_a_calibrated_model_says_interval_unsure_and_range_in_javascript_and_in_its_types(tmp_path: Path) -> None:
    model = read_model(saved(tmp_path, {"input_range": RANGE, "calibration": CALIBRATION}))
    folder = export_c(model, tmp_path / "net", COptions(name="net", package="npm"))
    (tmp_path / "ask.mjs").write_text(ASK.replace("ROWS", "[[[0.25, 0.0, 5.0]]]"))
    (found,) = json.loads(run(need("node"), "ask.mjs", cwd=tmp_path))
    assert found["low"][0] < found["mean"][0] < found["high"][0] and isinstance(found["unsure"], bool)
    typed = re.findall(r"^  (\w+): ", (folder / "net.d.ts").read_text(), re.MULTILINE)
    assert set(typed) == set(found)


def test_names_of_classes_survive_the_way_through_c(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.manual_seed(0)
    net = bnn.Sequential(bnn.Linear(2, 3), bnn.SoftmaxHead())
    lbnn.save(net, path, (2,), metadata={"classes": list(NAMES)})
    export_c(read_model(path), tmp_path / "net", COptions(name="net", package="npm"))
    script = 'import { CLASSES } from "./net/net.js"; console.log(JSON.stringify(CLASSES));'
    (tmp_path / "ask.mjs").write_text(script)
    assert tuple(json.loads(run(need("node"), "ask.mjs", cwd=tmp_path))) == NAMES


@pytest.mark.ecosystem("Web: npm", "`npm pack`", program="npm", result="packs")
def test_a_package_has_what_npm_wants_and_nothing_else(tmp_path: Path) -> None:
    folder = export_c(read("gas_sensor"), tmp_path / "net", COptions(name="Net", package="npm"))
    data = json.loads((folder / "package.json").read_text())
    assert data["name"] == "net" and data["type"] == "module"
    packed = json.loads(run(need("npm"), "pack", "--json", "--offline", "--dry-run", cwd=folder))
    assert sorted(file["path"] for file in packed[0]["files"]) == ["Net.d.ts", "Net.js", "Net.wasm", "package.json"]
    exported = re.findall(r"^export (?:async )?(?:const|function|class) (\w+)", (folder / "Net.js").read_text(), re.M)
    declared = re.findall(r"^export declare (?:const|function|class) (\w+)", (folder / "Net.d.ts").read_text(), re.M)
    assert sorted(exported) == sorted(declared)


TYPED = """
import { load, CLASSES, INPUT_LEN } from "net";
const model = await load(new Uint8Array(8));
const { probability, label, name, entropy, unsure } = model.predict(new Array<number>(INPUT_LEN).fill(0));
const text: string = `${name} ${CLASSES[label]} ${probability[0].toFixed(3)}`, sure: boolean = !unsure && entropy < 1;
export { text, sure };
"""
WRONG_TYPES = ('model.predict("a word")', "model.predict([0, 0]).probability.push(1)", "load(null)", "model.predict()")


def test_a_compiler_of_typescript_takes_the_types_and_finds_what_is_against_them(tmp_path: Path) -> None:
    tsc = need_typescript()
    export_c(classifier(), tmp_path / "node_modules/net", COptions(name="net", package="npm"))
    options = ("--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "right.ts").write_text(TYPED)
    run(tsc, *options, "right.ts", cwd=tmp_path)
    head = 'import { load } from "net";\nconst model = await load();\n'
    for number, wrong in enumerate(WRONG_TYPES):
        (tmp_path / f"wrong{number}.ts").write_text(f"{head}{wrong};\nexport {{}};\n")
    files = [f"wrong{number}.ts" for number in range(len(WRONG_TYPES))]
    told = subprocess.run([tsc, *options, *files], cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert [file for file in files if told.count(f"{file}(3,") != 1] == [], told


def test_a_stream_is_refused() -> None:
    with pytest.raises(LbnnError, match="npm takes whole inputs; leave out --stream"):
        COptions(package="npm", stream=True)


# ---- a browser -------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A server of the folder: a page from the disk may not fetch."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">
import { load } from "./net/net.js";
const model = await load(), rows = ROWS;
const found = rows.map((row) => model.predict(...row));
window.found = JSON.stringify(found, (_, v) => v instanceof Float32Array ? [...v] : v);
</script>"""


@pytest.mark.ecosystem(
    "Web: Chromium", "npm package, WebAssembly", program="chromium", result="the numbers of the reference"
)
def test_a_browser_gives_the_numbers_of_the_reference(tmp_path: Path, served: str) -> None:
    need_package("selenium.webdriver")
    from selenium.webdriver.support.ui import WebDriverWait

    model = read("gas_sensor")
    export_c(model, tmp_path / "net", COptions(name="net", package="npm"))
    rows, samples = rows_of(model, False)
    (tmp_path / "page.html").write_text(PAGE.replace("ROWS", json.dumps(rows)))
    with chromium() as browser:
        browser.get(f"{served}/page.html")
        found = WebDriverWait(browser, 120).until(lambda b: b.execute_script("return window.found"))
        assert browser.get_log("browser") == []
    assert_right(model, False, samples, json.loads(found))
