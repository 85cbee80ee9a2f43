"""The four networks of MLPerf Tiny are those that others measure: they take as many products."""

import pytest

from bench_models import MODELS, build
from lbnn.exporters.c import COptions, footprint, lower
from lbnn.model.file import read_model
from tiny_models import TINY
from uneven import uneven

# What the reference implementations take for one inference.
PRODUCTS = {"kws": 2_656_768, "ic": 12_501_632, "vww": 7_489_664, "ad": 264_192}


@pytest.mark.parametrize("name", TINY)
def test_a_network_takes_the_products_of_its_reference(name):
    _, shape, _ = TINY[name]
    assert footprint(lower(read_model(build(name, TINY), shape), COptions())).macs == PRODUCTS[name]


# KB of work memory in float32: depthwise and 1x1 layers write over their input (KWS, VWW), padding is part of its
# convolution (KWS, IC, VWW), sums of residual blocks lie in their other operand (IC), pools have bands (M2).
WORK = {"kws": 66, "ic": 264, "vww": 290, "ad": 6, "m1": 1, "m2": 10, "m3": 1.5, "m4": 25, "m5": 2.5}


def work_bytes(name, variance="full"):
    models = TINY if name in TINY else MODELS
    _, shape, _ = models[name]
    return 4 * lower(read_model(uneven(build(name, models), variance), shape), COptions()).work_len


@pytest.mark.parametrize("name", WORK)
def test_work_memory_is_as_small_as_it_was(name):
    assert work_bytes(name) <= 1024 * WORK[name]


@pytest.mark.parametrize("variance", ["rank1", "row"])
@pytest.mark.parametrize("name", WORK)
def test_variances_that_are_products_of_factors_need_no_more_of_it(name, variance):
    """Sums that outputs share are taken from scratch that the kernels of free variances have too."""
    assert work_bytes(name, variance) == work_bytes(name)


# KB in int8: convolutions write over their input there too, as far ahead as their windows reach.
IN_INTEGERS = {"kws": 52, "m2": 4.2, "m4": 10.6}


@pytest.mark.parametrize("name", IN_INTEGERS)
def test_integers_need_less_of_it_than_floats(name):
    models = TINY if name in TINY else MODELS
    _, shape, _ = models[name]
    program = lower(read_model(build(name, models), shape), COptions(dtype="int8"))
    assert 4 * program.work_len <= 1024 * IN_INTEGERS[name] < work_bytes(name)
