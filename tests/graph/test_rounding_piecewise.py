"""The bound of float32 for piecewise-linear functions: above what torch and C lose, and not far above."""

import numpy as np
import pytest
import torch

from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_rules import RULES
from lbnn.ops import OPS
from lbnn.ops.piecewise import PIECEWISE_EXAMPLES
from lbnn.ops.torch import compute

OP = OPS["piecewise"]


def places(function, count=4000):
    rng = np.random.default_rng(3)
    sigma = 10.0 ** rng.uniform(-6, 6, count)
    mean = rng.choice(function["kinks"], count) + sigma * rng.uniform(-6, 6, count) * rng.choice(
        [0.0, 1e-3, 1.0], count
    )
    return Moments(mean.astype(np.float32).astype(float), (sigma**2).astype(np.float32).astype(float))


def bound(function, x, error):
    out = OP.formula(NUMPY, x, **function)
    return out, RULES["piecewise"](Node("f", "piecewise", ("input",), function), [x], [error], out)


@pytest.mark.parametrize("function", PIECEWISE_EXAMPLES)
def test_float32_stays_below_the_bound_and_the_bound_is_small(function):
    x = places(function)
    out, allowed = bound(function, x, Moments(np.zeros_like(x.mean), np.zeros_like(x.mean)))
    got = compute(OP, Moments(*(torch.tensor(part, dtype=torch.float32) for part in x)), **function)
    assert np.all(np.abs(got.mean.double().numpy() - out.mean) <= allowed.mean)
    assert np.all(np.abs(got.var.double().numpy() - out.var) <= allowed.var)
    usual = out.var > 1e-6 * x.var
    assert np.median((allowed.var / out.var)[usual]) < 2e-5


@pytest.mark.parametrize("function", PIECEWISE_EXAMPLES)
def test_what_the_inputs_bring_is_in_the_bound(function):
    x, rng = places(function), np.random.default_rng(4)
    error = Moments(1e-3 * np.sqrt(x.var) + 1e-7 * np.abs(x.mean), 1e-3 * x.var)
    out, allowed = bound(function, x, error)
    for _ in range(5):
        moved = Moments(*(part + rng.uniform(-1, 1, part.shape) * e for part, e in zip(x, error, strict=True)))
        other = OP.formula(NUMPY, moved, **function)
        assert np.all(np.abs(other.mean - out.mean) <= 1.01 * allowed.mean)
        assert np.all(np.abs(other.var - out.var) <= 1.1 * allowed.var)


def test_a_known_value_is_off_by_what_its_steepest_piece_makes_of_its_error():
    function, x = PIECEWISE_EXAMPLES[0], np.array([-1.0, 3.0, 6.0001, 9.0])
    node = Node("f", "piecewise_point", ("input",), function)
    out = OPS["piecewise_point"].formula(NUMPY, x, **function)
    allowed = RULES["piecewise_point"](node, [x], [np.full(4, 1e-3)], out)
    assert allowed[0] == 0.0 and 1e-3 <= allowed[1] < 1.01e-3 and allowed[2] >= 1e-3 and allowed[3] < 1e-5
