"""What a prediction of a small CNN in integers costs: instructions on emulated cores, bytes of code and memory.

M2 with int8 weights, compiled by arm-none-eabi-gcc as the float models of test_budget.py are.
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
SAMPLES = 2
M0, M3, M4 = "cortex-m0-gcc", "cortex-m3-gcc", "cortex-m4-gcc"


@dataclass(frozen=True)
class Cost:
    instructions: float
    code: int
    stored: int
    work: int


@pytest.fixture(scope="module")
def cost(tmp_path_factory):
    """Of the CNN with variances of a form on a core."""
    need("arm-none-eabi-gcc")

    @cache
    def measured(form, device):
        model = with_variances(read_model(build("m2"), MODELS["m2"][1]), form, 0)
        options = COptions(name=NAME, dtype="int8")
        program = lower(model, options)
        net = write_program(program, model, options, tmp_path_factory.mktemp(form) / "c")
        result = run_model(device, net, ordinary_inputs(model)[:SAMPLES].reshape(SAMPLES, -1), flags=FLAGS)
        assert not result.status.any()
        stored = program.weight_bytes + ROOT_BYTES
        return Cost(result.instructions.mean(), result.sizes.flash - stored, stored, 4 * program.work_len)

    return measured


@pytest.mark.parametrize(
    ("form", "device", "most"),
    [
        ("rank1", M0, 2_086_000),
        ("rank1", M3, 1_249_000),
        ("rank1", M4, 1_090_000),
        ("full", M0, 2_900_000),
        ("full", M3, 1_792_000),
        ("full", M4, 1_564_000),
    ],
)
def test_mean_and_variance_take_no_more_instructions_than(cost, form, device, most):
    assert 0.97 * most <= cost(form, device).instructions <= most


@pytest.mark.parametrize(
    ("form", "device", "most"),
    [
        *(("rank1", M0, 5_700), ("rank1", M3, 5_040), ("rank1", M4, 4_960)),
        *(("full", M0, 5_820), ("full", M3, 5_410), ("full", M4, 5_320)),
    ],
)
def test_code_takes_no_more_bytes_than(cost, form, device, most):
    assert 0.97 * most <= cost(form, device).code <= most


@pytest.mark.parametrize(("form", "stored", "work"), [("rank1", 5600, 3144), ("full", 9200, 4224)])
def test_weights_tables_and_memory_are_small(cost, form, stored, work):
    found = cost(form, M3)
    assert found.stored <= stored
    assert found.work == work
