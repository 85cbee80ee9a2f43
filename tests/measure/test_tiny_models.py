"""The four networks of MLPerf Tiny are those that others measure: they take as many products."""

import pytest

from bench_models import build
from lbnn.measure.inspection import inspect_model
from lbnn.model.file import read_model
from tiny_models import TINY

# What the reference implementations take for one inference.
PRODUCTS = {"kws": 2_656_768, "ic": 12_501_632, "vww": 7_489_664, "ad": 264_192}


@pytest.mark.parametrize("name", TINY)
def test_a_network_takes_the_products_of_its_reference(name):
    _, shape, _ = TINY[name]
    found = inspect_model(read_model(build(name, TINY), shape))
    assert sum(layer.macs for layer in found.layers) == PRODUCTS[name]
