"""Whatever an operator, a layer, an arithmetic or a target lacks somewhere is named here."""

import re
import subprocess
import sys

import pytest

from layer_table import is_folded
from lbnn.exporters.c.calls import ROWS
from lbnn.exporters.c.dtype import find_dtype
from lbnn.exporters.c.footprint import CHECKS, KERNELS
from lbnn.exporters.options import DTYPES
from lbnn.graph.reference import NUMPY
from lbnn.model.network import LAYERS
from lbnn.ops import OPS, Namespace
from lbnn.ops.torch import TORCH
from places import ROOT, TESTS

GENERAL = {name: op for name, op in OPS.items() if op.general == name}
EXPORTED = {name for name, op in GENERAL.items() if not is_folded(op)}
RUNTIME = ROOT / "c_runtime"


def test_every_file_of_ops_that_registers_an_operator_is_imported():
    registering = {
        path.stem for path in (ROOT / "lbnn/ops").glob("*.py") if re.search(r"^register", path.read_text(), re.M)
    }
    assert {name for name in registering if f"lbnn.ops.{name}" not in sys.modules} == set(), "import it in ops/__init__"


def test_every_operator_has_samples_that_give_all_its_attributes():
    lacking = {name for name, op in OPS.items() for sample in op.samples if set(op.attributes) - set(sample.attrs)}
    assert lacking == set()


def test_every_form_that_an_operator_names_exists_and_is_its_own():
    for name, op in OPS.items():
        assert op.point_form is None or OPS[op.point_form].point_inputs, name
        assert op.mixed_form is None or OPS[op.mixed_form].form_of == name, name
        assert op.general in OPS, name


def test_every_operator_states_its_least_arithmetic_beyond_moving_elements():
    free = {name for name in GENERAL if OPS[name].arithmetic.__name__ == "none"}
    assert free == {"flatten", "pad", "concat", "lift", "constant"}, "an operator that computes says what that costs"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_operator_has_a_row_of_c_facts(dtype):
    rows = find_dtype(dtype).rows
    assert EXPORTED - set(rows) == set(), "no row in lbnn/exporters/c/calls.py"
    assert set(rows) - EXPORTED == set(), "a row for no operator"


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_kernel_of_a_row_is_in_its_header_and_measured_and_described(name):
    row, described = ROWS[name], (RUNTIME / "README.md").read_text()
    header = (RUNTIME / row.header).read_text()
    included = [(RUNTIME / other).read_text() for other in re.findall(r'#include "(lbnn_\w+\.h)"', header)]
    for kernel in row.kernels:
        assert re.search(rf"\b{kernel}\(", "\n".join([header, *included])), f"{kernel} is not in {row.header}"
        assert kernel in KERNELS, f"{kernel} is not in the table of lbnn/exporters/c/footprint.py"
    assert f"`{name}`" in described or not row.kernels, f"{name} is not in the table of c_runtime/README.md"


def test_every_measured_kernel_is_called_by_something():
    called = {kernel for row in (*ROWS.values(), find_dtype("float32").small_sums) for kernel in row.kernels}
    assert set(KERNELS) - called - {*CHECKS, "lbnn_status_message"} == set()


@pytest.mark.parametrize("harness", ["fuzz/kernels.c", "proof"])
def test_every_kernel_is_fuzzed_and_proved(harness):
    path = TESTS / harness
    text = "\n".join(file.read_text() for file in (path.glob("*.c") if path.is_dir() else [path]))
    kernels = {kernel for row in ROWS.values() for kernel in row.kernels}
    assert {kernel for kernel in kernels if kernel not in text} == set()


def test_every_general_operator_of_a_file_becomes_a_layer():
    assert set(GENERAL) - set(LAYERS) == set(), "no layer class says that it is this operator"


def test_every_backend_has_the_functions_that_formulas_use():
    from lbnn.exporters.onnx.namespace import OnnxNamespace

    wanted = {name for name in vars(Namespace) if not name.startswith("_")}
    for namespace in (NUMPY, TORCH, OnnxNamespace):
        assert {name for name in wanted if not hasattr(namespace, name)} == set(), namespace


def test_every_arithmetic_has_its_module():
    modules = {path.stem for path in (ROOT / "lbnn/exporters/c/dtypes").glob("*.py")} - {"__init__"}
    assert modules == set(DTYPES)
    assert [name for name in DTYPES if find_dtype(name).name != name] == []


def test_the_table_of_layers_is_up_to_date():
    script = ROOT / "tools" / "tables" / "layer_table.py"
    assert subprocess.run([sys.executable, script, "--check"]).returncode == 0, f"run python {script}"


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
