"""Instruction budgets: the benchmark models on an emulated Cortex-M4F, compiled by arm-none-eabi-gcc.

`LBNN_UPDATE_GOLDEN=1 pytest tests/c_runtime/test_budget.py` records the counts anew.
"""

import json
import os
from dataclasses import dataclass
from functools import cache

import pytest

from bench_models import MODELS, build
from c_models import generated
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.inspection import inspect_model
from lbnn.measure.layers import layer_costs
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.model.file import read_model
from places import TESTS, need

GOLDEN = TESTS / "golden" / "instruction_budget.json"
TOLERATED = 1.02
DEVICE, FLAGS = "cortex-m4-gcc", ("-O2", "-std=gnu99", "-fno-math-errno")
KB = 1024


@dataclass(frozen=True)
class Measured:
    layers: dict[str, int]
    code: int
    ram: int

    @property
    def instructions(self):
        return sum(self.layers.values())


@pytest.fixture(scope="module")
def measure(tmp_path_factory):
    """What a benchmark model takes; RAM is the work buffer and the deepest stack."""
    need("arm-none-eabi-gcc")

    @cache
    def measured(name, optimize="speed", flags=FLAGS):
        model = read_model(build(name), MODELS[name][1])
        options = COptions(name=NAME, optimize=optimize)
        program = lower(model, options)
        net = write_program(program, model, options, tmp_path_factory.mktemp(name) / "c")
        inputs = ordinary_inputs(model)[:1].reshape(1, -1)
        result = run_model(DEVICE, net, inputs, flags=flags, profile=True)
        assert not result.status.any() and not result.stack_bound.unknown
        layers = layer_costs(program, net.source, result)
        code = result.sizes.flash - 8 * inspect_model(model).parameters
        ram = result.work_bytes + result.stack_bound.bytes
        return Measured({layer.layer: layer.instructions for layer in layers}, code, ram)

    return measured


@pytest.mark.parametrize("name", MODELS)
def test_no_model_takes_more_instructions_than_recorded(measure, name):
    now = measure(name)
    recorded = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("LBNN_UPDATE_GOLDEN") == "1":
        recorded[name] = {"total": now.instructions, **now.layers}
        GOLDEN.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
        return
    before = recorded[name]
    grown = [f"{layer}: {before.get(layer, 0)} -> {n}" for layer, n in now.layers.items() if n > before.get(layer, 0)]
    assert now.instructions <= TOLERATED * before["total"], f"{name}: {'; '.join(grown)}"


@pytest.mark.parametrize(("name", "most"), [("m1", 45_000), ("m2", 750_000), ("m3", 12_000)])
def test_mean_and_variance_for_the_price_of_a_plain_network(measure, name, most):
    assert measure(name).instructions <= most


@pytest.mark.parametrize(("name", "most"), [("m1", 1.6 * KB), ("m2", 20 * KB)])
def test_ram_with_the_stack(measure, name, most):
    assert measure(name).ram <= most


def test_flash_is_eight_bytes_a_weight_and_four_kilobytes(measure):
    assert measure("m2").code <= 4 * KB


@pytest.mark.parametrize("name", ["m1", "m2", "m3"])
def test_optimized_for_size_code_is_two_kilobytes_and_not_much_slower(measure, name):
    small = measure(name, "size", (*FLAGS, "-Os"))
    assert small.code <= 2 * KB
    assert small.instructions <= 1.6 * measure(name).instructions


@pytest.mark.parametrize("device", ["cortex-m0-gcc", "cortex-m3-gcc"])
def test_without_an_fpu_the_kernels_add_a_quarter_at_most_to_the_arithmetic(tmp_path, device):
    """Instructions outside of the compiler's float library, beside those inside."""
    need("arm-none-eabi-gcc")
    model = read_model(build("m1"), MODELS["m1"][1])
    net, inputs = generated(model, tmp_path / "c", name=NAME), ordinary_inputs(model)[:1]
    result = run_model(device, net, inputs, flags=FLAGS, profile=True)
    own = sum(n for name, n in result.functions.items() if name.startswith(("lbnn_", NAME)))
    assert own <= 0.25 * (sum(result.functions.values()) - own)
