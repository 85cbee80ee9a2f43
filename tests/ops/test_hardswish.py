"""Hard-swish of a Gaussian against 120 digits: variances from 1e-30 to 1e30, dead units, kinks, gradients."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch
from mpmath import mp

from hardswish_oracle import hardswish_moments, hardswish_places
from lbnn import Moments
from lbnn import nn as bnn
from lbnn.exporters import export
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.hardswish import bump_moments
from lbnn.ops.torch import compute

OP, POINT = OPS["hardswish"], OPS["hardswish_point"]


def errors(out, mean, var, least=0.0):
    """The largest error of the mean over |E'| + sigma', and of the variance, where it is above `least`, over itself."""
    worst = [0.0, 0.0]
    for e, v, got_mean, got_var in zip(mean, var, np.asarray(out.mean), np.asarray(out.var), strict=True):
        want_mean, want_var = hardswish_moments(float(e), float(v))
        worst[0] = max(worst[0], float(abs(float(got_mean) - want_mean) / (abs(want_mean) + mp.sqrt(want_var))))
        if want_var > least:
            worst[1] = max(worst[1], float(abs(float(got_var) - want_var) / want_var))
    return worst


def test_float64_is_exact_at_every_variance():
    mean, var = hardswish_places(400)
    of_mean, of_var = errors(OP.formula(NUMPY, Moments(mean.astype(float), var.astype(float))), mean, var)
    assert of_mean < 1e-13 and of_var < 2e-12


def test_torch_float32_is_exact_at_every_variance():
    mean, var = hardswish_places(600)
    of_mean, of_var = errors(compute(OP, Moments(torch.tensor(mean), torch.tensor(var))), mean, var, 1e-36)
    assert of_mean < 1e-6 and of_var < 1e-5


def test_onnx_is_exact_at_every_variance(tmp_path):
    mean, var = hardswish_places(600, seed=2)
    out = export(bnn.Hardswish(), "onnx", tmp_path / "f.onnx", input_shape=(600,), input_variance=True)
    session = onnxruntime.InferenceSession(out)
    found = session.run(["mean", "variance"], {"input": mean[None], "input_variance": var[None]})
    of_mean, of_var = errors(Moments(*(part[0] for part in found)), mean, var, 1e-36)
    assert of_mean < 1e-6 and of_var < 1.2e-5


@pytest.mark.parametrize("sigma", [0.01, 0.3, 3.0, 30.0, 300.0])
def test_a_dead_unit_keeps_the_digits_of_its_variance(sigma):
    """Left of -3 nothing but tails is left: their relative accuracy is that of a dead ReLU."""
    depth = np.linspace(0.0, 9.5, 39)
    mean, var = (-3.0 - sigma * depth).astype(np.float32), np.full(39, sigma**2, np.float32)
    out = compute(OP, Moments(torch.tensor(mean), torch.tensor(var)))
    assert (out.var > 0.0).all() and errors(out, mean, var)[1] < 1.5e-5


def test_certainty_is_the_plain_function_to_the_last_bit():
    x = torch.tensor([-1e30, -7.0, -3.0, -2.9999998, -1.5, -1e-30, 0.0, 1e-30, 0.7, 2.9999998, 3.0, 5.0, 1e30])
    for dtype in (torch.float32, torch.float64):
        known = x.to(dtype)
        out = compute(OP, Moments(known, torch.zeros_like(known)))
        assert torch.equal(out.mean, compute(POINT, known)) and not out.var.any()
    usual = x.abs() < 1e9
    torch.testing.assert_close(compute(POINT, x[usual]), torch.nn.functional.hardswish(x[usual]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_finite_input_gives_nan_or_a_negative_variance(dtype):
    means = torch.tensor([0.0, 1e-40, 1e-3, 1.5, 2.999, 3.0, 3.001, 4.0, 50.0, 1e6, 1e19, 3e38], dtype=dtype)
    variances = torch.tensor([0.0, 1e-45, 1e-38, 1e-20, 1e-5, 0.3, 1.0, 5.0, 20.0, 400.0, 1e6, 1e20, 3e38], dtype=dtype)
    mean, var = (part.flatten() for part in torch.meshgrid(torch.cat((means, -means)), variances, indexing="ij"))
    out = compute(OP, Moments(mean, var))
    assert out.mean.isfinite().all() and out.var.isfinite().all() and (out.var >= 0.0).all()


def gradients(mean, var, dtype):
    x = [torch.tensor(part, dtype=dtype, requires_grad=True) for part in (mean, var)]
    out = compute(OP, Moments(*x))
    return [grad for part in out for grad in torch.autograd.grad(part.sum(), x, retain_graph=True)]


def test_gradients_are_the_slopes_of_the_moments():
    """Differences of the 120-digit moments, on kinks too, and for a sigma beyond the pieces."""
    mean = np.array([-3.0, 3.0, -2.6, 0.0, 1.1, 3.4, -3.7, -9.0, 2.0, -40.0])
    var = np.array([0.05, 0.4, 1.0, 2.0, 9.0, 4.0, 0.7, 9.0, 1e6, 1e5])
    found, step = gradients(mean, var, torch.float64), mp.mpf(10) ** -30
    for i, (e, v) in enumerate(zip(mean, var, strict=True)):
        with mp.workdps(120):
            ends = [
                [hardswish_moments(e + s * de * step, v + s * dv * step) for s in (mp.mpf(-1), mp.mpf(1))]
                for de, dv in ((1, 0), (0, 1))
            ]
            want = [(high[part] - low[part]) / (2 * step) for part in (0, 1) for low, high in ends]
        for grad, value in zip(found, want, strict=True):
            assert abs(float(grad[i]) - float(value)) < 1e-9 * (1.0 + abs(float(value)))


def test_gradients_without_variance_are_those_of_the_limit():
    """E' = f + f'' V / 2 and V' = f'^2 V to first order in V."""
    mean = np.array([-5.0, -2.0, -1.5, 0.0, 1.0, 2.5, 4.0])
    inside = np.abs(mean) < 3.0
    slope = np.where(inside, mean / 3.0 + 0.5, np.where(mean < 0, 0.0, 1.0))
    want = (slope, np.where(inside, 1 / 6, 0.0), np.zeros(7), slope**2)
    for dtype, digits in ((torch.float32, 1e-6), (torch.float64, 1e-15)):
        for grad, expected in zip(gradients(mean, np.zeros(7), dtype), want, strict=True):
            np.testing.assert_allclose(grad.numpy(), expected, rtol=digits, atol=1e-30)


def test_gradients_are_finite_and_those_of_float64():
    mean, var = hardswish_places(600, seed=1)
    mean, var = np.append(mean, [-3.0, 3.0, -1.5]), np.append(var, np.zeros(3))
    single, double = (gradients(mean, var, dtype) for dtype in (torch.float32, torch.float64))
    sd = np.maximum(np.sqrt(var.astype(float)), 1e-30)
    for one, other, scale in zip(single, double, (1.0, 1.0 / sd, sd, 1.0), strict=True):  # of E' and V' by E and V
        assert torch.isfinite(one).all()
        assert np.max(np.abs(one.numpy() - other.numpy()) / scale) < 1e-4


def test_gradients_can_be_differentiated_again():
    x = [torch.linspace(*ends, 13, dtype=torch.float64, requires_grad=True) for ends in ((-6.0, 6.0), (0.1, 40.0))]
    assert torch.autograd.gradgradcheck(lambda mean, var: tuple(compute(OP, Moments(mean, var))), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    x = Moments(torch.linspace(-8.0, 8.0, 33).to(dtype), torch.linspace(0.0, 60.0, 33).to(dtype))
    half, single = compute(OP, x), compute(OP, Moments(x.mean.float(), x.var.float()))
    assert all(torch.equal(one, other.to(dtype)) for one, other in zip(half, single, strict=True))


def test_the_moments_of_the_bump_are_its_integrals():
    nodes, weights = np.polynomial.legendre.leggauss(20)
    v = np.concatenate([(nodes - 1.0) / 2.0, (nodes + 1.0) / 2.0])
    y, mass = 3.0 * v, 1.5 * np.concatenate([weights, weights])
    bump = np.abs(y) * (3.0 - np.abs(y)) / 6.0
    for moments, values in zip(bump_moments(9), (bump, bump**2 - 2.0 * bump * np.maximum(y, 0.0)), strict=True):
        np.testing.assert_allclose(moments, [mass @ (values * v**n) for n in range(9)], rtol=1e-12, atol=1e-15)
