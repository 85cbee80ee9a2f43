"""The documentation holds: its code blocks run, its links lead somewhere, and the site has every page.

Blocks of converters.md and sklearn.md are run by tests/convert/test_others.py and tests/train/test_estimator.py,
consoles and tables by test_numbers.py, recipes by `make recipes`.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import lbnn
from browsers import chromium
from c_models import export, mlp, run
from lbnn import nn as bnn
from lbnn.cli.main import main
from places import ROOT, TOOLS, need

FOLDERS = ("*.md", "docs/*.md", "examples/**/*.md", "c_runtime/**/*.md")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(folder))
ELSEWHERE = {"docs/converters.md", "docs/sklearn.md", "docs/extending.md", "docs/devices.md"}
"""Other tests run their blocks."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in BLOCK.findall(page.read_text()) if kind in languages]


def of_layers() -> dict[str, Any]:
    layers = (bnn.Conv2d(1, 2, 3, padding=1), bnn.ReLU(), bnn.AvgPool2d(2), bnn.Flatten(), bnn.Linear(32, 1))
    return {"model": bnn.Sequential(*layers), "x": torch.randn(8, 1, 8, 8)}


def of_training() -> dict[str, Any]:
    return {"lbnn": lbnn, "model": mlp(8, 4, 1), "x": torch.randn(32, 8), "y": torch.randn(32, 1)}


def of_c() -> dict[str, Any]:
    lbnn.save(mlp(4, 9, 3, 1), "gas_sensor.pt", (4,))
    return {"lbnn": lbnn, "x": torch.randn(5, 4).numpy()}


GIVEN = {"docs/layers.md": of_layers, "docs/training.md": of_training, "docs/c.md": of_c}
"""What the text around the blocks of a page takes for granted."""
PYTHON = [str(page.relative_to(ROOT)) for page in PAGES if blocks(page, "python")]


@pytest.mark.parametrize("name", sorted(set(PYTHON) - ELSEWHERE))
def test_the_code_of_a_page_runs_in_its_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings are made short; the shell's `lbnn` is the command line."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    shell = ("sh",) if "tutorial" in name else ()
    known = GIVEN.get(name, dict)()
    for kind, text in blocks(ROOT / name, "python", *shell):
        quick = re.sub(r"epochs(=| )\d+", r"epochs\g<1>2", text)
        if kind == "python":
            exec(compile(quick, name, "exec"), known)  # noqa: S102
        else:
            for line in quick.splitlines():
                assert_command_succeeds(line)


def assert_command_succeeds(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "lbnn"
    with pytest.raises(SystemExit) as left:
        main(words)
    assert not left.value.code, line


STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function")


def test_the_programs_of_the_page_about_c_run(tmp_path: Path) -> None:
    folder = export("gas_sensor", tmp_path / "gas_sensor")
    kinds = {"c": (need("gcc"), *STRICT), "cpp": (need("g++"), "-std=c++11", "-Wall", "-Wextra", "-Werror")}
    run(need("gcc"), "-std=c99", "-c", folder / "gas_sensor.c", cwd=tmp_path)
    programs = [block for block in blocks(ROOT / "docs/c.md", *kinds) if "main(" in block[1]]
    assert [kind for kind, _ in programs] == ["c", "cpp"]
    for kind, text in programs:
        (tmp_path / f"main.{kind}").write_text(text)
        run(*kinds[kind], f"-I{folder}", f"main.{kind}", "gas_sensor.o", "-o", "main", cwd=tmp_path)
        assert re.fullmatch(r"\S+, variance \S+\n", run(tmp_path / "main"))


def test_the_script_of_the_page_about_c_runs(tmp_path: Path) -> None:
    export("gas_sensor", tmp_path / "node_modules/gas_sensor", package="npm")
    ((_, text),) = blocks(ROOT / "docs/c.md", "js")
    (tmp_path / "use.mjs").write_text(f"{text}\nconsole.log(mean.length, variance[0] > 0);\n")
    assert run(need("node"), "use.mjs", cwd=tmp_path) == "1 true\n"


CALIBRATION = dict(level=0.9, false_alarms=0.05, rows=9, factor=[1.5], variance_scale=[1.0], unsure_sd=[0.3])
KNOWN = {"input_range": [[0.0, 3.0], [4095.0, 3.6]], "calibration": CALIBRATION}
AROUND = """
#include <stdio.h>
void act_on(int label);
void around(const float *input, float *mean, float *variance, float *low, float *high, float *work, lbnn_status status);
void around(const float *input, float *mean, float *variance, float *low, float *high, float *work, lbnn_status status)
{
    (void)input, (void)mean, (void)variance, (void)low, (void)high, (void)work, (void)status;
    {
%s
    }
}
"""


def regression() -> torch.nn.Module:
    return bnn.Sequential(bnn.Linear(2, 3), bnn.ReLU(), bnn.Linear(3, 1))


def classification() -> torch.nn.Module:
    return bnn.Sequential(bnn.Linear(2, 3), bnn.SoftmaxHead())


def monitored() -> torch.nn.Module:
    return bnn.Sequential(bnn.Conv1d(2, 3, 3), bnn.ReLU(), bnn.Flatten(), bnn.Linear(18, 1))


FRAGMENTS: dict[str, tuple[Any, tuple[int, ...], dict[str, Any], dict[str, Any]]] = {
    "README.md sensor": (regression, (2,), KNOWN, {}),
    "docs/calibration.md sensor": (regression, (2,), KNOWN, {}),
    "docs/tutorial_firmware.md level": (regression, (2,), KNOWN, {}),
    "docs/classification.md digits": (classification, (2,), {"classes": ["a", "b", "c"]}, {}),
    "docs/classification.md net": (classification, (2,), {}, {}),
    "docs/streams.md monitor": (monitored, (2, 8), {}, {"stream": True}),
}
"""Page and model: a network such as the page speaks of."""


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_c_of_a_page_compiles_with_a_model_such_as_it_speaks_of(fragment: str, tmp_path: Path) -> None:
    (page, name), (make, shape, metadata, options) = fragment.split(), FRAGMENTS[fragment]
    lbnn.save(make(), tmp_path / f"{name}.pt", shape, metadata=metadata)
    folder = lbnn.export(tmp_path / f"{name}.pt", "c", tmp_path / name, **options)
    (text,) = (text for _, text in blocks(ROOT / page, "c") if re.search(rf"\b{name}_", text))
    includes = "".join(re.findall(r"^#include .*\n", text, re.MULTILINE))
    rest = re.sub(r"^#include .*\n", "", text, flags=re.MULTILINE)
    whole = includes + (rest if re.search(r"^\w.*\)\n\{", rest, re.MULTILINE) else AROUND % rest)
    (tmp_path / "use.c").write_text(f'#include "{name}.h"\n{whole}')
    run(need("gcc"), *STRICT, f"-I{folder}", "-c", tmp_path / "use.c", "-o", tmp_path / "use.o")


def test_no_page_has_c_that_no_test_compiles() -> None:
    found = {str(page.relative_to(ROOT)): len(blocks(page, "c", "cpp")) for page in PAGES if blocks(page, "c", "cpp")}
    tried = [name.split()[0] for name in FRAGMENTS]
    assert found == {**{name: tried.count(name) for name in tried}, "docs/c.md": 2}


# ---- links -----------------------------------------------------------------------------------------------------

LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchor(heading: str) -> str:
    """What a heading is called in a link: lower case, no punctuation, a dash for each space."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = BLOCK.sub("", page.read_text())
    return {anchor(found) for found in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for link in LINK.findall(BLOCK.sub("", page.read_text())):
        path, _, part = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (part and part not in anchors(target)):
            wrong.append(link)
    assert wrong == []


# ---- the site --------------------------------------------------------------------------------------------------


def test_the_site_has_every_page_of_the_docs() -> None:
    named = set(re.findall(r": ((?:docs/)?[\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {f"docs/{path.name}" for path in ROOT.glob("docs/*.md")} <= named


PAGE = """<body><script src="iframe-worker.js"></script><script>
const worker = new Worker("worker.js");
worker.addEventListener("message", (event) => { window.told = event.data; });
worker.postMessage({question: [20]});
</script>"""
WORKER = """addEventListener("message", async (event) => {
    await importScripts("more.js", "most.js");
    postMessage({answer: event.data.question[0] + more + most});
});"""


def test_a_worker_such_as_that_of_the_search_answers_a_page_from_the_disk(tmp_path: Path) -> None:
    shutil.copy(TOOLS / "site/iframe-worker.js", tmp_path)
    files = {"page.html": PAGE, "worker.js": WORKER, "more.js": "var more = 20;", "most.js": "var most = more / 10;"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with chromium() as browser:
        from selenium.webdriver.support.ui import WebDriverWait

        browser.get((tmp_path / "page.html").as_uri())
        told = WebDriverWait(browser, 60).until(lambda b: b.execute_script("return window.told"))
        assert told == {"answer": 42} and browser.get_log("browser") == []
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "  - offline" in settings and "polyfills: [iframe-worker.js]" in settings


SHARED = re.compile(r"\b(?:class_metrics|class_plots|losses|metrics|montecarlo|plots|priors)\.([A-Za-z_]\w*)\b")
NO_MEMBERS = {"py"}


def test_the_reference_and_the_gallery_hold_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS / "site"))
    import stage

    reference = stage.python_reference()
    facade = [f"lbnn.{name}" for name in (*lbnn.__all__, "Regressor", "Classifier") if name not in stage.APART]
    heads = {
        *re.findall(r'heading: "([^"]+)", toc_label: "\1"', reference),
        *re.findall(r"^### (.+)$", reference, re.M),
    }
    assert {*facade, *(f"lbnn.nn.{name}" for name in bnn.__all__)} <= heads
    assert len(heads) == len(re.findall(r"^(?::::|###) ", reference, re.M)) and "Sequential" in bnn.__all__
    assert '::: lbnn.train.fit.fit\n    options: {heading: "lbnn.fit"' in reference
    assert "::: lbnn.train.result.FitResult\n" in reference and "(add|mul|getitem)" in (ROOT / "mkdocs.yml").read_text()
    for internal in ("log_softplus", "EASTERN_FONTS", "op_params", "finish_axes", "PowerSums", "import_module"):
        assert internal not in reference
    assert (
        '::: lbnn.train.priors\n    options: {heading: "lbnn.priors", toc_label: "lbnn.priors", members: [' in reference
    )
    named = {name for page in PAGES for name in SHARED.findall(page.read_text()) if name not in NO_MEMBERS}
    assert len(named) > 6 and [name for name in named if not re.search(rf"(members: .*|\.)\b{name}\b", reference)] == []
    examples = list(ROOT.glob("examples/*/README.md"))
    pictures = sum("![" in page.read_text() for page in examples)
    assert stage.gallery().count("\n## ") == len(examples) and stage.gallery().count("![") == pictures >= 5


C_NAMES = (
    *("predict", "selftest", "interval", "is_unsure", "out_of_range", "classify", "class_name", "set"),
    *("push", "reset", "predict_q"),
)


def test_the_c_reference_declares_every_function_that_a_header_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS / "site"))
    import stage

    page = stage.c_reference()
    declared = {
        name for name in C_NAMES if re.search(rf"^(?:\w+ )*(?:const char \*)?model_{name}\(", page, re.MULTILINE)
    }
    assert declared == set(C_NAMES) and "LBNN_ERROR_INPUT" in page
    parts = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
    assert len(parts) == 3 + len(stage.MODELS)
    assert not any(
        "return" in re.sub(r"/\*.*?\*/", "", parts[f"model.h {what}"], flags=re.DOTALL) for what in stage.MODELS
    )
