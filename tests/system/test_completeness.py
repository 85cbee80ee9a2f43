"""Whatever an operator, a layer, an arithmetic or a target lacks somewhere is named here."""

import re
import subprocess
import sys

import pytest

from layer_choices import LAYERS as RANDOM_LAYERS
from layer_table import is_folded
from lbnn import nn
from lbnn.base import resources
from lbnn.exporters.c.calls import ROWS
from lbnn.exporters.c.dtype import find_dtype
from lbnn.exporters.c.footprint import CHECKS, KERNELS
from lbnn.exporters.c.heads import HEAD_HEADER, HEAD_KERNELS, head_kernels
from lbnn.exporters.c.int_footprint import INTEGER_CHECKS, INTEGER_KERNELS
from lbnn.exporters.c.streams import STREAM_HEADER, STREAM_KERNELS
from lbnn.exporters.options import DTYPES
from lbnn.graph.ints.study import OPERATORS
from lbnn.graph.reference import NUMPY
from lbnn.model.network import LAYERS
from lbnn.ops import OPS, Namespace
from lbnn.ops.heads import HEADS as GRAPH_HEADS
from lbnn.ops.torch import TORCH
from lbnn.train.descent import HEAD_LOSSES
from mutants import read_faults
from places import ROOT, TESTS

GENERAL = {name: op for name, op in OPS.items() if op.general == name}
EXPORTED = {name for name, op in GENERAL.items() if not is_folded(op)}
REGISTERING = [path for path in (ROOT / "lbnn/ops").glob("*.py") if re.search(r"^register", path.read_text(), re.M)]
RUNTIME = ROOT / "c_runtime"
HEADS = {kernel for head in HEAD_KERNELS for kernel in head_kernels(head)}
MOVING = {"flatten", "pad", "upsample", "concat", "lift", "constant"}


def names(found: set[str]) -> str:
    return ", ".join(sorted(found))


def test_every_file_of_ops_that_registers_an_operator_is_imported():
    lacking = {path.stem for path in REGISTERING if f"lbnn.ops.{path.stem}" not in sys.modules}
    assert not lacking, f"lbnn/ops/__init__.py does not import {names(lacking)}"


def test_every_operator_has_samples_that_give_all_its_attributes():
    lacking = {name for name, op in OPS.items() for sample in op.samples if set(op.attributes) - set(sample.attrs)}
    assert not lacking, f"no sample of {names(lacking)} gives all of its attributes"


def test_every_form_that_an_operator_names_exists_and_is_its_own():
    for name, op in OPS.items():
        assert op.point_form is None or OPS[op.point_form].point_inputs, name
        assert op.mixed_form is None or OPS[op.mixed_form].form_of == name, name
        assert op.general in OPS, name


def test_every_operator_states_its_least_arithmetic_beyond_moving_elements():
    free = {name for name in GENERAL if OPS[name].arithmetic.__name__ == "none"} - MOVING
    assert not free, f"{names(free)} computes, and says with arithmetic=... what that costs"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_operator_has_a_row_of_c_facts(dtype):
    rows, structured = set(find_dtype(dtype).rows), {f"{name}_rank1" for name in OPS if OPS[name].factored}
    lacking, idle = EXPORTED - rows, rows - EXPORTED - structured
    if find_dtype(dtype).is_integer:  # what has no row is refused by name: tests/graph/ints
        lacking = set(OPERATORS) - rows
    assert not lacking, f"{names(lacking)} has no row in ROWS of lbnn/exporters/c/calls.py, or in those of {dtype}"
    assert not idle, f"{names(idle)} has a row in the C facts of {dtype} and is no operator"


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_kernel_of_a_row_is_in_its_header_and_measured_and_described(name):
    row, described = ROWS[name], (RUNTIME / "README.md").read_text()
    header = (RUNTIME / row.header).read_text()
    included = [(RUNTIME / other).read_text() for other in re.findall(r'#include "(lbnn_\w+\.h)"', header)]
    for kernel in row.kernels:
        defined = re.search(rf"^LBNN_KERNEL .*\b{kernel}\(", "\n".join([header, *included]), re.M)
        assert defined is not None, f"{kernel} is not in c_runtime/{row.header}"
        assert kernel in KERNELS, f"{kernel} is not in KERNELS of lbnn/exporters/c/footprint.py"
    assert not row.kernels or f"`{name}`" in described, f"{name} is not in the table of c_runtime/README.md"


@pytest.mark.parametrize("dtype", [name for name in DTYPES if find_dtype(name).is_integer])
def test_every_integer_kernel_is_in_its_header_and_measured_and_described(dtype):
    described = (RUNTIME / "README.md").read_text()
    for name, row in find_dtype(dtype).rows.items():
        headers = resources.with_dependencies([row.header, "lbnn_int_more.h"])
        text = "\n".join((RUNTIME / header).read_text() for header in headers)
        for kernel in (*row.kernels, *INTEGER_CHECKS):
            assert re.search(rf"^LBNN_(?:KERNEL|INNER) .*\b{kernel}\(", text, re.M), (
                f"{kernel} of {name} is in no header"
            )
            assert kernel in INTEGER_KERNELS, f"{kernel} is not in lbnn/exporters/c/int_footprint.py"
            assert f"`{kernel}(" in described, f"{kernel} is not in the table of c_runtime/README.md"


def test_every_head_has_a_kernel_that_is_in_its_header_and_measured_and_described():
    header, described = (RUNTIME / HEAD_HEADER).read_text(), (RUNTIME / "README.md").read_text()
    assert set(HEAD_KERNELS) == set(GRAPH_HEADS) == set(HEAD_LOSSES) - {None}
    for kernel in HEADS:
        assert re.search(rf"^LBNN_KERNEL .*\b{kernel}\(", header, re.M), f"{kernel} is not in c_runtime/{HEAD_HEADER}"
        assert kernel in KERNELS, f"{kernel} is not in KERNELS of lbnn/exporters/c/footprint.py"
        assert f"`{kernel}(" in described, f"{kernel} is not in the table of c_runtime/README.md"


def test_every_kernel_of_streams_is_in_its_header_and_measured_and_described():
    header, described = (RUNTIME / STREAM_HEADER).read_text(), (RUNTIME / "README.md").read_text()
    assert set(STREAM_KERNELS) == set(re.findall(r"^LBNN_KERNEL .*?\b(lbnn_\w+)\(", header, re.M))
    for kernel in STREAM_KERNELS:
        assert kernel in KERNELS, f"{kernel} is not in KERNELS of lbnn/exporters/c/footprint.py"
        assert f"`{kernel}(" in described, f"{kernel} is not in the table of c_runtime/README.md"


def test_every_measured_kernel_is_called_by_something():
    called = {kernel for row in (*ROWS.values(), find_dtype("float32").small_sums) for kernel in row.kernels}
    idle = set(KERNELS) - called - HEADS - {*CHECKS, *STREAM_KERNELS, "lbnn_status_message"}
    assert not idle, f"{names(idle)} is in KERNELS of lbnn/exporters/c/footprint.py and in no row of calls.py"


HARNESSES = {
    "tests/fuzz/kernels.c": '{{"{}", fuzz_',
    "tests/proof/*.c": "void prove_{}(void)",
    "tests/c_runtime/test_strict.py": '    "{}": ',
}


@pytest.mark.parametrize("place", HARNESSES)
def test_every_kernel_is_fuzzed_and_proved_and_called_on_every_core(place):
    text = "\n".join(path.read_text() for path in ROOT.glob(place))
    kernels = {kernel for row in ROWS.values() for kernel in row.kernels} | HEADS | set(STREAM_KERNELS)
    lacking = {kernel for kernel in kernels if HARNESSES[place].format(kernel) not in text}
    assert not lacking, f"{place} has nothing for {names(lacking)}"


def test_the_fuzzer_has_first_inputs_for_every_kernel():
    kernels = {kernel for row in ROWS.values() for kernel in row.kernels} | HEADS | set(STREAM_KERNELS)
    lacking = {kernel for kernel in kernels if not list((TESTS / "fuzz/corpus" / kernel).glob("*"))}
    assert not lacking, f"tests/fuzz/corpus has no folder with inputs for {names(lacking)}"


def test_the_kernel_of_every_operator_is_held_to_the_mathematics():
    text = (TESTS / "c_runtime/test_kernels.py").read_text()
    first = {row.kernels[0] for row in ROWS.values() if row.kernels}
    lacking = {kernel for kernel in first | HEADS if f'"{kernel}"' not in text}
    assert not lacking, f"tests/c_runtime/test_kernels.py does not call {names(lacking)}"


def test_every_file_of_operators_has_faults_that_tests_must_find():
    faulty = {fault.file for fault in read_faults()}
    lacking = {f"lbnn/ops/{path.name}" for path in REGISTERING} - faulty
    assert not lacking, f"no fault in tools/check/faults for {names(lacking)}"


def test_random_networks_draw_every_layer():
    lacking = {layer for layer in nn.__all__ if hasattr(getattr(nn, layer), "op")} - {
        *RANDOM_LAYERS,
        "Add",
        "Concat",
        "Multiply",
    }
    assert not lacking, f"LAYERS of tests/support/layer_choices.py has no {names(lacking)}"


def test_every_general_operator_of_a_file_becomes_a_layer():
    lacking = set(GENERAL) - set(LAYERS)
    assert not lacking, f"no class in lbnn/nn says that its op is {names(lacking)}"


def test_every_backend_has_the_functions_that_formulas_use():
    from lbnn.exporters.onnx.namespace import OnnxNamespace

    wanted = {name for name in vars(Namespace) if not name.startswith("_")}
    for namespace in (NUMPY, TORCH, OnnxNamespace):
        lacking = {name for name in wanted if not hasattr(namespace, name)}
        assert not lacking, f"{namespace} has no {names(lacking)}"


def test_every_arithmetic_has_its_module():
    modules = {path.stem for path in (ROOT / "lbnn/exporters/c/dtypes").glob("*.py")} - {"__init__"}
    nameless, empty = modules - set(DTYPES), set(DTYPES) - modules
    assert not nameless, f"{names(nameless)} is not in DTYPES of lbnn/exporters/options.py"
    assert not empty, f"{names(empty)} has no module in lbnn/exporters/c/dtypes"
    assert [name for name in DTYPES if find_dtype(name).name != name] == [], "named unlike its module"


def test_the_table_of_layers_is_up_to_date():
    script = "tools/tables/layer_table.py"
    done = subprocess.run([sys.executable, script, "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, f"docs/layers.md is out of date: python {script}"


def importers(package: str) -> set[str]:
    return {
        str(path.relative_to(ROOT / "lbnn"))
        for path in (ROOT / "lbnn").rglob("*.py")
        for line in path.read_text().splitlines()
        if re.match(rf"\s*(import|from) {package}\b", line)
    }


@pytest.mark.parametrize(("package", "homes"), [("onnx", ("exporters/onnx",)), ("jinja2", ("base/templates.py",))])
def test_onnx_stays_in_its_exporter_and_jinja_where_templates_are_filled(package, homes):
    assert all(name.startswith(homes) for name in importers(package)), importers(package)
