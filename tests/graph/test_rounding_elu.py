"""The bound of float32 for ELU: above what torch and C lose, and not far above."""

import numpy as np
import pytest
import torch

from lbnn.base.moments import Moments
from lbnn.graph import Node
from lbnn.graph.reference import NUMPY
from lbnn.graph.rounding_rules import RULES
from lbnn.ops import OPS
from lbnn.ops.elu import ELU_EXAMPLES
from lbnn.ops.torch import compute

OP = OPS["elu"]


def places(attrs, count=4000):
    rng = np.random.default_rng(3)
    sigma = 10.0 ** np.where(rng.random(count) < 0.5, rng.uniform(-2, 1, count), rng.uniform(-6, 6, count))
    mean = np.where(rng.random(count) < 0.2, rng.uniform(-40, 0, count), sigma * rng.uniform(-6, 6, count))
    both = mean * attrs["beta"], (sigma * attrs["beta"]) ** 2
    return Moments(*(part.astype(np.float32).astype(float) for part in both))


def bound(attrs, x, error):
    out = OP.formula(NUMPY, x, **attrs)
    return out, RULES["elu"](Node("f", "elu", ("input",), attrs), [x], [error], out)


@pytest.mark.parametrize("attrs", ELU_EXAMPLES)
def test_float32_stays_below_the_bound_and_the_bound_is_small(attrs):
    x = places(attrs)
    out, allowed = bound(attrs, x, Moments(np.zeros_like(x.mean), np.zeros_like(x.mean)))
    got = compute(OP, Moments(*(torch.tensor(part, dtype=torch.float32) for part in x)), **attrs)
    assert np.all(np.abs(got.mean.double().numpy() - out.mean) <= allowed.mean)
    assert np.all(np.abs(got.var.double().numpy() - out.var) <= allowed.var)
    assert np.median(allowed.mean / (np.abs(out.mean) + np.sqrt(out.var))) < 3e-6
    assert np.median((allowed.var / np.maximum(out.var, 1e-30))[out.var > 1e-20]) < 3e-5


@pytest.mark.parametrize("attrs", ELU_EXAMPLES)
def test_what_the_inputs_bring_is_in_the_bound(attrs):
    x, rng = places(attrs), np.random.default_rng(4)
    error = Moments(1e-3 * np.sqrt(x.var) + 1e-7 * np.abs(x.mean), 1e-3 * x.var)
    out, allowed = bound(attrs, x, error)
    for _ in range(5):
        moved = Moments(*(part + rng.uniform(-1, 1, part.shape) * e for part, e in zip(x, error, strict=True)))
        other = OP.formula(NUMPY, moved, **attrs)
        assert np.all(np.abs(other.mean - out.mean) <= 1.01 * allowed.mean)
        assert np.all(np.abs(other.var - out.var) <= 1.1 * allowed.var)


def test_a_known_value_is_off_by_what_the_slope_makes_of_its_error():
    attrs, x = {"alpha": 2.0, "beta": 1.0, "scale": 1.0}, np.array([-20.0, -1.0, 3.0])
    out = OPS["elu_point"].formula(NUMPY, x, **attrs)
    allowed = RULES["elu_point"](Node("f", "elu_point", ("input",), attrs), [x], [np.full(3, 1e-3)], out)
    slope = np.array([2.0 * np.exp(-20.0), 2.0 * np.exp(-1.0), 1.0])
    assert np.all(allowed >= 1e-3 * slope) and np.all(allowed <= 1.01e-3 * slope + 2e-6)
