"""`import lbnn`: quick, complete, and each name is what it says, whatever was imported before it."""

import re
import subprocess
import sys

import pytest

import lbnn
from places import ROOT

CONVERTERS = ("from_bayesian_torch", "from_blitz", "from_fastbnns", "from_torch", "from_torchbnn")
FUNCTIONS = ("cat", "compile", "emulate", "export", "fit", *CONVERTERS, "load", "pool_first", "read_model", "save")
FUNCTIONS += ("softmax_moments",)
MODULES = ("class_metrics", "class_plots", "losses", "metrics", "montecarlo", "nn", "plots", "priors")
ESTIMATORS = ("Classifier", "Regressor")


def fresh(script, *words):
    command = [sys.executable, "-c", f"import sys, types, lbnn\n{script}", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_waits_for_neither_torch_nor_numpy():
    heavy = ("torch", "numpy", "scipy", "sklearn", "jinja2")
    assert fresh(f"print([name for name in {heavy} if name in sys.modules])") == "[]\n"


def test_dir_lists_the_public_names():
    assert set(FUNCTIONS) | set(MODULES) | {"Classes", "LbnnError", "Moments", "__version__"} == set(lbnn.__all__)
    assert fresh("print(*dir(lbnn))").split() == sorted([*lbnn.__all__, *ESTIMATORS])


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_there_without_being_imported(name):
    assert fresh(f"print(type(lbnn.{name}).__name__, lbnn.{name}.__name__)").split()[0] == "module"


IMPORTS = (
    "lbnn.exporters.c",
    "lbnn.exporters.onnx",
    "lbnn.exporters.compiled",
    "lbnn.train.fit",
    "lbnn.model.file",
    "lbnn.convert.from_torch",
    "lbnn.cli.export",
    "lbnn.measure.report",
)


def test_functions_stay_functions_after_any_import():
    script = "\n".join(f"import {name}" for name in IMPORTS)
    kinds = ", ".join(f"type(lbnn.{name}).__name__" for name in FUNCTIONS)
    assert fresh(f"{script}\nprint({kinds})").split() == ["function"] * len(FUNCTIONS)


def test_a_name_that_is_not_there_is_an_error():
    with pytest.raises(AttributeError, match="module 'lbnn' has no attribute 'frobnicate'"):
        lbnn.frobnicate  # noqa: B018


# What pages write


PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]
PAGES.remove(ROOT / "docs" / "extending.md")  # writes of files that its recipes make; `make recipes` follows these
DOTTED = re.compile(r"(?<![\w/.-])lbnn(?:\.(?!h\b)[A-Za-z_]\w*)+")
RESOLVE = """
from importlib import import_module
def find(dotted):
    here, words = lbnn, dotted.split(".")[1:]
    for i, word in enumerate(words):
        try:
            here = getattr(here, word)
        except AttributeError:
            here = import_module(".".join(["lbnn", *words[: i + 1]]))
for dotted in sys.argv[1:]:
    try:
        find(dotted)
    except (AttributeError, ImportError) as error:
        print(dotted, error)
"""


def test_every_name_that_a_page_writes_is_there():
    """`lbnn.metrics.summary` after nothing but `import lbnn`, `lbnn.train.rates` as a module."""
    names = {name for page in PAGES for name in DOTTED.findall(page.read_text())}
    assert {"lbnn.fit", "lbnn.metrics.summary", "lbnn.montecarlo.monte_carlo"} <= names
    assert fresh(RESOLVE, *sorted(names)) == ""
    assert fresh(RESOLVE, "lbnn.metrics.frobnicate").startswith("lbnn.metrics.frobnicate ")


def test_every_import_that_a_page_writes_works():
    written = re.compile(r"^ *((?:from lbnn[\w.]* import|import lbnn\b)[^(\n]*)$", re.M)
    lines = {line for page in PAGES for line in written.findall(page.read_text())}
    assert "from lbnn import nn as bnn" in lines
    assert fresh("\n".join(sorted(lines))) == ""


# Without scikit-learn


MISSING = "sys.modules['sklearn'] = None\n"


@pytest.mark.parametrize("use", ["lbnn.Regressor", "from lbnn import Classifier"])
def test_an_estimator_without_scikit_learn_says_in_one_line_what_to_install(use):
    script = f"{MISSING}try:\n    {use}\nexcept lbnn.LbnnError as error:\n    print(error)"
    name = use.split()[-1].removeprefix("lbnn.")
    assert fresh(script) == f"lbnn.{name} needs scikit-learn 1.6 or newer: pip install 'lbnn[sklearn]'\n"


def test_everything_else_does_without_it():
    assert fresh(f"{MISSING}from lbnn import *\nprint('Regressor' in dir(lbnn), fit.__name__)") == "False fit\n"
    assert fresh("lbnn.metrics, lbnn.plots, lbnn.fit, lbnn.save\nprint('sklearn' in sys.modules)") == "False\n"
