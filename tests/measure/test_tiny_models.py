"""The four networks of MLPerf Tiny are those that others measure: they take as many products."""

import pytest

from bench_models import MODELS, build
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.model.file import read_model
from tiny_models import TINY

# What the reference implementations take for one inference.
PRODUCTS = {"kws": 2_656_768, "ic": 12_501_632, "vww": 7_489_664, "ad": 264_192}


@pytest.mark.parametrize("name", TINY)
def test_a_network_takes_the_products_of_its_reference(name):
    _, shape, _ = TINY[name]
    assert footprint(lower(read_model(build(name, TINY), shape), COptions())).macs == PRODUCTS[name]


# Bytes of work memory in float32: depthwise and 1x1 layers write over their input (KWS, VWW), padding is part of its
# convolution (KWS, IC, VWW), sums of residual blocks lie in their other operand (IC), pools have bands (M2).
WORK = {"kws": 66, "ic": 264, "vww": 290, "ad": 6, "m1": 1, "m2": 10}


@pytest.mark.parametrize("name", WORK)
def test_work_memory_is_as_small_as_it_was(name):
    models = TINY if name in TINY else MODELS
    _, shape, _ = models[name]
    program = lower(read_model(build(name, models), shape), COptions())
    assert 4 * program.work_len <= 1024 * WORK[name]
