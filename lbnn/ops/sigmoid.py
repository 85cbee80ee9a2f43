"""Probabilities of labels that may hold or not, each with a Gaussian logit of its own.

The logistic function is a sum of normal distributions, and its entropy a sum of bell curves, so that both have their
mean over z ~ N(m, v) in closed form for every variance:

    E sigmoid(z)    = sum_i w_i Phi(c_i m / sqrt(1 + c_i^2 v))                       to 5e-6
    E entropy(z)    = sum_i a_i b_i / sqrt(b_i^2 + v) exp(-m^2 / (2 (b_i^2 + v)))    to 2.4e-5

Labels are independent given the input, so that the entropy of all of them is the sum of theirs, and so are its parts.
tools/derive/fit_gumbel.py fits the bell curves.
"""

from __future__ import annotations

from typing import Any

from lbnn.base.classes import Classes
from lbnn.base.moments import Moments
from lbnn.ops.namespace import Namespace
from lbnn.ops.softmax import LEAST_SHARE, parted

# (weight, slope) of each normal distribution.
LOGISTIC_NORMALS = ((0.059878, 0.320481), (0.369839, 0.473528), (0.460526, 0.695797), (0.109757, 1.019096))

# (height, width) of each bell curve.
ENTROPY_BELLS = (
    (0.07354520677959131, 1.05190889548256),
    (0.30329083546388425, 1.5492819474479127),
    (0.2673776646070364, 2.260798599586969),
    (0.0489104103378159, 3.285427533515653),
)


def sigmoid_labels(xp: Namespace, logits: Moments[Any]) -> Classes[Any]:
    """The probability of each label, and the entropy of all."""
    mean, var = logits
    terms = [xp.normal_cdf(mean / xp.sqrt(var + 1.0 / (c * c))) * w for w, c in LOGISTIC_NORMALS]
    probability = sum(terms[1:], start=terms[0])
    aleatoric = xp.sum_last(_mean_entropy(xp, mean, var))
    entropy = xp.sum_last(_term(xp, probability) + _term(xp, 1.0 - probability)) * -1.0
    return parted(xp, probability, entropy, aleatoric, logits)


def _term(xp: Namespace, p: Any) -> Any:
    return p * xp.log(xp.maximum(p, LEAST_SHARE))


def _mean_entropy(xp: Namespace, mean: Any, var: Any) -> Any:
    terms = []
    for height, width in ENTROPY_BELLS:
        spread = xp.sqrt(var + width * width)
        d = mean / spread
        terms.append(xp.exp(d * d * -0.5) * (height * width) / spread)
    return sum(terms[1:], start=terms[0])
