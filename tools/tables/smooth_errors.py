"""How far the rule for smooth activations is from quadrature: the table of docs/layers.md.

    python tools/tables/smooth_errors.py

For each function and sigma the largest errors over means from -10 to 10: of the mean in units of the result's standard
deviation, of the variance relative to it. GELU nears its line like e^(-x^2/2), below -4 with variances under 1e-7 of
the input's: it is measured from -4 on.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from lbnn.base.moments import Moments
from lbnn.graph.reference import NUMPY
from lbnn.ops import OPS
from lbnn.ops.smooth_functions import FUNCTIONS

SIGMAS = (1e-4, 0.1, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 5.0, 20.0, 100.0)
FARTHEST = {"gelu": -4.0, "gelu_tanh": -4.0}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def true_moments(name: str, means: np.ndarray, sigma: float) -> Moments[np.ndarray]:
    """By Gauss-Legendre between panels that are fine for both the Gaussian and the function's bend."""
    found = [_true(name, float(mean), sigma) for mean in means]
    return Moments(*(np.array(parts) for parts in zip(*found, strict=True)))


def _true(name: str, mean: float, sigma: float) -> tuple[float, float]:
    """The differences from f(E) are integrals of f', so that nothing cancels where sigma is small."""
    reach = 9.5 * sigma + 4.0 * sigma * sigma if sigma < 2.5 else 9.5 * sigma
    coarse, fine = np.linspace(mean - reach, mean + reach, 41), np.linspace(-36.0, 36.0, 145)
    edges = np.union1d(coarse, fine[np.abs(fine - mean) < reach])
    half = 0.5 * np.diff(edges)[:, None]
    x = (edges[:-1, None] + half * (1.0 + NODES)).ravel()
    mass = (half * WEIGHTS).ravel() * np.exp(-0.5 * ((x - mean) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    g = _rise(name, mean, x) if sigma < 0.05 else _value(name, x) - _value(name, np.array(mean))
    first = float(mass @ g)
    return float(_value(name, np.array(mean))) + first, float(mass @ (g - first) ** 2)


def _value(name: str, x: np.ndarray) -> np.ndarray:
    return np.asarray(FUNCTIONS[name].oracle(torch.as_tensor(x)).numpy())


def _rise(name: str, mean: float, x: np.ndarray) -> np.ndarray:
    """f(x) - f(mean) as (x - mean) times the mean slope between."""
    at = torch.tensor(mean + (x - mean)[:, None] * 0.5 * (1.0 + NODES), requires_grad=True)
    (slopes,) = torch.autograd.grad(FUNCTIONS[name].oracle(at).sum(), at)
    return (x - mean) * (slopes.numpy() @ (0.5 * WEIGHTS))


def worst(name: str, sigma: float) -> tuple[float, float]:
    """The largest errors over all means."""
    means = np.linspace(FARTHEST.get(name, -10.0), 10.0, 41)
    truth = true_moments(name, means, sigma)
    got = OPS["smooth"].formula(NUMPY, Moments(means, np.full_like(means, sigma**2)), function=name, scale=1.0)
    return mean_error(got, truth), float(np.abs(got.var / truth.var - 1.0).max())


def mean_error(got: Moments[np.ndarray], truth: Moments[np.ndarray]) -> float:
    """In units of the standard deviation; float64 itself is allowed its last two digits."""
    own = 1e-14 * np.abs(truth.mean)
    return float(np.max(np.maximum(np.abs(got.mean - truth.mean) - own, 0.0) / np.sqrt(truth.var)))


def shown(error: float) -> str:
    """One digit; below that of float32 none."""
    return f"{error:.0e}" if error >= 1e-6 else "< 1e-6"


def main() -> int:
    """Prints the table."""
    print("| sigma | " + " | ".join(name.replace("_", " ") for name in FUNCTIONS) + " |")
    print("| ---: |" + " ---: |" * len(FUNCTIONS))
    for sigma in SIGMAS:
        cells = [" / ".join(map(shown, worst(name, sigma))) for name in FUNCTIONS]
        print(f"| {sigma:g} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
