"""The constants of c_runtime/lbnn_smooth.h: Gauss-Hermite points, the triangles of the variance, tanh near zero.

python tools/derive/smooth_constants.py

The slopes at +-z_i enter the variance as sums and differences alone: even Hermite polynomials take the former, odd ones
the latter. A QR decomposition makes either matrix a triangle with the same sum of squares.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import chebyshev, polynomial

from lbnn.ops.smooth_rule import HERMITE, NODES, POINTS, WEIGHTS

MIDDLE = POINTS // 2
TANH_END = 0.6


def triangle(parity: int) -> np.ndarray:
    """Of the even or the odd Hermite polynomials; columns from the middle outwards."""
    columns = HERMITE[parity::2, MIDDLE + parity :]
    upper = np.linalg.qr(columns, mode="r")
    return upper * np.sign(np.diag(upper))[:, None]


def tanh_polynomial(degree: int = 4) -> np.ndarray:
    """(tanh(x) / x - 1) / x^2 as a polynomial in x^2, interpolated at Chebyshev points of [0, TANH_END^2]."""
    nodes = (chebyshev.chebpts1(degree + 1) + 1.0) * TANH_END**2 / 2.0
    return polynomial.polyfit(nodes, (np.tanh(np.sqrt(nodes)) / np.sqrt(nodes) - 1.0) / nodes, degree)


def show(name: str, numbers: np.ndarray) -> None:
    """As C writes them."""
    print(f"{name}: " + ", ".join(f"{number:.9g}f" for number in numbers))


def main() -> None:
    """Prints all of them, and how far tanh's polynomial is off."""
    show("points", NODES[MIDDLE + 1 :])
    show("weights", WEIGHTS[MIDDLE + 1 :])
    for name, parity in (("sums", 0), ("differences", 1)):
        for k, row in enumerate(triangle(parity)):
            show(f"{name} {k}", row[k:])
    c = tanh_polynomial()
    show("(tanh(x) / x - 1) / x^2 in x^2", c)
    x = np.linspace(1e-3, TANH_END, 10001)
    fitted = x + x * x * x * polynomial.polyval(x * x, c)
    print(f"relative error of tanh {np.abs(fitted / np.tanh(x) - 1.0).max():.1e}")


if __name__ == "__main__":
    main()
