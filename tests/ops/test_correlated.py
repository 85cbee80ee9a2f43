"""Operators of elements that rise and fall together, held to one random number that moves them all."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch

from lbnn import Moments
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.torch import TORCH

CASES = [(op, sample) for op in OPS.values() if op.kind == "correlated" for sample in op.samples]
"""A point has no elements that could move together: its forms are those of independent elements."""


@pytest.mark.parametrize(("op", "sample"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_one_sign_for_all_elements_gives_the_moments(op, sample):
    """mean +- sigma everywhere at once: two outcomes of torch's own function, each with probability 1/2."""
    (shape,), rng = sample.inputs, np.random.default_rng(zlib.crc32(repr(sample).encode()))
    mean, sigma = rng.normal(size=shape), rng.uniform(0.0, 2.0, size=shape) * (rng.random(shape) < 0.8)
    outcomes = [op.oracle(torch.as_tensor(mean + sign * sigma), **sample.attrs).numpy() for sign in (-1.0, 1.0)]
    out = op.formula(NUMPY, Moments(mean[None], sigma[None] ** 2), **sample.attrs)
    np.testing.assert_allclose(out.mean[0], np.mean(outcomes, axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(out.var[0], np.var(outcomes, axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("op", "sample"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_gradients_are_finite_where_variances_are_zero(op, sample):
    (shape,) = sample.inputs
    var = torch.rand(1, *shape).mul(torch.rand(1, *shape) < 0.5).requires_grad_()
    out = op.formula(TORCH, Moments(torch.randn(1, *shape), var), **sample.attrs)
    (gradient,) = torch.autograd.grad(out.var.sum(), var)
    assert bool(torch.isfinite(gradient).all()) and bool((gradient[var > 0] >= 0).all())
