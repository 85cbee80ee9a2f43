"""Instruction budgets: the benchmark models on an emulated Cortex-M4F, compiled by arm-none-eabi-gcc.

`LBNN_UPDATE_GOLDEN=1 pytest tests/c_runtime/test_budget.py` records the counts anew. A model is counted over one input
and in one test, for processes of pytest-xdist share nothing.
"""

import json
import math
import os
from dataclasses import dataclass

import pytest
import torch

from bench_models import MODELS, TRAINED, build, digits_inputs
from c_models import generated
from lbnn.device.devices import run_model
from lbnn.exporters.c import COptions, lower
from lbnn.exporters.c.folder import write_program
from lbnn.measure.layers import layer_costs
from lbnn.measure.subject import NAME, ordinary_inputs
from lbnn.model.file import read_model
from places import TESTS, need, need_package
from tiny_models import TINY

GOLDEN = TESTS / "golden" / "instruction_budget.json"
TOLERATED = 1.02
DEVICE, FLAGS = "cortex-m4-gcc", ("-O2", "-std=gnu99", "-fno-math-errno")
KB = 1024
GROUPS = {name: group for group in (MODELS, TINY, TRAINED) for name in group}


@dataclass(frozen=True)
class Limits:
    """The most that a model may take; code is all but the weights, RAM the work buffer and the deepest stack."""

    instructions: float = math.inf
    code: float = math.inf
    work: float = math.inf
    ram: float = math.inf


LIMITS = {
    "m1": Limits(41_500, ram=1.6 * KB),
    "m2": Limits(650_000, code=4.6 * KB, ram=10.5 * KB),
    "m3": Limits(12_000),
    "kws": Limits(19_500_000, work=66 * KB),
    "ic": Limits(67_000_000, work=264 * KB),
    "vww": Limits(58_000_000, code=14 * KB, work=290 * KB),
    "ad": Limits(1_660_000),
}
SMALL = {"m1": Limits(60_000, 2 * KB), "m2": Limits(1_150_000, 2 * KB), "m3": Limits(13_000, 2 * KB)}
"""Of --optimize size: numbers of their own, no ratios, so that faster kernels of the other build do not move these."""


@dataclass(frozen=True)
class Measured:
    layers: dict[str, int]
    cycles: dict[str, int]  # estimated, with multiply-adds of 1 and of 3
    code: int
    work: int
    ram: int

    @property
    def instructions(self):
        return sum(self.layers.values())

    def assert_within(self, limits):
        assert self.instructions <= limits.instructions
        assert (self.code <= limits.code, self.work <= limits.work, self.ram <= limits.ram) == (True, True, True), self


def measured(module, shape, folder, optimize="speed", flags=FLAGS, inputs=None):
    """What a network takes for the first of its inputs."""
    need("arm-none-eabi-gcc")
    model, options = read_model(module, shape), COptions(name=NAME, optimize=optimize)
    program = lower(model, options)
    net = write_program(program, model, options, folder / "c")
    given = ordinary_inputs(model) if inputs is None else inputs
    result = run_model(DEVICE, net, given[:1].reshape(1, -1), flags=flags, profile=True)
    assert not result.status.any() and not result.stack_bound.unknown
    layers = {layer.layer: layer.instructions for layer in layer_costs(program, net.source, result)}
    code = result.sizes.flash - program.weight_bytes
    need_package("capstone")
    cycles = {"cycles, at least": result.cycles.low, "cycles, at most": result.cycles.high}
    return Measured(layers, cycles, code, result.work_bytes, result.work_bytes + result.stack_bound.bytes)


@pytest.mark.parametrize("name", GROUPS)
def test_a_benchmark_model_takes_no_more_than_recorded_and_than_its_limits(name, tmp_path):
    """The trained network by a digit, whose units far from the kink are cheap."""
    group = GROUPS[name]
    now = measured(build(name, group), group[name][1], tmp_path, inputs=digits_inputs() if name in TRAINED else None)
    recorded = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("LBNN_UPDATE_GOLDEN") == "1":
        recorded[name] = {"total": now.instructions, **now.cycles, **now.layers}
        GOLDEN.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
    now.assert_within(LIMITS.get(name, Limits()))
    before = recorded[name]
    grown = [f"{layer}: {before.get(layer, 0)} -> {n}" for layer, n in now.layers.items() if n > before.get(layer, 0)]
    assert now.instructions <= TOLERATED * before["total"], f"{name}: {'; '.join(grown)}"
    assert all(count <= TOLERATED * before[bound] for bound, count in now.cycles.items()), (before, now.cycles)


@pytest.mark.parametrize("seed", [100, 101])
@pytest.mark.parametrize("name", ["m1", "m2", "kws", "ad"])
def test_the_limits_hold_for_other_weights(name, seed, tmp_path):
    _, shape, make = GROUPS[name][name]
    torch.manual_seed(seed)
    measured(make().eval(), shape, tmp_path).assert_within(LIMITS[name])


@pytest.mark.parametrize("name", SMALL)
def test_optimized_for_size_code_is_two_kilobytes_and_no_slower_than_it_was(name, tmp_path):
    _, shape, _ = MODELS[name]
    measured(build(name), shape, tmp_path, "size", (*FLAGS, "-Os")).assert_within(SMALL[name])


@pytest.mark.parametrize("device", ["cortex-m0-gcc", "cortex-m3-gcc"])
def test_without_an_fpu_the_kernels_add_a_quarter_at_most_to_the_arithmetic(tmp_path, device):
    """Instructions outside of the compiler's float library, beside those inside."""
    need("arm-none-eabi-gcc")
    model = read_model(build("m1"), MODELS["m1"][1])
    net, inputs = generated(model, tmp_path / "c", name=NAME), ordinary_inputs(model)[:1]
    result = run_model(device, net, inputs, flags=FLAGS, profile=True)
    own = sum(n for name, n in result.functions.items() if name.startswith(("lbnn_", NAME)))
    assert own <= 0.25 * (sum(result.functions.values()) - own)
