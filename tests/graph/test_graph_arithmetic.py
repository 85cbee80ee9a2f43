"""The fewest instructions that a layer's arithmetic needs."""

from math import prod

import pytest

from costs import products
from lbnn import nn as bnn
from lbnn import ops
from lbnn.graph import arithmetic
from lbnn.graph.passes import prepare
from lbnn.model.file import read_model
from lbnn.ops.table import Use

PRODUCTS = [
    (bnn.Linear(5, 3), (5,), 15),
    (bnn.Conv2d(1, 1, 3), (1, 3, 3), 9),
    (bnn.Conv2d(1, 1, 3, padding=1), (1, 3, 3), 49),  # 2 + 3 + 2 taps of each axis are inside
    (bnn.Conv2d(2, 4, 1), (2, 5, 5), 200),
    (bnn.Conv2d(4, 4, 3, padding=1, groups=4), (4, 3, 3), 196),
    (bnn.Conv1d(1, 2, 3, stride=2), (1, 7), 18),
    (bnn.ConvTranspose1d(2, 3, 4, stride=2), (2, 5), 2 * 3 * 20),
    (bnn.ConvTranspose1d(1, 1, 4, stride=2, padding=1), (1, 5), 18),  # the first tap and the last are cut off
    (bnn.ConvTranspose2d(4, 4, 2, stride=3, groups=2), (4, 2, 3), 4 * 2 * 24),
]


@pytest.mark.parametrize(("layer", "shape", "count"), PRODUCTS)
def test_products_with_padding_do_not_count(layer, shape, count):
    graph = prepare(read_model(layer, shape).graph, input_variance=False)
    assert products(graph.nodes[0], graph) == count


def test_the_least_for_a_linear_layer_is_six_instructions_a_weight():
    """Two loads, a square and three multiply-adds; 2 loads and S for each input, 2 loads and 2 stores for an output."""
    graph = prepare(read_model(bnn.Linear(100, 10), (100,)).graph, input_variance=True)
    assert arithmetic.minimum(graph.nodes[0], graph) == 6 * 1000 + 3 * 100 + 4 * 10


POINTWISE = {
    "add": 2,  # a sum of means and one of variances
    "shift": 1,
    "add_point": 1,
    "affine": 2,  # a multiply-add of the mean, a product of the variance
    "affine_point": 1,
    "flatten": 0,
    "flatten_point": 0,
    "pad": 0,
    "concat": 0,
    "lift": 0,
    "constant": 0,
}


@pytest.mark.parametrize("op", POINTWISE)
def test_the_arithmetic_of_operators_that_treat_elements_alike(op):
    for output in ((7,), (2, 3, 5)):
        assert ops.find(op).arithmetic(Use((output, output), output, {}, {})) == POINTWISE[op] * prod(output)
