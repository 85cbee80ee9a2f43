"""The errors that the table of docs/layers.md states for activations: against quadrature, in float32."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from largest import largest_moments
from layer_table import ROUNDING, STATED, layer_classes, stated
from lbnn import Moments
from lbnn import nn as bnn
from lbnn.ops import OPS
from max_pooling import drawn, flat, pooled

NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
MEANS = np.linspace(-4.0, 4.0, 33)
SIGMAS = (0.05, 0.2, 0.5, 1.0, 1.4, 2.0, 5.0, 20.0)
LEAST = 1e-2
"""Of the input's standard deviation: where less than that is left of it, a result is as good as known."""

CASES = {
    "Pointwise": (lambda: bnn.Pointwise(F.mish, range=(-16.0, 8.0), cells=192), F.mish),
    "Piecewise": (lambda: bnn.Piecewise((-1.0, 2.0), (0.5, 1.0, 0.0), 0.0), None),
    "Clamp": (lambda: bnn.Clamp(-1.0, 2.0), None),
    "PReLU": (bnn.PReLU, lambda x: F.prelu(x, torch.tensor([0.25]).double())),
}
"""Layers that need arguments, and a function that is not the layer's own for known values."""

ACTIVATIONS = [name for name, kind in layer_classes().items() if OPS[kind.op].kind in ("pointwise", "smooth")]


def true_moments(function, mean, sigma):
    """By Gauss-Legendre between panels that end at every multiple of 1/4, as kinks do."""
    reach = 9.5 * sigma
    fine = np.linspace(-24.0, 24.0, 193)
    edges = np.union1d(np.linspace(mean - reach, mean + reach, 41), fine[np.abs(fine - mean) < reach])
    half = 0.5 * np.diff(edges)[:, None]
    x = (edges[:-1, None] + half * (1.0 + NODES)).ravel()
    mass = (half * WEIGHTS).ravel() * np.exp(-0.5 * ((x - mean) / sigma) ** 2) / (sigma * np.sqrt(2.0 * np.pi))
    values = np.asarray(function(torch.as_tensor(np.r_[mean, x])[None]))[0]
    at, g = values[0], values[1:] - values[0]
    first = mass @ g
    return at + first, np.sqrt(mass @ (g - first) ** 2)


def errors(layer, function):
    """Largest errors of the mean in standard deviations of the result beside its last digit, and of that deviation."""
    worst = np.zeros(2)
    for sigma in SIGMAS:
        x = Moments(torch.tensor(MEANS).float()[:, None], torch.full((MEANS.size, 1), sigma**2))
        out = Moments(*(part.detach().double().numpy()[:, 0] for part in layer(x)))
        mean, sd = (np.array(part) for part in zip(*(true_moments(function, m, sigma) for m in MEANS), strict=True))
        seen = sd >= LEAST * sigma
        off = np.maximum(np.abs(out.mean - mean) - 2.0**-23 * np.abs(mean), 0.0)[seen] / sd[seen]
        worst = np.maximum(worst, [off.max(), np.abs(np.sqrt(out.var[seen]) / sd[seen] - 1.0).max()])
    return worst


def holds(found, limits):
    """Not more than stated, and beyond rounding not five times less."""
    return all(one <= most and (one > 0.2 * most or most <= 1e-6) for one, most in zip(found, limits, strict=True))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_as_near_to_quadrature_as_the_table_says(name):
    make, function = CASES.get(name, (getattr(bnn, name), None))
    layer = make()
    found = errors(layer, function or layer)
    assert holds(found, stated(name, layer_classes()[name])), found


def test_so_is_a_max_pool_of_two_by_two_and_of_pairs_it_is_exact():
    for window, limits in {(2, 2): STATED["max_pool"], (1, 2): ROUNDING}.items():
        x = drawn(window)
        got, (mean, var) = pooled(x), largest_moments(*flat(x))
        found = (np.abs(got.mean - mean) / np.sqrt(var)).max(), np.abs(np.sqrt(got.var / var) - 1.0).max()
        assert holds(found, limits), found


def test_every_other_layer_is_exact_for_independent_inputs():
    others = {OPS[kind.op].kind for name, kind in layer_classes().items() if not stated(name, kind)}
    assert others == {"multilinear", "moments"}  # held by tests/ops/test_ops.py, by enumeration
