"""Derives every fitted constant of lbnn/ops/mills.py and prints it with its error: `python tools/derive/fit_mills.py`.

The same fits as in fit_tail.py: here of the ratio J4 / J3, and of a quadrature for the moments up to J4.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np

from fit_tail import RatioFit, all_moments, fit_quadrature, fit_ratio, print_values, ratio_error

RATIO_FITS = {"float32": RatioFit(4, 10.5, 6.0), "float64": RatioFit(10, 39.0, 6.0)}
QUADRATURE_POINTS, QUADRATURE_REACH, ORDERS = 9, 10.0, 5


def exact_ratio(x: mp.mpf) -> mp.mpf:
    """J4 / J3."""
    *_, j3, j4 = all_moments(x, ORDERS)
    return j4 / j3


def print_ratio_tables() -> None:
    """The ratio in both precisions."""
    for name, fit in RATIO_FITS.items():
        dtype = np.dtype(name).type
        tables = fit_ratio(fit, exact_ratio)
        exact, rounded = (ratio_error(*tables, fit.end, t, exact_ratio) for t in (np.float64, dtype))
        print(f"J4 / J3 on [0, {fit.end}]: relative error {exact:.1e}, computed in {name} {rounded:.1e}")
        for part, values in zip(("NUMERATOR", "DENOMINATOR"), tables, strict=True):
            print_values(f"{part}_{name.upper()}", values)


def print_quadrature() -> None:
    """The chosen rule."""
    nodes, weights, error = fit_quadrature(QUADRATURE_POINTS, QUADRATURE_REACH, ORDERS)
    print(f"\n{QUADRATURE_POINTS} points on [0, {QUADRATURE_REACH}]: relative error {error:.1e}")
    for name, values in (("MILLS_NODES", nodes), ("MILLS_WEIGHTS", weights * np.exp(-0.5 * nodes**2))):
        print_values(name, values)


if __name__ == "__main__":
    print_ratio_tables()
    print_quadrature()
