"""Max pooling: pairs against quadrature and 50 digits, windows against the tournament's definition, gradients."""

from functools import partial

import numpy as np
import pytest
import torch

from largest import largest_moments, pair_moments, pooled_moments
from lbnn import LbnnError, Moments
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.max_pool import larger, matches, max_pool_shape
from lbnn.ops.table import Use
from lbnn.ops.torch import TORCH, compute

SAMPLES = OPS["max_pool"].samples
GAPS = (0.0, 1e-7, 0.3, -0.3, 1.0, -2.5, 4.0, -6.0, 9.0, -20.0)
SPREADS = ((1.0, 1.0), (1.0, 1e-6), (1e-6, 1.0), (0.0, 1.0), (300.0, 2.0), (1e-8, 3e-8))


def pairs():
    """Both means and variances: differences in units of a, variances of every proportion, float32 numbers."""
    rows = [(5.0 + gap * (v + w) ** 0.5, v, 5.0, w) for gap in GAPS for v, w in SPREADS]
    rows += [(0.0, v, 0.0, w) for v, w in SPREADS]
    return np.array(rows, np.float32).astype(np.float64).T


def exact_pairs():
    rows = [pair_moments((m, v), (n, w)) for m, v, n, w in pairs().T.tolist()]
    return np.array(rows, dtype=np.float64).T


def test_a_pair_in_50_digits_is_the_quadrature_of_the_product_of_both_distributions():
    m, v, n, w = (np.array(part) for part in ([0.0, 1.0, -2.0], [1.0, 0.5, 4.0], [0.2, 1.0, 3.0], [2.0, 0.1, 0.3]))
    got = largest_moments(np.stack([m, n], -1), np.stack([v, w], -1))
    rows = [pair_moments((a, b), (c, d)) for a, b, c, d in zip(m, v, n, w, strict=True)]
    np.testing.assert_allclose(np.array(got).T, np.array(rows, dtype=np.float64), rtol=1e-9)


def test_the_larger_of_two_is_that_of_50_digits():
    m, v, n, w = pairs()
    got = larger(NUMPY, Moments(m, v), Moments(n, w))
    mean, var = exact_pairs()
    np.testing.assert_allclose(got.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(got.var, var, rtol=1e-12)
    other = larger(NUMPY, Moments(n, w), Moments(m, v))
    np.testing.assert_allclose(other, got, rtol=1e-12)


@pytest.mark.parametrize("form", ["formula", "fast"])
def test_float32_keeps_the_accuracy_of_a_pair(form):
    m, v, n, w = (torch.tensor(part, dtype=torch.float32) for part in pairs())
    x = Moments(torch.stack([m, n], -1)[:, None], torch.stack([v, w], -1)[:, None])
    run = partial(OPS["max_pool"].formula, TORCH) if form == "formula" else partial(compute, OPS["max_pool"])
    out = run(x, kernel_size=(2,), stride=(2,), padding=(0,), dilation=(1,), ceil_mode=False)
    mean, var = exact_pairs()
    got_mean, got_var = (part.double().numpy().reshape(-1) for part in out)
    assert (np.abs(got_mean - mean) <= 1e-6 * (np.abs(mean) + np.sqrt(var))).all()
    near = var > 1e-9 * (v + w).double().numpy()  # beyond, the difference of the means has lost its digits
    np.testing.assert_allclose(got_var[near], var[near], rtol=2e-5)


@pytest.mark.parametrize("index", range(len(SAMPLES)))
def test_a_window_is_the_tournament_of_its_rows(index):
    (shape,), attrs = SAMPLES[index].inputs, SAMPLES[index].attrs
    rng = np.random.default_rng(index)
    mean, var = rng.normal(size=shape), rng.uniform(0.0, 2.0, size=shape)
    got = OPS["max_pool"].formula(NUMPY, Moments(mean[None], var[None]), **attrs)
    expected = pooled_moments(mean, var, max_pool_shape(shape, **attrs), attrs)
    np.testing.assert_allclose(got.mean[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(got.var[0], expected[1], rtol=1e-11)
    fast = compute(OPS["max_pool"], Moments(torch.tensor(mean[None]), torch.tensor(var[None])), **attrs)
    np.testing.assert_allclose(fast, got, rtol=1e-12)


@pytest.mark.parametrize("index", range(len(SAMPLES)))
def test_without_variance_it_is_torchs_max_pooling(index):
    (shape,), attrs, op = SAMPLES[index].inputs, SAMPLES[index].attrs, OPS["max_pool"]
    x = np.random.default_rng(index).normal(size=(3, *shape))
    expected = np.stack([op.oracle(torch.tensor(row), **attrs).numpy() for row in x])
    out = op.formula(NUMPY, Moments(x, np.zeros_like(x)), **attrs)
    np.testing.assert_array_equal(out.mean, expected)
    assert not out.var.any()
    for namespace, value in ((NUMPY, x), (TORCH, torch.tensor(x))):
        np.testing.assert_array_equal(OPS["max_pool_point"].formula(namespace, value, **attrs), expected)


def test_the_largest_of_a_long_row_takes_few_matches_and_keeps_the_order():
    """37 = 32 + 4 + 1: five levels and two that join them."""
    rng, geometry = np.random.default_rng(0), dict(stride=(3,), padding=(5,), dilation=(2,), ceil_mode=True)
    mean, var = rng.normal(size=(1, 90)), rng.uniform(0.0, 2.0, size=(1, 90))
    attrs = dict(kernel_size=(37,), **geometry)
    got = OPS["max_pool"].formula(NUMPY, Moments(mean[None], var[None]), **attrs)
    np.testing.assert_allclose(
        np.array(got)[:, 0], pooled_moments(mean, var, max_pool_shape(mean.shape, **attrs), attrs), rtol=1e-11
    )
    windows = max_pool_shape(mean.shape, **attrs)[1]
    assert matches(Use((mean.shape,), (1, windows), {}, attrs)) == 7 * windows


@pytest.mark.parametrize("form", ["formula", "fast"])
def test_gradients_are_the_slopes_of_the_function(form):
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(1, 1, 2, 4, dtype=torch.float64, generator=generator)
    var = torch.rand(1, 1, 2, 4, dtype=torch.float64, generator=generator) + 0.1
    mean[:, :, :, 1] = mean[:, :, :, 0]  # equal means
    run = partial(OPS["max_pool"].formula, TORCH) if form == "formula" else partial(compute, OPS["max_pool"])
    attrs = dict(kernel_size=(3, 2), stride=(1, 2), padding=(1, 0), dilation=(1, 1), ceil_mode=False)
    inputs = (mean.requires_grad_(), var.requires_grad_())
    assert torch.autograd.gradcheck(lambda m, v: tuple(run(Moments(m, v), **attrs)), inputs)
    assert torch.autograd.gradgradcheck(lambda m, v: tuple(run(Moments(m, v), **attrs)), inputs)


def test_gradients_are_finite_and_those_of_float64_everywhere():
    gradients = {}
    for dtype in (torch.float32, torch.float64):
        parts = [torch.tensor(part, dtype=dtype, requires_grad=True) for part in pairs()]
        m, v, n, w = parts
        x = Moments(torch.stack([m, n], -1)[:, None], torch.stack([v, w], -1)[:, None])
        out = compute(OPS["max_pool"], x, kernel_size=(2,), stride=(2,), padding=(0,), dilation=(1,), ceil_mode=False)
        gradients[dtype] = [g for part in out for g in torch.autograd.grad(part.sum(), parts, retain_graph=True)]
    _, v, _, w = (torch.tensor(part) for part in pairs())
    a = (v + w).sqrt()
    scales = [torch.ones_like(a), 1 / a, torch.ones_like(a), 1 / a, a, torch.ones_like(a), a, torch.ones_like(a)]
    for single, double, scale in zip(*gradients.values(), scales, strict=True):
        assert torch.isfinite(single).all() and torch.isfinite(double).all()
        assert ((single - double).abs() <= 2e-4 * scale).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_known_values_have_finite_gradients_that_sum_to_one(dtype):
    mean = torch.tensor([[[1.0, 1.0, 3.0, -2.0, 0.0, 0.0, 1e30, -1e30]]], dtype=dtype, requires_grad=True)
    var = torch.zeros_like(mean, requires_grad=True)
    out = compute(
        OPS["max_pool"], Moments(mean, var), kernel_size=(2,), stride=(2,), padding=(1,), dilation=(1,), ceil_mode=False
    )
    assert torch.equal(out.mean, torch.tensor([[[1.0, 3.0, 0.0, 1e30, -1e30]]], dtype=dtype))
    to_mean, to_var = torch.autograd.grad(out.mean.sum() + out.var.sum(), (mean, var))
    assert to_mean.sum().item() == pytest.approx(5.0) and to_var.isfinite().all()


def test_half_precision_and_transforms_give_the_same():
    x = Moments(torch.randn(2, 3, 8), torch.rand(2, 3, 8))
    attrs = dict(kernel_size=(3,), stride=(2,), padding=(1,), dilation=(1,), ceil_mode=False)
    run = partial(compute, OPS["max_pool"], **attrs)
    half = run(Moments(*(part.to(torch.bfloat16) for part in x)))
    assert half.mean.dtype is torch.bfloat16
    torch.testing.assert_close(half.mean.float(), run(x).mean, rtol=0.05, atol=0.05)
    mapped = torch.func.vmap(lambda m, v: tuple(p[0] for p in run(Moments(m[None], v[None]))))(*x)
    torch.testing.assert_close(tuple(mapped), tuple(run(x)))


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        (dict(kernel_size=(2, 0)), "must be at least 1"),
        (dict(stride=(0, 1)), "must be at least 1"),
        (dict(dilation=(1, 0)), "must be at least 1"),
        (dict(padding=(0, -1)), "padding at least 0"),
        (dict(padding=(2, 0)), "at most half"),
        (dict(kernel_size=(2, 2, 2)), "does not fit"),
        (dict(kernel_size=(9, 2)), "larger than the padded input"),
        (dict(padding=(0, 1), dilation=(1, 6)), "steps over the whole input"),
    ],
)
def test_windows_that_do_not_fit_are_refused(attrs, message):
    fitting = dict(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1), ceil_mode=False)
    assert max_pool_shape((1, 5, 5), **fitting) == (1, 2, 2)
    with pytest.raises(LbnnError, match=message):
        max_pool_shape((1, 5, 5), **{**fitting, **attrs})
