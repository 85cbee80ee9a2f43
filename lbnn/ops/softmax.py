"""Class probabilities of Gaussian logits: the mean of the softmax, and how its entropy parts.

Softmax is argmax after Gumbel noise. With z_k ~ N(m_k, v_k), g the Gumbel density, F_k(t) = E exp(-exp(z_k - t)) the
distribution of z_k plus noise and f_k its density,

    E p_k     = int f_k(t) prod_{j != k} F_j(t) dt
    aleatoric = E logsumexp(z) - sum_k E[p_k z_k] = sum_k int E[(t - z_k) g(t - z_k)] prod_{j != k} F_j(t) dt - gamma

One sweep over t does for all classes, in place of an integral over K logits. F_k is a sum over five Gauss-Hermite
points for v_k < 1/2; above, the Gumbel density is four normals, so that each term is a normal distribution. Both err by
3e-4 where they meet. At v = 0 every f_k / F_k is proportional to exp(m_k) at each t, so that dividing by the sum makes
the plain softmax of it, exactly. tools/derive/fit_gumbel.py fits the normals; docs/classification.md has the errors.
"""

from __future__ import annotations

import math
from typing import Any

from lbnn.base.classes import Classes
from lbnn.base.moments import Moments
from lbnn.ops.namespace import Namespace
from lbnn.ops.tail import SQRT_2PI

EULER_GAMMA = 0.5772156649015329
"""The mean of Gumbel noise."""

KNOTS = 16
REACH, BEFORE = 2.8, 2.0
"""The sweep begins where a class alone could be below the rest: standard deviations of the logit, and Gumbel noise."""
SHOULDER, STEPS = 1.0, 2
FALLEN = REACH + SHOULDER
"""Or later: where the product of all F is e^(-FALLEN^2 / 2), by so many steps of Newton's."""
BEYOND, BEHIND = 4.0, 11.0
"""It ends where none of many classes is above: standard deviations, and noise."""
UNIT, NEARBY = 1.0, 0.25
"""The finest step follows the narrowest class that matters where the sweep begins. Where one of 100 classes is ten
times as wide as the rest, all of which lie well behind the start, twice these numbers err by 1e-2."""
FIRST = math.asinh(1.0)
LONGEST = 1e9  # of the sweep, in units: keeps squares finite
FARTHEST = 1e15  # below the start of the sweep a class has no part in it
MOST_VARIANCE = 1e24
"""Larger variances count as this one. Gradients of log p have a factor of the sweep's length over p: so much float32
holds down to p = 1e-24, for no class begins behind the start and the sweep is at most 7 standard deviations long."""

NARROW = 0.5
"""The variance below which five points do."""
HERMITE_POINTS = (0.0, 1.355626179974266, 2.8569700138728056)
HERMITE_WEIGHTS = (8.0 / 15.0, 0.2220759220056126, 0.011257411327720693)
"""Of the standard normal; those but the first count for both signs."""

# (weight, mean, standard deviation) of the normals that sum to the Gumbel density.
GUMBEL_NORMALS = (
    (0.30064200745785236, -0.45347510645775924, 0.5578368693997863),
    (0.4478904635420169, 0.5110684040423725, 0.7860248440213302),
    (0.21308900150824922, 1.6949134912437729, 1.1609745028692973),
    (0.03837852749188161, 3.217384773028208, 1.8572681620111173),
)
LEAST_SHARE = 1e-30  # of what has a logarithm
MOST_EXPONENT = 20.0  # exp(-exp(20)) is 0

ClassRow = tuple[Any, Any, Any]
"""F, f and E[(t - z) g(t - z)] of every class at every t."""


def softmax_exact(xp: Namespace, logits: Moments[Any]) -> Classes[Any]:
    """The mean of the softmax by one sweep."""
    held = Moments(logits.mean, xp.minimum(logits.var, MOST_VARIANCE))
    rest, weight = sweep_points(xp, held)
    wide, rows = xp.knots(held.var - NARROW, (1.0,)), (narrow_class(xp, rest, held), wide_class(xp, rest, held))
    below, density, surplus = (xp.where_negative(wide, *pair) for pair in zip(*rows, strict=True))
    logs = xp.log(xp.maximum(below, LEAST_SHARE))
    others = xp.exp(xp.sum_last(logs) - logs) * weight
    share = xp.sum_knots(others * density)
    total = xp.sum_last(share)
    aleatoric = xp.sum_last(xp.sum_knots(others * surplus)) / total - EULER_GAMMA
    return with_entropy(xp, share / total, aleatoric, logits)


def sweep_points(xp: Namespace, logits: Moments[Any]) -> tuple[Any, Any]:
    """t - m_k at every t and for every class, and the weight of each t.

    t = start + c (1 + sinh u) with u uniform: fine where the sweep begins, because a narrow class that matters begins
    there, and ever wider behind it, where only wide ones are left. c is UNIT + s of the class that begins last, or less
    if a narrower one begins a little before.
    """
    sigma = xp.sqrt(logits.var)
    width = sigma + BEFORE / REACH
    begin = logits.mean - width * REACH
    start = xp.max_last(begin)
    for _ in range(STEPS):
        start = later_start(xp, start, logits.mean, width)
    unit = xp.min_last((start - begin) * NEARBY + sigma + UNIT)
    length = xp.max_last(logits.mean + sigma * BEYOND) - start + BEHIND
    far = xp.minimum(length / unit - 1.0, LONGEST)
    last = xp.log(far + xp.sqrt(far * far + 1.0))
    u = xp.knots((last + FIRST) * (1.0 / (KNOTS - 1)), tuple(map(float, range(KNOTS)))) - FIRST
    rise, fall = xp.exp(u), xp.exp(u * -1.0)
    rest = xp.minimum(start - logits.mean, FARTHEST)
    moved = xp.knots(unit, (1.0,)) * ((rise - fall) * 0.5 + 1.0)
    return xp.knots(rest, (1.0,)) + moved, rise + fall


def later_start(xp: Namespace, start: Any, mean: Any, width: Any) -> Any:
    """Nearer to where the product of all F begins to count, which of many classes is well behind the start of each.

    log F is about -y^2 / 2 with y = SHOULDER - (t - m) / width, or 0 where that is negative. The sum of y^2 is convex
    and falls, so that Newton's step from a start on the left stays on the left of where it is FALLEN^2. For 50 classes
    of standard deviation 20 that begin beside as many narrow ones, the worst for a sweep, the error is 1e-2 without a
    step, 2e-3 with one and 4e-5 with two.
    """
    y = xp.between(xp.minimum(start - mean, FARTHEST) / width * -1.0 + SHOULDER, 0.0, FALLEN)
    excess = xp.maximum(xp.sum_last(y * y) - FALLEN * FALLEN, 0.0)
    return start + excess / xp.maximum(xp.sum_last(y / width) * 2.0, LEAST_SHARE)


def narrow_class(xp: Namespace, rest: Any, logits: Moments[Any]) -> ClassRow:
    """Sums over five points: with a = exp(z - t), F = E exp(-a) and g = a exp(-a)."""
    sigma = xp.knots(xp.sqrt(xp.minimum(logits.var, NARROW)), (1.0,))
    points = [(0.0, HERMITE_WEIGHTS[0])]
    pairs = zip(HERMITE_POINTS[1:], HERMITE_WEIGHTS[1:], strict=True)
    points += [(sign * x, w) for x, w in pairs for sign in (-1.0, 1.0)]
    terms = [_narrow_term(xp, rest - sigma * x if x else rest, w) for x, w in points]
    return _sum(terms)


def _narrow_term(xp: Namespace, y: Any, weight: float) -> ClassRow:
    a = xp.exp(xp.minimum(y * -1.0, MOST_EXPONENT))
    below = xp.exp(a * -1.0) * weight
    density = a * below
    return below, density, y * density


def wide_class(xp: Namespace, rest: Any, logits: Moments[Any]) -> ClassRow:
    """Each normal of the Gumbel density widened by the logit's variance; given t, the noise is normal as well."""
    terms = []
    for weight, mean, sd in GUMBEL_NORMALS:
        spread = xp.knots(xp.sqrt(logits.var + sd * sd), (1.0,))
        d = (rest - mean) / spread
        density = xp.exp(d * d * -0.5) * (weight / SQRT_2PI) / spread
        terms.append((xp.normal_cdf(d) * weight, density, density * (d / spread * (sd * sd) + mean)))
    return _sum(terms)


def _sum(terms: list[ClassRow]) -> ClassRow:
    first, *rest = terms
    for term in rest:
        first = (first[0] + term[0], first[1] + term[1], first[2] + term[2])
    return first


def softmax_fast(xp: Namespace, logits: Moments[Any]) -> Classes[Any]:
    """softmax(m / sqrt(1 + pi v / 8)), and (1/2) sum_k log(1 + v_k p_k (1 - p_k)) for the mutual information.

    Both hold for small variances; p of the second is the softmax of the means. Where variances differ much,
    probabilities can be anywhere.
    """
    probability = plain_softmax(xp, logits.mean / xp.sqrt(logits.var * (math.pi / 8.0) + 1.0))
    p = plain_softmax(xp, logits.mean)
    spread = xp.minimum(logits.var * (p - p * p), FARTHEST)
    information = xp.sum_last(xp.log(spread + 1.0)) * 0.5
    return with_entropy(xp, probability, entropy_of(xp, probability) - information, logits)


def plain_softmax(xp: Namespace, x: Any) -> Any:
    """The softmax of known logits."""
    powers = xp.exp(x - xp.max_last(x))
    return powers / xp.sum_last(powers)


def entropy_of(xp: Namespace, probability: Any) -> Any:
    """The entropy of each row in nats, with a last axis of extent 1."""
    return xp.sum_last(probability * xp.log(xp.maximum(probability, LEAST_SHARE))) * -1.0


def with_entropy(xp: Namespace, probability: Any, aleatoric: Any, logits: Moments[Any]) -> Classes[Any]:
    """Everything, with the parts of the entropy kept between 0 and the whole."""
    return parted(xp, probability, entropy_of(xp, probability), aleatoric, logits)


def parted(xp: Namespace, probability: Any, entropy: Any, aleatoric: Any, logits: Moments[Any]) -> Classes[Any]:
    """The entropy and its parts, of which rounding makes none negative."""
    epistemic = xp.maximum(entropy - xp.maximum(aleatoric, 0.0), 0.0)
    whole, inner, outer = (xp.drop_last(part) for part in (entropy, entropy - epistemic, epistemic))
    return Classes(probability, whole, inner, outer, logits)
