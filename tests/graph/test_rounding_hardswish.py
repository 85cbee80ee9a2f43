"""The bound of float32 for hard-swish: above what torch, ONNX's rule and C lose, and not far above."""

import numpy as np
import torch

from hardswish_oracle import hardswish_places
from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_rules import RULES
from lbnn.ops import OPS
from lbnn.ops.torch import compute

OP = OPS["hardswish"]
NODE = Node("f", "hardswish", ("input",), {})


def bound(x, error):
    out = OP.formula(NUMPY, x)
    return out, RULES["hardswish"](NODE, [x], [error], out)


def places(count=6000):
    return Moments(*(part.astype(float) for part in hardswish_places(count, seed=3)))


def test_float32_stays_below_the_bound_and_the_bound_is_small():
    x = places()
    out, allowed = bound(x, Moments(np.zeros_like(x.mean), np.zeros_like(x.mean)))
    got = compute(OP, Moments(*(torch.tensor(part, dtype=torch.float32) for part in x)))
    assert np.all(np.abs(got.mean.double().numpy() - out.mean) <= allowed.mean)
    assert np.all(np.abs(got.var.double().numpy() - out.var) <= allowed.var)
    usual = out.var > 1e-36
    assert np.median((allowed.var / out.var)[usual]) < 1e-5
    assert np.max((allowed.var / out.var)[usual & (np.abs(x.mean) < 5.0 * np.sqrt(x.var))]) < 5e-4


def test_what_the_inputs_bring_is_in_the_bound():
    x, rng = places(), np.random.default_rng(4)
    error = Moments(1e-3 * np.sqrt(x.var) + 1e-7 * np.abs(x.mean), 1e-3 * x.var)
    out, allowed = bound(x, error)
    for _ in range(5):
        moved = Moments(*(part + rng.uniform(-1, 1, part.shape) * e for part, e in zip(x, error, strict=True)))
        other = OP.formula(NUMPY, moved)
        assert np.all(np.abs(other.mean - out.mean) <= 1.01 * allowed.mean)
        assert np.all(np.abs(other.var - out.var) <= 1.1 * allowed.var)


def test_a_known_value_is_off_by_what_its_steepest_slope_makes_of_its_error():
    x = np.array([-9.0, -3.0001, -1.5, 0.0, 3.0001, 9.0])
    out = OPS["hardswish_point"].formula(NUMPY, x)
    allowed = RULES["hardswish_point"](Node("f", "hardswish_point", ("input",), {}), [x], [np.full(6, 1e-3)], out)
    assert allowed[2] < 4e-4  # the error itself moves the slope away from 0 at the minimum
    for end in (-1e-3, 1e-3):
        assert np.all(np.abs(OPS["hardswish_point"].formula(NUMPY, x + end) - out) <= allowed)
    assert allowed[0] < 1e-40 and np.all(allowed[2:4] < (1e-3, 6e-4)) and np.all(allowed[4:] >= 1e-3)
