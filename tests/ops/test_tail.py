"""The tail moments against 50 digits, in every form and precision in which backends use them."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import torch

import fit_tail
from lbnn.ops import tail as special

NAMES = ("q", "i1", "j2")


def exact(x: np.ndarray) -> np.ndarray:
    """Rows Q, I1, J2 correctly rounded to float64."""
    with mp.workdps(50):
        rows = [(mp.erfc(mp.mpf(float(v)) / mp.sqrt(2)) / 2, mp.npdf(float(v)), mp.mpf(float(v))) for v in x]
        return np.array([[float(m) for m in (q, p - v * q, q - v * (p - v * q))] for q, p, v in rows]).T


def relative_errors(moments: object, x: np.ndarray) -> dict[str, float]:
    found, truth = np.array([np.asarray(m, np.float64) for m in moments]), exact(x)
    return dict(zip(NAMES, np.abs(found / truth - 1).max(axis=1), strict=True))


def grid(end: float, dtype: type = np.float64, points: int = 3000) -> np.ndarray:
    """Evenly spaced, and denser towards 0."""
    return np.concatenate([np.linspace(0, end, points), np.geomspace(1e-30, 1, 200)]).astype(dtype)


def test_numpy_moments_are_exact_to_rounding_wherever_they_are_normal_numbers() -> None:
    x = grid(37.0)
    assert max(relative_errors(special.numpy_tail_moments(x), x).values()) < 4e-15


def test_numpy_moments_end_in_zeros() -> None:
    for m in special.numpy_tail_moments(np.array([39.0, 1e3, 1e300, np.inf])):
        assert np.all((m >= 0) & (m < 1e-307))


def test_numpy_moments_at_zero_are_the_closed_forms() -> None:
    assert np.allclose(special.numpy_tail_moments(0.0), (0.5, 1 / special.SQRT_2PI, 0.5), rtol=1e-15, atol=0)


# x^2 is rounded before the exponential: x^2 / 2 * 2^-24 more error at x
@pytest.mark.parametrize(("end", "bound"), [(4.5, 1.2e-6), (6.0, 1.6e-6), (10.0, 3e-6)])
def test_float32_moments_keep_their_relative_accuracy_in_the_tail(end: float, bound: float) -> None:
    x = grid(end, np.float32)
    assert max(relative_errors(special.torch_tail_moments(torch.from_numpy(x)), x).values()) < bound


def test_float64_torch_moments_agree_with_50_digits() -> None:
    x = grid(36.0)
    assert max(relative_errors(special.torch_tail_moments(torch.from_numpy(x)), x).values()) < 1e-13


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_float32_rounded_once(dtype: torch.dtype) -> None:
    x = torch.linspace(0, 4, 50).to(dtype)
    singles = special.torch_tail_moments(x.float())
    for half, single in zip(special.torch_tail_moments(x), singles, strict=True):
        assert torch.equal(half, single.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_value_or_gradient_is_nan_or_negative_up_to_infinity(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1e-40, 1.0, 13.0, 14.5, 39.0, 1e4, 1e30, torch.inf], dtype=dtype).requires_grad_()
    moments = special.torch_tail_moments(x)
    assert all(((m >= 0) & (m <= 0.5)).all() for m in moments)
    (slope,) = torch.autograd.grad(sum(m.sum() for m in moments), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    assert slope.isfinite().all() and curvature.isfinite().all()


def test_inputs_are_left_alone() -> None:
    x = torch.linspace(0, 50, 20)
    before = x.clone()
    special.torch_tail_moments(x)
    assert torch.equal(x, before)


def test_derivatives_are_those_of_the_moments_twice() -> None:
    x = torch.linspace(0.1, 6, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(special.torch_tail_moments, (x,))
    assert torch.autograd.gradgradcheck(special.torch_tail_moments, (x,))


def test_float32_derivatives_are_as_accurate_as_the_moments() -> None:
    x = torch.linspace(0, 4.5, 500, requires_grad=True)
    slopes = [torch.autograd.grad(special.torch_tail_moments(x)[k].sum(), x)[0] for k in range(3)]
    points = x.detach().double()
    q, i1, _ = (torch.from_numpy(m) for m in special.numpy_tail_moments(points.numpy()))
    phi = torch.exp(-points * points / 2) / special.SQRT_2PI
    for slope, truth in zip(slopes, (-phi, -q, -2 * i1), strict=True):
        torch.testing.assert_close(slope.double(), truth, rtol=8e-7, atol=0)


def sum_of_moments(x: torch.Tensor) -> torch.Tensor:
    q, i1, j2 = special.torch_tail_moments(x)
    return (q + 2 * i1 + 3 * j2).sum()


def test_function_transforms_agree_with_autograd() -> None:
    x = torch.linspace(0, 5, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    (slope,) = torch.autograd.grad(sum_of_moments(x), x)
    x = x.detach()
    torch.testing.assert_close(torch.func.grad(sum_of_moments)(x), slope)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(sum_of_moments))(x), slope)
    rows = torch.func.vmap(special.torch_tail_moments, in_dims=1, out_dims=1)(x)
    for row, whole in zip(rows, special.torch_tail_moments(x), strict=True):
        torch.testing.assert_close(row, whole)


def test_compiles_without_a_graph_break() -> None:
    compiled = torch.compile(sum_of_moments, backend="aot_eager", fullgraph=True)
    x = torch.linspace(0, 5, 12, requires_grad=True)
    (slope,) = torch.autograd.grad(compiled(x), x)
    (expected,) = torch.autograd.grad(sum_of_moments(x), x)
    torch.testing.assert_close(slope, expected)


def quadrature(x: np.ndarray) -> np.ndarray:
    """The rule as a backend computes it, in the precision of x: exponentials, then one matrix product."""
    t, w = (np.array(v) for v in (special.TAIL_NODES, special.TAIL_WEIGHTS))
    shifted = x[:, None] + t.astype(x.dtype)
    features = np.exp(shifted * shifted * x.dtype.type(-0.5))
    return (features @ np.stack([w, w * t, w * t * t], axis=1).astype(x.dtype)).T


def test_quadrature_has_positive_ordered_terms() -> None:
    assert min(special.TAIL_NODES) > 0 and min(special.TAIL_WEIGHTS) > 0
    assert list(special.TAIL_NODES) == sorted(special.TAIL_NODES)
    assert len(special.TAIL_NODES) == len(special.TAIL_WEIGHTS)


# float32 adds the rounding of (x + t)^2 / 2 before the exponential: 20 * 2^-24 = 1.2e-6 at 5, 40 * 2^-24 at 8.5
@pytest.mark.parametrize(
    ("end", "dtype", "bound"), [(8.5, np.float64, 2.2e-7), (5.0, np.float32, 1.8e-6), (8.5, np.float32, 4e-6)]
)
def test_quadrature_reaches_its_relative_accuracy(end: float, dtype: type, bound: float) -> None:
    x = grid(end, dtype)
    assert max(relative_errors(quadrature(x), x).values()) < bound


def test_quadrature_falls_off_gracefully_beyond_its_reach() -> None:
    x = np.append(np.linspace(8.5, 37, 2000), [1e3, np.inf])
    error = np.abs(quadrature(x) - special.numpy_tail_moments(x))
    assert np.all(error <= 3e-7 * exact(np.array([8.5])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ratio_tables_are_those_the_tool_derives(dtype: torch.dtype) -> None:
    derived = fit_tail.fit_ratio(fit_tail.RATIO_FITS[str(dtype).removeprefix("torch.")])
    for part, stored in zip(derived, special.RATIO_TABLES[dtype], strict=True):
        np.testing.assert_allclose(part, stored, rtol=1e-5)
    assert min(min(part) for part in derived) > 0


def test_quadrature_is_the_one_the_tool_derives() -> None:
    nodes, weights, error = fit_tail.fit_quadrature(fit_tail.QUADRATURE_POINTS, fit_tail.QUADRATURE_REACH)
    assert error < 2.2e-7
    np.testing.assert_allclose(nodes, special.TAIL_NODES, rtol=1e-6)
    np.testing.assert_allclose(weights, special.TAIL_WEIGHTS, rtol=1e-6)
