"""Tail moments up to the fourth over the exponential, against 60 digits, in every form that backends use."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import torch

import fit_mills
from fit_tail import all_moments, fit_quadrature, fit_ratio
from lbnn.graph.reference import NUMPY
from lbnn.ops import mills


def exact(x):
    with mp.workdps(60):
        rows = [[m * mp.exp(mp.mpf(float(v)) ** 2 / 2) for m in all_moments(mp.mpf(float(v)), 5)] for v in x]
        return np.array(rows, dtype=float).T


def worst(found, x):
    return max(np.abs(np.asarray(one, float) / want - 1.0).max() for one, want in zip(found, exact(x), strict=True))


def test_every_form_has_its_relative_accuracy():
    near, far = np.linspace(0.0, 10.0, 300), np.linspace(0.0, 36.0, 300)
    single = near.astype(np.float32)
    assert worst(mills.numpy_mills(far), far) < 5e-15
    assert worst(mills.torch_mills(torch.from_numpy(far)), far) < 5e-15
    assert worst(mills.torch_mills(torch.from_numpy(single)), single) < 8e-7
    assert worst(mills.mills_by_quadrature(NUMPY, near), near) < 6e-8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_infinite_or_negative_up_to_infinity(dtype):
    x = torch.tensor([0.0, 1e-40, 1.0, 39.0, 41.0, 1e30, torch.inf], dtype=dtype, requires_grad=True)
    found = mills.torch_mills(x)
    (slope,) = torch.autograd.grad(sum(part.sum() for part in found), x)
    assert all((part.isfinite() & (part >= 0.0)).all() for part in found) and slope.isfinite().all()


def test_derivatives_are_those_of_the_moments_twice():
    x = torch.linspace(0.1, 6.0, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(mills.torch_mills, (x,)) and torch.autograd.gradgradcheck(mills.torch_mills, (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ratio_tables_are_those_the_tool_derives(dtype):
    derived = fit_ratio(fit_mills.RATIO_FITS[str(dtype).removeprefix("torch.")], fit_mills.exact_ratio)
    for part, stored in zip(derived, mills.MILLS_TABLES[dtype], strict=True):
        np.testing.assert_allclose(part, stored, rtol=1e-5)
    assert min(min(part) for part in derived) > 0.0


def test_quadrature_is_the_one_the_tool_derives():
    points, reach = fit_mills.QUADRATURE_POINTS, fit_mills.QUADRATURE_REACH
    nodes, weights, error = fit_quadrature(points, reach, fit_mills.ORDERS)
    assert error < 6e-8
    np.testing.assert_allclose(nodes, mills.MILLS_NODES, rtol=1e-6)
    np.testing.assert_allclose(weights * np.exp(-0.5 * nodes**2), mills.MILLS_WEIGHTS, rtol=1e-6)
