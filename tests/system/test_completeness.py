"""Whatever an operator or a layer lacks somewhere is named here."""

import subprocess
import sys

from lbnn.exporters.c.calls import EMITTERS
from lbnn.model.network import LAYERS
from lbnn.ops import OPS
from places import ROOT

FOLDED = {"batch_norm", "batch_norm_point"}  # an affine map before any backend sees it
STRUCTURAL = {"add_point", "shift"}  # forms that the graph builder picks for `add`


def test_every_operator_has_a_c_kernel():
    assert set(OPS) - set(EMITTERS) == FOLDED


def test_every_operator_stands_in_the_runtimes_table():
    table = (ROOT / "c_runtime" / "README.md").read_text()
    assert [name for name in set(OPS) - FOLDED - {"constant"} if f"`{name}`" not in table] == []


def test_every_general_operator_of_a_file_becomes_a_layer():
    general = {name for name, op in OPS.items() if not op.point_inputs or name in ("constant", "lift")}
    assert general - STRUCTURAL - set(LAYERS) == set()


def test_the_table_of_layers_is_up_to_date():
    script = ROOT / "tools" / "layer_table.py"
    assert subprocess.run([sys.executable, script, "--check"]).returncode == 0, f"run python {script}"


def test_onnx_stays_in_its_exporter_and_jinja_in_the_one_place_that_fills_templates():
    for package, homes in (("onnx", ("exporters/onnx/",)), ("jinja2", ("base/templates.py",))):
        importers = {
            str(path.relative_to(ROOT / "lbnn"))
            for path in (ROOT / "lbnn").rglob("*.py")
            for line in path.read_text().splitlines()
            if line.strip().startswith((f"import {package}", f"from {package} ", f"from {package}."))
            and "onnxruntime" not in line
        }
        assert importers and all(name.startswith(homes) for name in importers), importers
