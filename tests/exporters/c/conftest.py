"""Generated folders that the tests of this exporter share."""

import re

import pytest

from c_models import MODELS, STRICT, Library, export, run
from places import need


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Every model as C, once with and once without input variance."""
    base = tmp_path_factory.mktemp("c")
    names = [(name, variance) for name in MODELS for variance in (False, True)]
    return {(n, v): export(n, base / f"{n}_{int(v)}", input_variance=v) for n, v in names}


@pytest.fixture(scope="session")
def library(folders):
    """The sensor's model in a shared library, with input variance."""
    need("gcc")
    folder = folders["gas_sensor", True]
    run("gcc", *STRICT, "-O1", "-shared", "-fPIC", "gas_sensor.c", "-o", "model.so", "-lm", cwd=folder)
    macros = dict(re.findall(r"#define GAS_SENSOR_(\w+)_LEN (\d+)", (folder / "gas_sensor.h").read_text()))
    return Library(folder / "model.so", "gas_sensor", *(int(macros[key]) for key in ("INPUT", "OUTPUT", "WORK")))
