"""Derives the fitted constants of lbnn/ops/tail.py and tail_scaled.py: `python tools/derive/fit_tail.py`.

Ratio tables: rho = J2 / I1 is interpolated by a rational function (degree n-1 over n) at 2n Chebyshev nodes
of u = (x - d) / (x + d). All its coefficients come out positive, so that Horner's rule cancels nothing. The
shift d moves nodes towards 0 (small d) or towards the end (large d); the chosen d has the least error.

Quadrature: the nodes t_k minimise the squared relative errors of (Q, I1, J2) over [0, reach], with the
weights eliminated (for given nodes they are a linear least-squares problem). Without that elimination the
problem is too ill-conditioned for float64. The start is the Gauss rule of exp(-t^2/2 - reach t/2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

Array = npt.NDArray[np.float64]
Exact = Callable[[mp.mpf], mp.mpf]

mp.mp.dps = 60


@dataclass(frozen=True)
class RatioFit:
    """Degree of the denominator, end of the range, node shift and start of one table of lbnn/ops/tail.py."""

    degree: int
    end: float
    shift: float
    start: float = 0.0


RATIO_FITS = {"float32": RatioFit(4, 10.5, 4.5), "float64": RatioFit(10, 39.0, 5.0)}
SCALED_FIT = RatioFit(4, 6.0, 3.0, -0.4)
QUADRATURE_POINTS, QUADRATURE_REACH = 7, 8.5


def exact_moments(x: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """(Q, I1, J2); 60 digits leave at least 40 after the cancellation for x <= 40."""
    q = mp.erfc(x / mp.sqrt(2)) / 2
    i1 = mp.npdf(x) - x * q
    return q, i1, q - x * i1


def exact_ratio(x: mp.mpf) -> mp.mpf:
    """J2 / I1."""
    _, i1, j2 = exact_moments(x)
    return j2 / i1


def chebyshev_nodes(count: int, fit: RatioFit) -> list[mp.mpf]:
    """Chebyshev nodes of u = (y - d) / (y + d), y the distance from the start."""
    length = mp.mpf(fit.end) - fit.start
    top = 2 * length / (length + fit.shift)  # u + 1 at the end
    lifted = [top * (1 - mp.cos(mp.pi * (2 * k + 1) / (2 * count))) / 2 for k in range(count)]
    return [fit.shift * v / (2 - v) + fit.start for v in lifted]


def fit_ratio(fit: RatioFit, ratio: Exact = exact_ratio) -> tuple[list[float], list[float]]:
    """Coefficients, highest power first, of the numerator and of the denominator without its leading 1."""
    n = fit.degree
    nodes = chebyshev_nodes(2 * n, fit)
    values = [ratio(x) for x in nodes]
    powers = range(n - 1, -1, -1)
    rows = [[x**k for k in powers] + [-f * x**k for k in powers] for x, f in zip(nodes, values, strict=True)]
    right = [f * x**n for x, f in zip(nodes, values, strict=True)]
    solution = [float(c) for c in mp.lu_solve(mp.matrix(rows), mp.matrix(right))]
    return solution[:n], solution[n:]


def ratio_error(
    numerator: list[float],
    denominator: list[float],
    end: float,
    dtype: type[np.floating[Any]],
    ratio: Exact = exact_ratio,
) -> float:
    """Largest relative error on [0, end] when computed in dtype."""
    x = np.linspace(0, end, 2001).astype(dtype)
    exact = np.array([float(ratio(mp.mpf(float(v)))) for v in x])
    top, bottom = (np.polyval(np.array(c, dtype), x) for c in (numerator, [1.0, *denominator]))
    return float(np.max(np.abs(top / bottom / exact - 1)))


def gauss_start(points: int, tilt: float) -> Array:
    """Nodes of the Gauss rule for exp(-t^2/2 - tilt t) on [0, inf), whose moments are
    h[k+1] = k h[k-1] - tilt h[k], through the Jacobi matrix of their Cholesky factor.
    """
    c = mp.mpf(tilt)
    q, i1, _ = exact_moments(c)
    h = [q, i1]
    for k in range(1, 2 * points):
        h.append(k * h[k - 1] - c * h[k])
    r = mp.cholesky(mp.matrix([[h[i + j] for j in range(points + 1)] for i in range(points + 1)])).T
    step = [r[k, k + 1] / r[k, k] for k in range(points)]
    diagonal = [step[0]] + [step[k] - step[k - 1] for k in range(1, points)]
    beside = [float(r[k + 1, k + 1] / r[k, k]) for k in range(points - 1)]
    jacobi = np.diag([float(v) for v in diagonal]) + np.diag(beside, 1) + np.diag(beside, -1)
    return np.asarray(np.linalg.eigvalsh(jacobi))


def all_moments(x: mp.mpf, orders: int) -> list[mp.mpf]:
    """Q, I1, J2, J3, ...: the first so many."""
    moments = list(exact_moments(x))
    for k in range(2, orders - 1):
        moments.append(k * moments[k - 1] - x * moments[k])
    return moments


def scaled_moments(x: Array, orders: int) -> Array:
    """Q, I1, J2, ... over exp(-x^2/2), one row each."""
    rows = [[float(m * mp.exp(mp.mpf(v) ** 2 / 2)) for m in all_moments(mp.mpf(v), orders)] for v in x]
    return np.array(rows).T


def relative_features(log_t: Array, x: Array, exact: Array) -> tuple[Array, Array]:
    """A[(j, x), k] = t_k^j exp(-x t_k) / exact_j(x) and its derivative by log t_k."""
    xt = np.outer(x, np.exp(log_t))
    a = np.vstack([np.exp(j * log_t - xt) / exact[j][:, None] for j in range(len(exact))])
    return a, a * np.vstack([j - xt for j in range(len(exact))])


def project(log_t: Array, x: Array, exact: Array) -> tuple[Array, Array, Array]:
    """Best weights for the nodes, the relative errors left, and their derivative by log t (Kaufman's)."""
    a, da = relative_features(log_t, x, exact)
    basis, triangle = np.linalg.qr(a)
    weights = np.linalg.solve(triangle, basis.sum(axis=0))
    slope = da * weights
    return weights, a @ weights - 1, slope - basis @ (basis.T @ slope)


def fit_quadrature(points: int, reach: float, orders: int = 3) -> tuple[Array, Array, float]:
    """Nodes, weights of exp(-(x + t)^2 / 2), and the largest relative error of Q, I1, ... on [0, reach]."""
    x = reach / 2 * (1 - np.cos(np.pi * (np.arange(200) + 0.5) / 200))
    exact = scaled_moments(x, orders)
    found = least_squares(
        lambda p: 1e6 * project(p, x, exact)[1],  # scaled: the solver's tolerances are absolute in part
        np.log(gauss_start(points, reach / 2)),
        jac=lambda p: 1e6 * project(p, x, exact)[2],
        method="lm", x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=2000,
    )  # fmt: skip
    weights, errors, _ = project(found.x, x, exact)
    nodes = np.exp(found.x)
    return nodes, weights * np.exp(nodes**2 / 2), float(np.abs(errors).max())


def print_values(name: str, values: Iterable[float]) -> None:
    """As Python source."""
    print(f"{name} = (", *(f"    {float(v)!r}," for v in values), ")", sep="\n")


def print_ratio_tables() -> None:
    """rho in both precisions."""
    for name, fit in RATIO_FITS.items():
        dtype = np.dtype(name).type
        tables = fit_ratio(fit)
        exact, rounded = (ratio_error(*tables, fit.end, t) for t in (np.float64, dtype))
        print(f"rho on [0, {fit.end}]: relative error {exact:.1e}, computed in {name} {rounded:.1e}")
        for part, values in zip(("NUMERATOR", "DENOMINATOR"), tables, strict=True):
            print_values(f"{part}_{name.upper()}", values)


def print_scaled_table() -> None:
    """rho from a little below zero on, for what is divided by the density."""
    numerator, denominator = fit_ratio(SCALED_FIT)
    worst = [0.0, 0.0, 0.0]
    for x in np.linspace(SCALED_FIT.start, SCALED_FIT.end, 1001):
        j2, i1 = np.polyval(numerator, x), np.polyval([1.0, *denominator], x)
        fitted = np.array([x * i1 + j2, i1, j2]) / (i1 + x * (x * i1 + j2))
        exact = [float(part / mp.npdf(mp.mpf(x))) for part in exact_moments(mp.mpf(x))]
        worst = [max(w, abs(a / b - 1)) for w, a, b in zip(worst, fitted, exact, strict=True)]
    print(
        f"\nscaled, on [{SCALED_FIT.start}, {SCALED_FIT.end}]: relative errors of Q, I1, J2",
        *(f"{w:.1e}" for w in worst),
    )
    for name, values in (("numerator", numerator), ("denominator", denominator)):
        print_values(name, values)


def print_quadrature_errors() -> None:
    """What each further exponential buys."""
    reaches = (4.5, 5.0, 6.0, 8.0, 10.0)
    print("\nquadrature, relative error on [0, reach]\npoints" + "".join(f"{r:10.1f}" for r in reaches))
    for points in range(4, 13):
        print(f"{points:6}" + "".join(f"{fit_quadrature(points, r)[2]:10.1e}" for r in reaches))


def print_quadrature() -> None:
    """The chosen rule."""
    nodes, weights, error = fit_quadrature(QUADRATURE_POINTS, QUADRATURE_REACH)
    print(f"\n{QUADRATURE_POINTS} points on [0, {QUADRATURE_REACH}]: relative error {error:.1e}")
    for name, values in (("TAIL_NODES", nodes), ("TAIL_WEIGHTS", weights)):
        print_values(name, values)


if __name__ == "__main__":
    print_ratio_tables()
    print_scaled_table()
    print_quadrature_errors()
    print_quadrature()
