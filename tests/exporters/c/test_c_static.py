"""What the compiled objects hold: no writable data, no allocation, no double, no library but sqrtf, little stack."""

import json
import re

import pytest

import measure_avr
from c_models import MODELS, export, run
from lbnn.base import resources
from lbnn.device.cores import CORES
from lbnn.device.stack import STACK_FLAGS, stack_bound
from lbnn.exporters.c.avr_footprint import AVR_HALF_KERNELS, AVR_KERNELS, AVR_LIBRARY
from lbnn.exporters.c.footprint import KERNELS
from lbnn.exporters.c.half_footprint import HALF_KERNELS
from lbnn.exporters.c.int_footprint import INTEGER_KERNELS
from places import need

# Functions that compilers call on their own, wherever they like.
COMPILERS_OWN = {"memcpy", "memset", "memmove", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
# Arithmetic on float and int where a core has none; the routines for double are __aeabi_d* and __aeabi_f2d.
FLOAT_ONLY = re.compile(r"__aeabi_(f(add|sub|rsub|mul|div|cmp\w+|2iz|2uiz)|u?i2f|u?idiv\w*|uread4|uwrite4|mem\w+)")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("static")
    return {name: export(name, base / name, input_variance=True) for name in MODELS}


@pytest.fixture(scope="module")
def host_object(folders):
    need("gcc")
    folder = folders["zoo"]
    run("gcc", "-std=c99", "-O2", "-fno-math-errno", "-c", "zoo.c", "zoo_selftest.c", cwd=folder)
    return folder


def symbols(nm, path):
    """(kind, name) of every symbol."""
    return [tuple(line.split()[-2:]) for line in run(nm, path).splitlines()]


@pytest.mark.parametrize("object_name", ["zoo.o", "zoo_selftest.o"])
def test_an_object_holds_no_writable_data(host_object, object_name):
    assert not [name for kind, name in symbols(need("nm"), host_object / object_name) if kind in "DdBbC"]


def test_an_object_exports_predict_alone(host_object):
    assert {name for kind, name in symbols(need("nm"), host_object / "zoo.o") if kind.isupper() and kind != "U"} == {
        "zoo_predict"
    }


def test_an_object_needs_no_library_function_but_sqrtf(host_object):
    needed = {name for kind, name in symbols(need("nm"), host_object / "zoo.o") if kind == "U"}
    assert needed - COMPILERS_OWN <= {"sqrtf"}


@pytest.fixture(scope="module")
def device_objects(folders):
    """Every model for three cores at two levels, with call graphs."""
    gcc = need("arm-none-eabi-gcc")
    builds = {}
    for name, folder in folders.items():
        for core in ("cortex-m0", "cortex-m4", "cortex-m33"):
            for level in ("-O2", "-Os"):
                out = folder / f"{core}{level}"
                out.mkdir()
                flags = (*CORES[core].gcc, level, *STACK_FLAGS, "-std=c99", "-fno-math-errno")
                run(gcc, *flags, "-c", folder / f"{name}.c", "-o", f"{name}.o", cwd=out)
                builds[name, core, level] = out
    return builds


def test_devices_compute_in_float_alone(device_objects):
    nm = need("arm-none-eabi-nm")
    for (name, _, _), out in device_objects.items():
        needed = {symbol for kind, symbol in symbols(nm, out / f"{name}.o") if kind == "U"} - COMPILERS_OWN
        assert not [symbol for symbol in needed if symbol != "sqrtf" and not FLOAT_ONLY.fullmatch(symbol)]


def code_bytes(path, weight_bytes):
    """Constants and code of an object without the weights."""
    return int(run(need("arm-none-eabi-size"), path).splitlines()[1].split()[0]) - weight_bytes


def test_stack_and_code_stay_below_the_printed_bounds(device_objects, folders):
    for (name, core, level), out in device_objects.items():
        stated = json.loads((folders[name] / f"{name}_footprint.json").read_text())
        stack = stack_bound([out / f"{name}.ci"], f"{name}_predict").bytes
        code = code_bytes(out / f"{name}.o", stated["weight_bytes"])
        assert stack <= stated["stack_bytes"], (name, core, level)
        assert code <= stated["code_bytes"], (name, core, level)


def test_the_table_of_kernels_is_complete():
    """All but those that take a batch on a host, which no firmware holds."""
    headers = [path.name for path in resources.folder("c_runtime").glob("*.h") if not path.name.startswith("lbnn_tile")]
    names = [
        re.findall(r"^LBNN_(?:KERNEL|INNER) [\w *]*?(lbnn_\w+)\(", resources.header(h), re.MULTILINE) for h in headers
    ]
    assert {name for found in names for name in found} == {*KERNELS, *INTEGER_KERNELS}, (
        "run tools/bench/measure_kernels.py"
    )
    assert set(AVR_KERNELS) == set(KERNELS) and set(AVR_HALF_KERNELS) == set(HALF_KERNELS), (
        "run tools/bench/measure_avr.py"
    )


def test_the_table_of_kernels_on_avr_holds_for_the_compiler_that_is_here():
    need("avr-gcc")
    found, library = measure_avr.measure(("-O2",))
    assert set(found) == set(AVR_KERNELS) and library <= AVR_LIBRARY
    more = {name: code for name, code in found.items() if code > AVR_KERNELS[name]}
    assert not more, "run tools/bench/measure_avr.py"
