"""The fast moments of a kinked line and their closed-form gradients, against 50 digits and against autograd."""

import math
from functools import cache, partial

import mpmath as mp
import numpy as np
import pytest
import torch

from lbnn.base.moments import Moments
from lbnn.ops import OPS
from lbnn.ops.kinked import BLOCK, kinked_line
from lbnn.ops.torch import TORCH, TORCH_FORMS, compute
from oracles import kinked_line_moments

SLOPES = (-1.0, 0.0, 0.01, 0.3, 1.0)
RATIOS = (0.0, -0.0, 1e-7, -1e-7, 0.3, -0.3, 1.0, -1.0, 2.5, -2.5, 4.0, -4.0, 6.0, -6.0, 20.0, -20.0)
SIGMAS = (1e-3, 1.0, 300.0)


def points(dtype):
    mean = torch.tensor([r * s for s in SIGMAS for r in RATIOS], dtype=torch.float32).to(dtype)
    var = torch.tensor([s * s for s in SIGMAS for _ in RATIOS], dtype=torch.float32).to(dtype)
    return mean.requires_grad_(), var.requires_grad_()


def differences(moments, m, v):
    """dE'/dE, dE'/dV, dV'/dE, dV'/dV by central differences, whose error is below 1e-20 in 50 digits."""
    step = mp.sqrt(v) * mp.mpf("1e-12")
    along_mean = [(a - b) / (2 * step) for a, b in zip(moments(m + step, v), moments(m - step, v), strict=True)]
    step *= mp.sqrt(v)
    along_var = [(a - b) / (2 * step) for a, b in zip(moments(m, v + step), moments(m, v - step), strict=True)]
    return [along_mean[0], along_var[0], along_mean[1], along_var[1]]


@cache
def exact(slope):
    """E', V' and their four derivatives at the points."""
    rows = []
    moments = partial(kinked_line_moments, slope=slope)
    for m, v in zip(*(part.detach().tolist() for part in points(torch.float32)), strict=True):
        with mp.workdps(50):
            m, v = mp.mpf(m), mp.mpf(v)
            rows.append([float(value) for value in (*moments(m, v), *differences(moments, m, v))])
    return np.array(rows).T


def found(slope, dtype):
    mean, var = points(dtype)
    out = kinked_line(TORCH, Moments(mean, var), slope)
    slopes = [torch.autograd.grad(part.sum(), (mean, var), retain_graph=True) for part in out]
    return np.array([part.detach().double().numpy() for part in (*out, *slopes[0], *slopes[1])])


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_moments_and_gradients_are_those_of_50_digits(slope, dtype, bound):
    """Relative to the largest that each can be: sigma, V, 1, 1 / sigma, sigma and 1 times a few."""
    sigma = np.repeat(SIGMAS, len(RATIOS))
    size = np.abs(points(torch.float64)[0].detach().numpy())
    scale = np.stack([size + sigma, sigma**2, np.ones_like(sigma), 1 / sigma, sigma, np.ones_like(sigma)])
    errors = np.abs(found(slope, dtype) - exact(slope)) / scale
    assert errors.max(axis=1) == pytest.approx(0.0, abs=bound)


@pytest.mark.parametrize("slope", [1e-6, 1e-4, 0.003, 0.01, 0.3])
def test_a_saturated_unit_keeps_its_relative_accuracy(slope):
    """Behind the kink the slope itself is all that is left, however small it is."""
    ratios = np.array([r for _ in SIGMAS for r in RATIOS])
    for below, bound in ((ratios < -2, 4e-6), (ratios < -10, 4e-7)):
        np.testing.assert_allclose(found(slope, torch.float32)[:2, below], exact(slope)[:2, below], rtol=bound)


@pytest.mark.parametrize("slope", SLOPES)
def test_denormal_variances_keep_the_digits_of_their_roots(slope):
    """The root of the smallest float32 is 3.7e-23, a number like any other; the variance itself has few digits."""
    var = torch.tensor([1.5e-45, 1e-44, 3e-41, 1e-38, 2e-38])
    for ratio in (0.0, 0.7, -0.7, -3.0):
        mean = ratio * var.double().sqrt().float()
        with torch.no_grad():
            out = kinked_line(TORCH, Moments(mean, var), slope)
        pairs = zip(mean.tolist(), var.tolist(), strict=True)
        expected = np.array([[float(part) for part in kinked_line_moments(m, v, slope=slope)] for m, v in pairs])
        np.testing.assert_allclose(out.mean.double().numpy(), expected[:, 0], rtol=2e-5, atol=0.0)
        np.testing.assert_allclose(out.var.double().numpy(), expected[:, 1], rtol=2e-5, atol=1.5e-45)


def test_at_a_mean_of_zero_both_sides_count_half():
    for x in (0.0, -0.0):
        mean, var = torch.tensor([x], requires_grad=True), torch.tensor([1.0], requires_grad=True)
        out = compute(OPS["leaky_relu"], Moments(mean, var), negative_slope=0.01)
        slopes = [torch.autograd.grad(part, mean, retain_graph=True)[0].item() for part in out]
        assert slopes == pytest.approx([0.505, 1.98 * 0.505 / math.sqrt(2 * math.pi)], rel=1e-6)


@pytest.mark.parametrize("name", ["leaky_relu", "leaky_relu_clamped"])
def test_the_formulas_of_any_namespace_have_the_same_gradient_at_zero(name):
    mean = torch.tensor([0.0, 1e-9], dtype=torch.float64, requires_grad=True)
    attrs = {"negative_slope": 0.01} | ({"clamp": 3.0} if name.endswith("clamped") else {})
    out = OPS[name].formula(TORCH, Moments(mean, torch.ones_like(mean)), **attrs)
    for part in out:
        at, beside = torch.autograd.grad(part.sum(), mean, retain_graph=True)[0].tolist()
        assert at == pytest.approx(beside, abs=1e-8)


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_variance_values_and_gradients_are_the_plain_functions(slope, dtype):
    x = torch.tensor([-1e30, -3.0, -1e-12, 0.0, 1e-12, 2.0, 1e30], dtype=dtype)
    mean, var = x.clone().requires_grad_(), torch.zeros_like(x).requires_grad_()
    out = kinked_line(TORCH, Moments(mean, var), slope)
    expected = torch.where(x < 0, slope * x, x)
    assert torch.equal(out.mean, expected) and not out.var.any()
    d_mean, d_var = torch.autograd.grad(out.mean.sum(), (mean, var), retain_graph=True)
    expected = torch.where(x < 0, slope, 1.0).to(dtype)
    torch.testing.assert_close(d_mean[x != 0], expected[x != 0], rtol=1e-7, atol=1e-7)
    assert not d_var.any()
    assert all(part.isfinite().all() for part in torch.autograd.grad(out.var.sum(), (mean, var)))


@pytest.mark.parametrize("slope", SLOPES)
def test_gradients_can_be_differentiated_again(slope):
    mean = torch.linspace(-2, 2, 9, dtype=torch.float64).add_(0.01).requires_grad_()
    var = torch.linspace(0.2, 2, 9, dtype=torch.float64).requires_grad_()
    function = lambda m, v: tuple(kinked_line(TORCH, Moments(m, v), slope))
    assert torch.autograd.gradcheck(function, (mean, var))
    assert torch.autograd.gradgradcheck(function, (mean, var))
    assert torch.autograd.gradgradcheck(lambda m: function(m, var.detach()), (mean,))


def drawn(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(shape, generator=generator, dtype=dtype)
    return mean.requires_grad_(), torch.rand(shape, generator=generator, dtype=dtype).requires_grad_()


@pytest.mark.parametrize("slope", SLOPES)
def test_gradients_that_will_be_differentiated_again_are_the_same(slope):
    """gradgradcheck compares them with their own differences alone."""
    mean, var = drawn(40, dtype=torch.float64)
    towards = [part.detach() for part in drawn(40, dtype=torch.float64)]
    out = kinked_line(TORCH, Moments(mean, var), slope)
    find = partial(torch.autograd.grad, list(out), (mean, var), towards, retain_graph=True)
    for a, b in zip(find(), find(create_graph=True), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_blocks_change_nothing():
    mean, var = drawn(3, BLOCK // 2 + 5)
    towards = drawn(3, BLOCK // 2 + 5)
    whole = kinked_line(TORCH, Moments(mean, var), 0.1)
    rows = [kinked_line(TORCH, Moments(m[:100], v[:100]), 0.1) for m, v in zip(mean, var, strict=True)]
    for part, pieces in zip(whole, zip(*rows, strict=True), strict=True):
        torch.testing.assert_close(part[:, :100], torch.stack(pieces), rtol=1e-6, atol=1e-7)
    d_whole = torch.autograd.grad(list(whole), (mean, var), towards)
    cut = [t[:, :100] for t in towards]
    d_pieces = torch.autograd.grad([torch.stack(p) for p in zip(*rows, strict=True)], (mean, var), cut)
    for part, pieces in zip(d_whole, d_pieces, strict=True):
        torch.testing.assert_close(part[:, :100], pieces[:, :100], rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        assert all(map(torch.equal, kinked_line(TORCH, Moments(mean, var), 0.1), whole))


def test_values_that_lie_in_any_order_in_memory_are_the_same():
    mean, var = drawn(4, 3, BLOCK // 8)
    last = [part.detach().to(memory_format=torch.contiguous_format).transpose(1, 2) for part in (mean, var)]
    out, turned = (kinked_line(TORCH, Moments(*pair), 0.1) for pair in ((mean, var), last))
    assert all(torch.equal(a, b.transpose(1, 2)) for a, b in zip(out, turned, strict=True))


def total(mean, var):
    out = kinked_line(TORCH, Moments(mean, var), 0.1)
    return (out.mean + 2 * out.var).sum()


def test_function_transforms_and_the_compiler_agree_with_autograd():
    mean, var = drawn(3, 4, dtype=torch.float64)
    expected = torch.autograd.grad(total(mean, var), (mean, var))
    pair = mean.detach(), var.detach()
    per_row = torch.func.vmap(torch.func.grad(total, argnums=(0, 1)))(*pair)
    compiled = torch.compile(total, backend="aot_eager", fullgraph=True)
    for got in (per_row, torch.autograd.grad(compiled(mean, var), (mean, var))):
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b)
    shared = torch.func.vmap(lambda m: kinked_line(TORCH, Moments(m, pair[1][0]), 0.1), in_dims=1, out_dims=1)
    columns = shared(torch.stack([pair[0][0], pair[0][1]], 1))
    torch.testing.assert_close(columns.mean[:, 1], kinked_line(TORCH, Moments(pair[0][1], pair[1][0]), 0.1).mean)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_float32_rounded_once(dtype):
    mean, var = (part.detach().to(dtype) for part in drawn(50))
    single = kinked_line(TORCH, Moments(mean.float(), var.float()), 0.1)
    for half, one in zip(kinked_line(TORCH, Moments(mean, var), 0.1), single, strict=True):
        assert torch.equal(half, one.to(dtype))


@pytest.mark.parametrize("name", [name for name in TORCH_FORMS if not OPS[name].point_inputs])
def test_every_fast_operator_has_the_moments_and_gradients_of_its_formula(name):
    op = OPS[name]
    for sample in op.samples:
        mean, var = drawn(*sample.inputs[0], dtype=torch.float64)
        pair = Moments(mean, var)
        results = [compute(op, pair, **sample.attrs), op.formula(TORCH, pair, **sample.attrs)]
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
        if name == "smooth":  # its gradients are Price's, nearer to the truth than those of its formula: test_smooth.py
            continue
        for a, b in zip(*(torch.autograd.grad(r.mean.sum() + r.var.sum(), pair) for r in results), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
