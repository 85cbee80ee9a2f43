"""Helium on an emulated Cortex-M55: never more instructions than scalar code, and the numbers of the reference."""

import numpy as np
import pytest
import torch

from bench_models import MODELS, TRAINED, build
from c_models import generated
from lbnn import nn as bnn
from lbnn.device.devices import run_model
from lbnn.graph.reference import predict
from lbnn.measure.subject import ordinary_inputs
from lbnn.model.file import read_model
from places import need
from thorough import chosen
from tiny_models import TINY

DEVICE, FUSED, SCALAR = "mps3-an547", ("-std=gnu99",), ("-std=gnu99", "-mcpu=cortex-m55+nomve")
BARS = {"m1": 28_000, "m2": 500_000, "kws": 16_000_000}
BENCHMARKS = {name: group for group in (MODELS, TINY, TRAINED) for name in group}


def run_on_m55(net, inputs, flags):
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        need(tool)
    return run_model(DEVICE, net, inputs, flags=flags)


@pytest.mark.parametrize("name", chosen(BENCHMARKS, "m1", "m2", "m3", "m4", "kws", "digits"))
def test_no_benchmark_model_takes_more_instructions_than_scalar_code(name, tmp_path):
    group = BENCHMARKS[name]
    model = read_model(build(name, group), group[name][1])
    net, inputs = generated(model, tmp_path / "c", name="net"), ordinary_inputs(model)[:1].reshape(1, -1)
    helium, scalar = (run_on_m55(net, inputs, flags) for flags in (FUSED, SCALAR))
    assert helium.instructions <= min(scalar.instructions, BARS.get(name, scalar.instructions))
    np.testing.assert_allclose(helium.variance, scalar.variance, rtol=1e-5)
    assert np.all(np.abs(helium.mean - scalar.mean) <= 1e-5 * np.sqrt(scalar.variance))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("name", ["m1", "m2", "m3", "m4"])
def test_no_benchmark_model_in_integers_takes_more_instructions_than_scalar_code(name, dtype, tmp_path):
    model = read_model(build(name), MODELS[name][1])
    net, inputs = generated(model, tmp_path / "c", name="net", dtype=dtype), ordinary_inputs(model)[:1].reshape(1, -1)
    helium, scalar = (run_on_m55(net, inputs, flags) for flags in (FUSED, SCALAR))
    assert helium.instructions <= scalar.instructions
    assert np.array_equal(helium.mean, scalar.mean) and np.array_equal(helium.variance, scalar.variance)


def conv(*arguments, **keywords):
    return [bnn.Conv2d(*arguments, **keywords), bnn.LeakyReLU(0.1)]


SHAPES = {
    "strides and dilations": ((2, 9, 11), [*conv(2, 7, 3, stride=2, padding=1), *conv(7, 5, 3, dilation=2, padding=2)]),
    "long sums": (
        (3, 7, 5),
        [*conv(3, 20, 3, padding=1), *conv(20, 6, 3, padding=1), *conv(6, 90, 1), *conv(90, 4, 1)],
    ),
    "groups": ((6, 5, 7), [*conv(6, 9, (3, 1), groups=3), *conv(9, 9, 5, padding=2, groups=9)]),
    "depthwise": ((5, 6, 9), [*conv(5, 5, 3, padding=1, groups=5), *conv(5, 5, 3, stride=2, padding=1, groups=5)]),
    "narrow": ((3, 3, 3), [*conv(3, 8, 3, padding=1), *conv(8, 8, 3, padding=1, groups=8), *conv(8, 3, 1)]),
    "large windows": ((1, 11, 10), [*conv(1, 3, 9, padding=4), *conv(3, 2, (2, 10))]),
    "one tap, strides": ((4, 7, 7), [*conv(4, 9, 1, stride=2), *conv(9, 12, 1, stride=(1, 2))]),
    "factors": ((2, 6, 6), [*conv(2, 6, 3, padding=1, variance="rank1"), *conv(6, 5, 1, variance="rank1")]),
    "factors, long sums": ((2, 5, 5), [*conv(2, 150, 1, variance="rank1"), *conv(150, 3, 1, variance="rank1")]),
    "factors, strides": (
        (4, 7, 7),
        [*conv(4, 9, 1, stride=2, variance="rank1"), *conv(9, 3, (2, 3), stride=(2, 1), padding=1, variance="rank1")],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_convolutions_of_every_form_keep_the_numbers_of_the_reference(name, tmp_path):
    torch.manual_seed(0)
    shape, layers = SHAPES[name]
    model = read_model(bnn.Sequential(*layers, bnn.Flatten()), shape)
    inputs = ordinary_inputs(model)[:2]
    found = run_on_m55(generated(model, tmp_path / "c", name="net"), inputs.reshape(2, -1), FUSED)
    want = predict(model.graph, inputs)
    sd = np.sqrt(want.var)
    assert np.all(np.abs(found.mean - want.mean) <= 1e-5 * (np.abs(want.mean) + sd))
    np.testing.assert_allclose(found.variance, want.var, rtol=1e-5)
