"""Stored functions: the rule against quadrature for every mean and sigma, its limits, its gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lbnn import Moments
from lbnn.base.errors import LbnnError
from lbnn.graph.reference import NUMPY
from lbnn.nn.tabulating import sample_function
from lbnn.ops import OPS
from lbnn.ops.stored_function import TABLE_ATTRIBUTES
from lbnn.ops.tabulated import TABLE_EXAMPLES
from lbnn.ops.torch import TORCH, compute

TABULATED, POINT = OPS["tabulated"], OPS["tabulated_point"]
# f, range: what docs/layers.md lists, with the errors that it promises of the mean and of the standard deviation, in
# units of the latter (or of a tenth of the largest for that sigma): for sigma within a cell, and from 1.1 cells on.
SMOOTH, CORNER = (3e-3, 5e-3, 2e-4, 1e-4), (4e-2, 1.2e-1, 2e-4, 2e-4)
CASES = {
    "sin": (torch.sin, (-8.0, 8.0), CORNER),
    "bell": (lambda x: torch.exp(-x * x), (-8.0, 8.0), SMOOTH),
    "softsign": (F.softsign, (-8.0, 8.0), CORNER),
    "mish": (F.mish, (-16.0, 8.0), SMOOTH),
    "swish": (lambda x: x * torch.sigmoid(1.7 * x), (-8.0, 8.0), SMOOTH),
    "log": (lambda x: torch.log1p(x * x), (-8.0, 8.0), SMOOTH),
    "tanhshrink": (F.tanhshrink, (-8.0, 8.0), SMOOTH),
    "cube": (lambda x: x**3, (-3.0, 3.0), SMOOTH),
    "logsigmoid": (F.logsigmoid, (-8.0, 8.0), SMOOTH),
    "root": (lambda x: torch.sqrt(1.0 + x * x), (-8.0, 8.0), SMOOTH),
    "atan": (torch.atan, (-8.0, 8.0), SMOOTH),
    "celu": (F.celu, (-8.0, 8.0), CORNER),
    "sinc": (torch.sinc, (-6.0, 7.0), SMOOTH),
}
TABLES = {name: sample_function(f, span, 128)[0] for name, (f, span, _) in CASES.items()}


def quadrature(name: str, mean: np.ndarray, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of f, which goes on as a line beyond its range, by 4,001 points for each Gaussian."""
    f, (low, high), _ = CASES[name]
    z = np.linspace(-8.0, 8.0, 4001)
    mass = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    x = torch.tensor(mean[:, None] + sigma[:, None] * z)
    inside = x.clamp(low, high)
    ends = torch.tensor([low, high], dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(f(ends).sum(), ends)
    found = (f(inside) + torch.where(x < low, slopes[0], slopes[1]) * (x - inside)).numpy()
    centre = found @ mass
    return centre, np.sqrt((found - centre[:, None]) ** 2 @ mass)


@pytest.mark.parametrize("name", CASES)
def test_random_gaussians_have_the_moments_of_the_quadrature(name):
    """Sigma from 0 to 20, half of them within two cells; means within the range and beyond."""
    rng, (_, (low, high), promised) = np.random.default_rng(len(name)), CASES[name]
    step = TABLES[name]["step"]
    sigma = np.concatenate([2.0 * step * rng.uniform(size=60), 20.0 * rng.uniform(size=60) ** 2])
    mean = rng.uniform(low - 1.0, high + 1.0, size=120)
    true, sd = quadrature(name, mean, sigma)
    got = TABULATED.formula(NUMPY, Moments(mean, sigma**2), **TABLES[name])
    width = float(np.ptp(TABLES[name]["values"])) / (high - low)
    unit = np.maximum(sd, 0.1 * width * np.minimum(sigma, high - low))
    value = 1e-5 * np.ptp(TABLES[name]["values"])  # of the cubics: what is left as sigma goes to 0
    wide = sigma > 1.1 * step
    errors = np.maximum(np.abs(got.mean - true) - value, 0.0) / unit, np.abs(np.sqrt(got.var) - sd) / unit
    for error, near, far in zip(errors, promised[:2], promised[2:], strict=True):
        assert error[~wide].max() <= near and error[wide].max() <= far


@pytest.mark.parametrize("attrs", TABLE_EXAMPLES)
def test_a_known_value_has_no_variance_and_the_value_of_the_function(attrs):
    x = np.array([-1e6, -50.0, -4.0, -3.9, -1e-30, 0.0, 1e-30, 0.7, 3.0, 4.0, 50.0, 1e6])
    out = TABULATED.formula(NUMPY, Moments(x, np.zeros_like(x)), **attrs)
    np.testing.assert_array_equal(out.mean, POINT.formula(NUMPY, x, **attrs))
    np.testing.assert_allclose(out.mean, TABULATED.oracle(torch.tensor(x), **attrs).numpy(), rtol=1e-12, atol=1e-13)
    assert not out.var.any()


def test_a_line_keeps_its_moments_and_so_does_every_gaussian_far_beyond_the_table():
    x = Moments(np.array([-30.0, -8.0, 0.01, 7.9, 1e4]), np.array([1e-6, 0.3, 4.0, 900.0, 1.0]))
    line = sample_function(lambda y: 3.0 * y - 2.0, (-8.0, 8.0), 64)[0]
    out = TABULATED.formula(NUMPY, x, **line)
    np.testing.assert_allclose(out.mean, 3.0 * x.mean - 2.0, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out.var, 9.0 * x.var, rtol=1e-4)
    far = TABULATED.formula(NUMPY, Moments(np.array([-400.0, 400.0]), np.array([1.0, 1.0])), **TABLE_EXAMPLES[0])
    slopes = np.array([TABLE_EXAMPLES[0]["slopes"][i] for i in (0, -1)])
    np.testing.assert_allclose(far.var, slopes**2, rtol=1e-9)


@pytest.mark.parametrize("attrs", TABLE_EXAMPLES)
def test_no_step_where_the_rules_meet_and_at_the_ends_of_cells(attrs):
    """The moments are continuous in sigma and in the mean: neighbours a thousandth apart are near each other."""
    sigma = np.linspace(0.9, 1.3, 801) * attrs["step"]
    for mean in (-4.3, -1.0, 0.3, 2.5):
        out = TABULATED.formula(NUMPY, Moments(np.full_like(sigma, mean), sigma**2), **attrs)
        assert np.abs(np.diff(out.mean)).max() < 2e-3 and np.abs(np.diff(np.sqrt(out.var))).max() < 2e-3
    mean = np.linspace(-9.0, 9.0, 18001)
    for sigma in (0.01, 0.4, 3.0):
        out = TABULATED.formula(NUMPY, Moments(mean, np.full_like(mean, sigma**2)), **attrs)
        assert np.abs(np.diff(out.mean)).max() < 2e-3 and np.abs(np.diff(np.sqrt(out.var))).max() < 4e-3 * sigma


@pytest.mark.parametrize("var", [0.0, 1e-10, 0.05, 0.2, 0.5, 30.0])
def test_gradients_are_those_of_the_rule_and_near_those_of_the_mathematics(var):
    """Against differences of the rule in float64; and Price: dE'/dE = E f', dE'/dV = E f'' / 2."""
    attrs, mean = TABLES["sin"], torch.linspace(-3.0, 3.0, 13, dtype=torch.float64) + 0.011
    parts = [mean.clone().requires_grad_(), torch.full_like(mean, var).requires_grad_()]
    out = compute(TABULATED, Moments(*parts), **attrs)
    for kind in ("mean", "var"):
        gradients = torch.autograd.grad(getattr(out, kind).sum(), parts, retain_graph=True)
        for i, gradient in enumerate(gradients):
            ends = [[part.detach().numpy().copy() for part in parts] for _ in range(2)]
            ends[0][i] -= 0.0 if i == 1 and var < 1e-6 else 1e-6
            ends[1][i] += 1e-6
            below, above = (getattr(TABULATED.formula(NUMPY, Moments(*end), **attrs), kind) for end in ends)
            np.testing.assert_allclose(gradient, (above - below) / (ends[1][i] - ends[0][i]), rtol=1e-4, atol=1e-5)
    to_mean, to_var = torch.autograd.grad(out.mean.sum(), parts)
    blur = float(np.exp(-0.5 * var))
    if var < 1.0:  # beyond, the lines of the table count
        torch.testing.assert_close(to_mean, torch.cos(mean) * blur, rtol=0.0, atol=2e-3)
        torch.testing.assert_close(to_var, torch.sin(mean) * blur * -0.5, rtol=0.0, atol=1e-2)


def test_gradients_are_finite_everywhere_in_float32():
    mean = torch.tensor([-1e4, -3.0, -1e-6, 0.0, 1e-6, 3.0, 1e4, 1e30]).repeat(4).requires_grad_()
    var = torch.tensor([0.0, 1e-12, 1.0, 1e6]).repeat_interleave(8).requires_grad_()
    out = compute(TABULATED, Moments(mean, var), **TABLES["tanhshrink"])
    gradients = torch.autograd.grad((out.mean + out.var).sum(), [mean, var])
    assert all(bool(torch.isfinite(part).all()) for part in (*out, *gradients))


@pytest.mark.parametrize("xp", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_what_is_no_number_stays_none(xp):
    x, one = (torch.tensor(numbers) for numbers in ([np.nan, np.inf, -np.inf], [1.0] * 3))
    given = Moments(x, one) if xp is TORCH else Moments(x.double().numpy(), one.double().numpy())
    out = TABULATED.formula(xp, given, **TABLES["sin"])
    assert not np.isfinite(np.asarray(out.mean)).any()


def test_half_precision_is_computed_in_float32():
    x = Moments(torch.randn(9).half(), torch.rand(9).half())
    out = compute(TABULATED, x, **TABLES["mish"])
    wide = compute(TABULATED, Moments(x.mean.float(), x.var.float()), **TABLES["mish"])
    assert out.mean.dtype == torch.float16 and compute(POINT, x.mean, **TABLES["mish"]).dtype == torch.float16
    torch.testing.assert_close(out.var, wide.var.half())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("values", [0.0] * 8, "values must be a list of 9 to 1025 numbers"),
        ("values", "sin", "values must be a list"),
        ("slopes", [0.0] * 8 + [float("nan")], "slopes must be a number"),
        ("step", 0.0, "step must be a number from"),
        ("start", None, "start must be a number"),
    ],
)
def test_a_file_with_another_table_is_refused(key, value, message):
    with pytest.raises(LbnnError, match=message):
        TABLE_ATTRIBUTES[key](key, value)
    with pytest.raises(LbnnError, match="a slope for each value"):
        TABULATED.shape((3,), **(TABLE_EXAMPLES[0] | {"slopes": (0.0,) * 9}))
