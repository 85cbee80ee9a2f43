"""`import lbnn`: quick, complete, and each name is what it says, whatever was imported before it."""

import subprocess
import sys

import pytest

import lbnn

FUNCTIONS = ("cat", "compile", "export", "fit", "from_torch", "load", "read_model", "save", "softmax_moments")
MODULES = ("class_metrics", "class_plots", "losses", "metrics", "montecarlo", "nn", "plots", "priors")


def fresh(script):
    done = subprocess.run([sys.executable, "-c", f"import sys, types, lbnn\n{script}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_waits_for_neither_torch_nor_numpy():
    assert fresh("print([name for name in ('torch', 'numpy', 'scipy', 'jinja2') if name in sys.modules])") == "[]\n"


def test_dir_lists_the_public_names():
    assert set(FUNCTIONS) | set(MODULES) | {"Classes", "LbnnError", "Moments", "__version__"} == set(lbnn.__all__)
    assert fresh("print(*dir(lbnn))").split() == sorted(lbnn.__all__)


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
