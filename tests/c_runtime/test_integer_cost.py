"""What a prediction in integers costs: instructions on emulated cores, bytes of code, weights and tables.

The MLP 16-64-64-1 with int8 weights, compiled by arm-none-eabi-gcc as the float models of test_budget.py are. Code is
what is linked for NAME_predict with -ffunction-sections and --gc-sections, structs of layers included, without weights
and tables.
"""

from dataclasses import dataclass
from functools import cache

import pytest

from bench_models import MODELS, build
from int_models import with_variances
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.exporters.c.int_footprint import ROOT_BYTES
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.model.file import read_model
from places import need

FLAGS = ("-O2", "-std=gnu99", "-fno-math-errno")
SAMPLES = 5
M0, M3, M4, M55 = "cortex-m0-gcc", "cortex-m3-gcc", "cortex-m4-gcc", "mps3-an547"
WEIGHTS, ROWS, INPUTS = 16 * 64 + 64 * 64 + 64, 64 + 64 + 1, 16 + 64 + 64
KB = 1024


@dataclass(frozen=True)
class Cost:
    instructions: float
    code: int
    weights: int
    tables: int


@pytest.fixture(scope="module")
def cost(tmp_path_factory):
    """Of the MLP with variances of a form on a core."""
    need("arm-none-eabi-gcc")

    @cache
    def measured(form, device):
        if device == M55:
            need("qemu-system-arm")
        model = with_variances(read_model(build("m1"), MODELS["m1"][1]), form, 0)
        options = COptions(name=NAME, dtype="int8")
        program = lower(model, options)
        net = write_program(program, model, options, tmp_path_factory.mktemp(form) / "c")
        result = run_model(device, net, ordinary_inputs(model)[:SAMPLES].reshape(SAMPLES, -1), flags=FLAGS)
        assert not result.status.any()
        tables = sum(array.values.nbytes for array in program.weights if array.name.endswith("_tail"))
        weights = sum(array.values.nbytes for array in program.weights) - tables
        code = result.sizes.flash - weights - tables - ROOT_BYTES
        return Cost(result.instructions.mean(), code, weights, tables + ROOT_BYTES)

    return measured


@pytest.mark.parametrize(
    ("form", "device", "most"),
    [
        ("rank1", M0, 105_000),
        ("rank1", M3, 53_300),
        ("rank1", M4, 44_600),
        ("rank1", M55, 26_800),
        ("full", M0, 175_000),
        ("full", M3, 89_200),
        ("full", M4, 76_000),
        ("full", M55, 40_600),
    ],
)
def test_mean_and_variance_take_no_more_instructions_than(cost, form, device, most):
    assert cost(form, device).instructions <= most


@pytest.mark.parametrize(
    ("form", "device", "most"),
    [
        ("rank1", M0, 2_330),
        ("rank1", M3, 2_260),
        ("rank1", M4, 2_220),
        ("rank1", M55, 2_200),
        ("full", M0, 2.5 * KB),
        ("full", M3, 2.5 * KB),
        ("full", M4, 2.5 * KB),
        ("full", M55, 2_560),
    ],
)
def test_code_takes_no_more_bytes_than(cost, form, device, most):
    assert cost(form, device).code <= most


@pytest.mark.parametrize(("form", "each"), [("rank1", 1), ("row", 1), ("full", 2)])
def test_weights_take_a_byte_or_two_each_with_14_a_row_and_2_an_input(cost, form, each):
    found = cost(form, M3)
    assert found.weights <= each * WEIGHTS + 14 * ROWS + 2 * INPUTS
    assert found.tables <= 0.8 * KB
