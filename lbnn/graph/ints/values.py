"""Values in integers, for a batch: wide ones as layers leave them, narrow ones as layers take them."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn.graph.ints.fixed import Whole


@dataclass(frozen=True)
class Wide:
    """Means and variances of up to 31 bits [n, elements], and an exponent [n] for each."""

    mean: Whole
    mean_exponent: Whole
    var: Whole
    var_exponent: Whole


@dataclass(frozen=True)
class Narrow:
    """Means below 2^15 and sigmas up to 2^14 [n, elements], and an exponent [n] for each.

    Without a variance sigmas are zeros, and the exponent is NONE.
    """

    mean: Whole
    mean_exponent: Whole
    sigma: Whole
    sigma_exponent: Whole
