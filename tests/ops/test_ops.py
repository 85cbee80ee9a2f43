"""Every operator of the table is held to the mathematics that defines it, in numpy and in torch."""

from __future__ import annotations

import zlib
from functools import partial

import numpy as np
import pytest
import torch
from mpmath import mp

from lbnn import LbnnError, Moments, ops
from lbnn.base.factored import Factored
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.torch import TORCH
from oracles import draw, enumerate_moments, keep_few_random, kinked_line_moments, quadrature_moments

CASES = [(op, i) for op in OPS.values() for i in range(len(op.samples))]
RANDOM = (Moments, Factored)
MULTILINEAR = [case for case in CASES if case[0].kind == "multilinear"]


def case_name(value):
    return value.name if hasattr(value, "name") else str(value)


def rng_for(op, index):
    return np.random.default_rng(zlib.crc32(f"{op.name}/{index}".encode()))


def batched(value):
    return Moments(value.mean[None], value.var[None]) if isinstance(value, Moments) else value[None]


def run_numpy(op, inputs, params, attrs):
    out = op.formula(NUMPY, *map(batched, inputs), **params, **attrs)
    mean, var = out if isinstance(out, Moments) else (out, np.zeros_like(out))
    return (mean, var) if op.name == "constant" else (mean[0], var[0])


def to_torch(value):
    if isinstance(value, (Moments, Factored)):
        return type(value)(*map(to_torch, value))
    return torch.as_tensor(value, dtype=torch.float32)


@pytest.mark.parametrize(("op", "index"), MULTILINEAR, ids=case_name)
def test_multilinear_operator_has_the_enumerated_moments(op, index):
    rng, sample = rng_for(op, index), op.samples[index]
    inputs, params = draw(op, sample, rng)
    gaussian = [value for value in (*inputs, *params.values()) if isinstance(value, RANDOM)]
    few = iter(keep_few_random(gaussian, rng)) if gaussian else iter(())
    inputs = [next(few) if isinstance(value, RANDOM) else value for value in inputs]
    params = {key: next(few) if isinstance(value, RANDOM) else value for key, value in params.items()}
    everything = [*inputs, *params.values()]
    certain = [value if isinstance(value, RANDOM) else Moments(value, np.zeros_like(value)) for value in everything]

    def function(*tensors):
        return op.oracle(
            *tensors[: len(inputs)], **dict(zip(params, tensors[len(inputs) :], strict=True)), **sample.attrs
        )

    expected = enumerate_moments(function, certain)
    mean, var = run_numpy(op, inputs, params, sample.attrs)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(var, expected.var, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("op", "index"), CASES, ids=case_name)
def test_torch_float32_agrees_with_numpy_float64(op, index):
    sample = op.samples[index]
    inputs, params = draw(op, sample, rng_for(op, index))
    mean, var = run_numpy(op, inputs, params, sample.attrs)
    tensors = [to_torch(batched(value)) for value in inputs]
    out = op.formula(TORCH, *tensors, **{key: to_torch(value) for key, value in params.items()}, **sample.attrs)
    got_mean, got_var = out if isinstance(out, Moments) else (out, torch.zeros_like(out))
    np.testing.assert_allclose(got_mean.numpy().reshape(mean.shape), mean, rtol=op.tolerance, atol=2e-6)
    np.testing.assert_allclose(got_var.numpy().reshape(var.shape), var, rtol=10 * op.tolerance, atol=1e-12)


@pytest.mark.parametrize(("op", "index"), CASES, ids=case_name)
def test_shape_rule_is_the_shape_of_the_result(op, index):
    sample = op.samples[index]
    inputs, params = draw(op, sample, rng_for(op, index))
    shape = op.shape(*sample.inputs, **{key: tuple(value.shape) for key, value in params.items()}, **sample.attrs)
    mean, var = run_numpy(op, inputs, params, sample.attrs)
    assert mean.shape == var.shape == shape


POINTWISE = [case for case in CASES if case[0].kind == "pointwise" and not case[0].point_inputs]


@pytest.mark.parametrize(("op", "index"), POINTWISE, ids=case_name)
def test_pointwise_operator_has_the_moments_of_the_quadrature(op, index):
    rng, attrs = rng_for(op, index), op.samples[index].attrs
    mean, var = rng.normal(scale=3.0, size=200), rng.uniform(0.01, 4.0, size=200)
    got = op.formula(NUMPY, Moments(mean, var), **attrs)
    for i, (m, v) in enumerate(zip(mean, var, strict=True)):
        expected = quadrature_moments(lambda a: op.oracle(torch.as_tensor(a), **attrs).numpy(), m, v, list(op.kinks))
        np.testing.assert_allclose((got.mean[i], got.var[i]), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("op", "index"), POINTWISE, ids=case_name)
def test_pointwise_operator_without_variance_is_its_point_form(op, index):
    attrs, x = op.samples[index].attrs, np.array([-1e6, -3.0, -0.0, 0.0, 1e-30, 2.0, 1e6])
    form, taken = op.at_points(attrs)
    out = op.formula(NUMPY, Moments(x, np.zeros_like(x)), **attrs)
    np.testing.assert_array_equal(out.mean, form.formula(NUMPY, x, **taken))
    assert not out.var.any()


@pytest.mark.parametrize(("op", "index"), POINTWISE, ids=case_name)
def test_pointwise_operator_has_finite_gradients_everywhere(op, index):
    mean = torch.tensor([-1e4, -3.0, -1e-6, 0.0, 1e-6, 3.0, 1e4]).repeat(4).requires_grad_()
    var = torch.tensor([0.0, 1e-12, 1.0, 1e6]).repeat_interleave(7).requires_grad_()
    out = op.formula(TORCH, Moments(mean, var), **op.samples[index].attrs)
    gradients = torch.autograd.grad((out.mean + out.var).sum(), [mean, var])
    assert all(bool(torch.isfinite(part).all()) for part in (*out, *gradients))


def test_the_absolute_value_in_float32_keeps_its_accuracy_against_50_digits():
    mean, var = leaky_relu_grid(-1.0)
    out = OPS["abs"].formula(TORCH, Moments(torch.tensor(mean), torch.tensor(var)))
    for m, v, got_mean, got_var in zip(mean.tolist(), var.tolist(), out.mean.tolist(), out.var.tolist(), strict=True):
        with mp.workdps(50):
            expected_mean, expected_var = kinked_line_moments(m, v, -1)
            assert abs(got_mean - expected_mean) <= 2e-6 * (abs(expected_mean) + mp.sqrt(expected_var)), (m, v)
            assert abs(got_var - expected_var) <= 1e-5 * expected_var, (m, v)


@pytest.mark.parametrize("name", ["leaky_relu", "leaky_relu_clamped"])
@pytest.mark.parametrize("slope", [0.0, 0.01, 0.1, 0.3, 1.0])
def test_leaky_relu_has_the_moments_of_the_quadrature(name, slope):
    """`leaky_relu_clamped` is the exact form of a function whose kink sits at the clamped place."""
    rng = np.random.default_rng(1)
    mean, var = rng.normal(scale=3.0, size=200), rng.uniform(0.01, 4.0, size=200)
    attrs = {"negative_slope": slope} | ({"clamp": 1.5} if name == "leaky_relu_clamped" else {})
    got_mean, got_var = OPS[name].formula(NUMPY, Moments(mean, var), **attrs)
    for i, (m, v) in enumerate(zip(mean, var, strict=True)):
        sigma = np.sqrt(v)
        kink = m + sigma * np.clip(-m / sigma, -1.5, 1.5) if "clamp" in attrs else 0.0
        expected = quadrature_moments(lambda a, kink=kink: np.where(a < kink, slope * a, a), m, v, [kink])
        np.testing.assert_allclose((got_mean[i], got_var[i]), expected, rtol=1e-9, atol=1e-12)


def leaky_relu_grid(slope):
    """E/sigma from -1e6 to 1e6 (dense where the function bends), sigma from 0 to 1e6, float32 numbers."""
    bend = np.linspace(-8.0, 8.0, 97)
    far = np.geomspace(8.0, 1e6, 12)
    ratios = np.concatenate([bend, far, -far])
    sigmas = np.array([1e-6, 1e-2, 1.0, 37.0, 1e3, 1e6])
    mean = np.concatenate([np.outer(sigmas, ratios).ravel(), [0.0, -0.0, 3.0, -3.0, 1e6, -1e6]]).astype(np.float32)
    var = np.concatenate([np.repeat(sigmas**2, len(ratios)), np.zeros(6)]).astype(np.float32)
    return mean, var


@pytest.mark.parametrize("slope", [0.0, 0.01, 0.1, 0.3, 1.0])
def test_leaky_relu_in_float32_keeps_its_accuracy_against_50_digits(slope):
    mean, var = leaky_relu_grid(slope)
    out = OPS["leaky_relu"].formula(TORCH, Moments(torch.tensor(mean), torch.tensor(var)), negative_slope=slope)
    for m, v, got_mean, got_var in zip(mean.tolist(), var.tolist(), out.mean.tolist(), out.var.tolist(), strict=True):
        with mp.workdps(50):
            expected_mean, expected_var = kinked_line_moments(m, v, slope)
            scale = abs(expected_mean) + mp.sqrt(abs(expected_var))
            assert abs(got_mean - expected_mean) <= 2e-6 * scale, (m, v)
            if slope > 0.0 or expected_var > 1e-6 * v:
                assert abs(got_var - expected_var) <= 1e-5 * expected_var, (m, v)


@pytest.mark.parametrize("slope", [0.0, 0.01, 0.3, 1.0])
def test_leaky_relu_gradients_are_finite_and_those_of_float64(slope):
    mean, var = leaky_relu_grid(slope)
    gradients = {}
    for dtype in (torch.float32, torch.float64):
        x = Moments(
            torch.tensor(mean, dtype=dtype, requires_grad=True), torch.tensor(var, dtype=dtype, requires_grad=True)
        )
        out = OPS["leaky_relu"].formula(TORCH, x, negative_slope=slope)
        gradients[dtype] = [
            torch.autograd.grad(part.sum(), x, retain_graph=True, materialize_grads=True) for part in out
        ]
    for single, double in zip(sum(gradients[torch.float32], ()), sum(gradients[torch.float64], ()), strict=True):
        assert torch.isfinite(single).all()
        scale = torch.clamp(double.abs(), min=1e-4 if slope else 1e-3)
        assert ((single - double).abs() <= 1e-4 * scale).all()


def test_leaky_relu_gradients_are_the_slopes_of_the_function():
    mean = torch.linspace(-6, 6, 41, dtype=torch.float64, requires_grad=True)
    var = torch.linspace(0.1, 3.0, 41, dtype=torch.float64, requires_grad=True)
    for name, attrs in (("leaky_relu", {}), ("leaky_relu_clamped", {"clamp": 50.0})):
        formula = partial(OPS[name].formula, TORCH, negative_slope=0.1, **attrs)
        assert torch.autograd.gradcheck(lambda m, v, formula=formula: tuple(formula(Moments(m, v))), (mean, var))


def test_leaky_relu_limits_need_no_clamp():
    x = Moments(np.array([4.0, -4.0, 0.0, 1e9, -1e9]), np.array([0.0, 0.0, 0.0, 1.0, 1.0]))
    out = OPS["leaky_relu"].formula(NUMPY, x, negative_slope=0.1)
    np.testing.assert_array_equal(out.mean, [4.0, -0.4, 0.0, 1e9, -1e8])
    np.testing.assert_allclose(out.var, [0.0, 0.0, 0.0, 1.0, 0.01], rtol=1e-12)


def test_paper_form_agrees_inside_the_clamp_and_overstates_the_variance_outside():
    exact, paper = OPS["leaky_relu"].formula, OPS["leaky_relu_clamped"].formula
    inside = Moments(np.linspace(-2.9, 2.9, 30), np.ones(30))
    np.testing.assert_allclose(
        paper(NUMPY, inside, negative_slope=0.01, clamp=3.0), exact(NUMPY, inside, negative_slope=0.01), rtol=1e-10
    )
    outside = Moments(np.array([-10.0]), np.array([1.0]))
    ratio = paper(NUMPY, outside, negative_slope=0.01, clamp=3.0).var / exact(NUMPY, outside, negative_slope=0.01).var
    assert 580 < ratio[0] < 600


@pytest.mark.parametrize("name", ["variance_head", "variance_head_point"])
def test_variance_head_adds_the_learned_noise_to_the_weights_own(name):
    """y = mu + sqrt(softplus(E[s])) e with e standard normal: total variance by the law of total variance."""
    mean, var = np.array([[0.3, -1.0, -2.0, 5.0]]), np.array([[0.2, 0.4, 9.0, 9.0]])
    x = mean if name.endswith("point") else Moments(mean, var)
    out = OPS[name].formula(NUMPY, x)
    noise = [float(mp.log(1 + mp.exp(s))) for s in (-2, 5)]
    own = [0.0, 0.0] if name.endswith("point") else [0.2, 0.4]
    np.testing.assert_allclose(out.mean, [[0.3, -1.0]])
    np.testing.assert_allclose(out.var, [[own[0] + noise[0], own[1] + noise[1]]], rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.linear.linear_shape((3,), (2, 4), (2,)), "does not fit weight"),
        (lambda: ops.conv.conv_shape((1, 2), (1, 1, 3), (1,), (1,), (0,), (1,), 1), "larger than the padded input"),
        (lambda: ops.conv.conv_shape((3, 9), (2, 1, 3), (2,), (1,), (0,), (1,), 2), "in 2 groups"),
        (lambda: ops.conv.conv_shape((2, 9), (3, 1, 3), (3,), (1,), (0,), (1,), 2), "in 2 groups"),
        (lambda: ops.conv.conv_shape((1, 9), (1, 1, 3), (1,), (0,), (0,), (1,), 1), "must be at least 1"),
        (lambda: ops.conv.conv_shape((1, 9), (1, 1, 3), (1,), (1,), (0,), (0,), 1), "must be at least 1"),
        (lambda: ops.conv.conv_shape((1, 9), (1, 1, 3), (1,), (1,), (-1,), (1,), 1), "padding at least 0"),
        (lambda: ops.avg_pool.avg_pool_shape((1, 9), (2,), (2,), (2,), False, True), "at most half"),
        (lambda: ops.avg_pool.avg_pool_shape((1, 9, 9), (2, 0), (1, 1), (0, 0), False, True), "must be at least 1"),
        (lambda: ops.avg_pool.avg_pool_shape((1, 9, 9), (2, 2), (1, -1), (0, 0), False, True), "must be at least 1"),
        (lambda: ops.avg_pool.avg_pool_shape((1, 9, 9), (2, 2), (1, 1), (0, -1), False, True), "padding at least 0"),
        (lambda: ops.structure.add_shape((2,), (3,)), "differ"),
        (lambda: ops.structure.concat_shape((2, 2), (2, 3), axis=0), "along axis 0"),
        (lambda: ops.affine.affine_shape((2,), (3,), ()), "do not fit input"),
        (lambda: ops.variance_head.variance_head_shape((3,)), "even number"),
        (lambda: ops.find("gelu"), "unknown operator 'gelu'"),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, message):
    with pytest.raises(LbnnError, match=message):
        call()


KINDS = ("multilinear", "correlated", "pointwise", "moments", "clamped", "tournament", "smooth")


def test_every_operator_names_its_oracle_samples_and_point_form():
    for op in OPS.values():
        assert op.samples and op.kind in KINDS, op.name
        assert op.point_inputs or op.arity == 0 or op.point_form or op.is_mixed, op.name
