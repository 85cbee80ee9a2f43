"""Derives the constants of lbnn/ops/softmax.py, lbnn/ops/sigmoid.py and lbnn_heads.h and prints them with their errors.

    python tools/derive/fit_gumbel.py

Four normals stand for the Gumbel density. They are fitted where they are needed first, widened by a logit of variance
1/2: to its distribution, its density and E[y g(y)], with the mean and the variance of Gumbel noise. Four bell curves
stand for the entropy of the logistic function, by least squares. In C the normal distribution beyond x is its density
times a polynomial in 1 / (1 + p x), with the least largest error for the p that has the least of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import least_squares, minimize_scalar
from scipy.special import erfcx, ndtr

from lbnn.ops.softmax import EULER_GAMMA, NARROW

NOISE = np.arange(-4.0, 42.0, 0.25)
WEIGHTS = np.exp(-NOISE - np.exp(-NOISE)) * 0.25
T = np.linspace(-8.0, 16.0, 160)[:, None]
START = np.concatenate([np.log([10.0, 15.0, 6.0]), [-0.44, 0.61, 1.93, 3.3], np.log([0.55, 0.81, 1.22, 2.05])])


def widened(mean: Any, sd: Any, weight: Any) -> Any:
    """Distribution, density and E[y g(y)] of noise that is a sum of normals, plus a logit of variance 1/2."""
    spread = np.sqrt(NARROW + sd * sd)
    d = (T - mean) / spread
    density = np.exp(-d * d / 2) / np.sqrt(2 * np.pi) / spread * weight
    noise = mean + sd * sd / spread**2 * (T - mean)
    return np.stack([(ndtr(d) * weight).sum(1), density.sum(1), (density * noise).sum(1)])


TRUE = widened(NOISE, np.zeros_like(NOISE), WEIGHTS)


def normals(x: Any) -> tuple[Any, Any, Any]:
    """Weights, means and standard deviations from the eleven free numbers."""
    weight = np.exp(np.append(x[:3], 0.0))
    return weight / weight.sum(), x[3:7], np.exp(x[7:])


def gumbel_residuals(x: Any) -> Any:
    """What is to be zero."""
    weight, mean, sd = normals(x)
    centre = weight @ mean
    spread = weight @ (mean**2 + sd**2) - centre**2
    gaps = (widened(mean, sd, weight) - TRUE) * np.array([[1.0], [0.5], [0.5]])
    return np.concatenate([gaps.reshape(-1), [30 * (centre - EULER_GAMMA), 10 * (spread - np.pi**2 / 6)]])


def entropy_residuals(x: Any) -> Any:
    """The sum of the bell curves less the entropy of the logistic function."""
    z = np.linspace(0.0, 30.0, 1200)
    entropy = np.logaddexp(0.0, -z) + z * np.exp(-np.logaddexp(0.0, z))
    return (np.exp(x[:4]) * np.exp(-(z[:, None] ** 2) / 2 / np.exp(2 * x[4:]))).sum(1) - entropy


def mills_fit(p: float, terms: int, rounds: int = 300) -> tuple[Any, float]:
    """Coefficients of t, t^2, ... and the largest error of the distribution, by Lawson's weights."""
    x = np.linspace(0.0, 11.0, 4001)
    density, ratio = np.exp(-x * x / 2) / np.sqrt(2 * np.pi), np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
    powers = (1 / (1 + p * x))[:, None] ** np.arange(1, terms + 1)
    weight, found = np.full_like(x, 1 / len(x)), np.zeros(terms)
    for _ in range(rounds):
        scale = np.sqrt(weight) * density
        found = np.linalg.lstsq(powers * scale[:, None], ratio * scale, rcond=None)[0]
        weight = weight * np.abs((powers @ found - ratio) * density)
        weight /= weight.sum()
    return found, float(np.abs((powers @ found - ratio) * density).max())


def print_mills(terms: int, near: tuple[float, float]) -> None:
    """The polynomial of so many terms, its p looked for between two numbers."""
    p = float(minimize_scalar(lambda p: mills_fit(p, terms, 100)[1], bounds=near, method="bounded").x)
    found, error = mills_fit(p, terms)
    print(f"Mills' ratio in t = 1 / (1 + {p:.8f} x), off by {error:.1e} times a density: {', '.join(map(str, found))}")


def main() -> None:
    """All fits."""
    fitted: Any = least_squares(gumbel_residuals, START, xtol=1e-14, ftol=1e-14, max_nfev=400)
    weight, mean, sd = normals(fitted.x)
    errors = np.abs(widened(mean, sd, weight) - TRUE).max(axis=1)
    print("GUMBEL_NORMALS; distribution, density and E[y g(y)] off by", ", ".join(f"{error:.1e}" for error in errors))
    for row in sorted(zip(mean, weight, sd, strict=True)):
        print(f"    ({row[1]:.9f}, {row[0]:.9f}, {row[2]:.9f}),")
    start = np.concatenate([np.log(np.full(4, 0.17)), np.log(np.linspace(1.0, 5.0, 4))])
    bells: Any = least_squares(entropy_residuals, start, xtol=1e-15, ftol=1e-15, max_nfev=600)
    print(f"ENTROPY_BELLS; off by {np.abs(entropy_residuals(bells.x)).max():.1e}")
    for width, height in sorted(zip(np.exp(bells.x[4:]), np.exp(bells.x[:4]), strict=True)):
        print(f"    ({height:.9f}, {width:.9f}),")
    print_mills(4, (0.40, 0.44))
    print_mills(5, (0.31, 0.35))


if __name__ == "__main__":
    main()
