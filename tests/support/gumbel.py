"""The mean of a softmax of Gaussian logits by fine quadrature, in float64: what every form of it is held to.

The Gumbel identity of lbnn/ops/softmax.py with none of its approximations: F_k is integrated over the noise where the
logit is wide and over the logit where it is narrow, both by the trapezoidal rule, which for these functions converges
faster than any power of the step.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

GAMMA = 0.5772156649015329
NOISE = np.arange(-4.0, 42.0, 0.25)
NOISE_WEIGHTS = np.exp(-NOISE - np.exp(-NOISE)) * 0.25
POINTS = np.arange(-9.0, 9.01, 0.25)
POINT_WEIGHTS = np.exp(-(POINTS**2) / 2) / np.sqrt(2 * np.pi) * 0.25


@dataclass(frozen=True)
class Truth:
    """One row: probabilities, the entropy and its parts."""

    probability: np.ndarray
    entropy: float
    aleatoric: float

    @property
    def epistemic(self):
        return self.entropy - self.aleatoric


def quadrature(mean, sigma, steps=360):
    """The row's truth; its error is below 1e-9, which test_the_oracle_has_converged shows."""
    mean, sigma = np.asarray(mean, float), np.asarray(sigma, float)
    low, high = np.max(mean - 9 * sigma) - 5, np.max(mean + 9 * sigma) + 45
    u = np.linspace(-np.arcsinh(1), np.arcsinh((high - low - 3) / 3), steps)
    t, weight = low + 3 + 3 * np.sinh(u), 3 * np.cosh(u) * (u[1] - u[0])
    below, density, surplus = (np.stack(each, 1) for each in zip(*map(_wide_or_narrow(t), mean, sigma), strict=True))
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(below, 1e-300))
    others = np.exp(logs.sum(1, keepdims=True) - logs) * weight[:, None]
    share = (others * density).sum(0)
    assert abs(share.sum() - 1) < 1e-9, share.sum()
    probability = share / share.sum()
    entropy = -np.sum(probability * np.log(np.maximum(probability, 1e-300)))
    return Truth(probability, float(entropy), float((others * surplus).sum() / share.sum() - GAMMA))


def _wide_or_narrow(t):
    def wide(mean, sigma):
        d = (t[:, None] - mean - NOISE) / sigma
        density = np.exp(-(d**2) / 2) / np.sqrt(2 * np.pi) / sigma
        return ndtr(d) @ NOISE_WEIGHTS, density @ NOISE_WEIGHTS, (NOISE * density) @ NOISE_WEIGHTS

    def narrow(mean, sigma):
        y = t[:, None] - mean - sigma * POINTS
        a = np.exp(np.minimum(-y, 700.0))
        density = np.where(a < 700, a * np.exp(-a), 0.0)
        return np.exp(-a) @ POINT_WEIGHTS, density @ POINT_WEIGHTS, (y * density) @ POINT_WEIGHTS

    return lambda mean, sigma: wide(mean, sigma) if sigma >= 1 else narrow(mean, sigma)


def sigmoid_truth(mean, sigma):
    """(E sigmoid, E of its entropy) of one logit, by quadrature over it."""
    step = 0.05 / max(1.0, sigma)
    x = np.arange(-10.0, 10.0 + step, step)
    z, weight = mean + sigma * x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * step
    size = np.abs(z)
    p = np.exp(-np.logaddexp(0.0, -z))
    entropy = np.logaddexp(0.0, -size) + size * np.exp(-np.logaddexp(0.0, size))
    return float(p @ weight), float(entropy @ weight)


def softmax(z):
    return np.exp(z - logsumexp(z, axis=-1, keepdims=True))


def hard_rows(count, classes, seed):
    """(mean, sigma) of logits: standard deviations from 0 to 20, equal, mixed and up to 1e5 apart in variance.

    In every other row narrow classes begin where the wide ones do, which is the worst for a sweep.
    """
    draw = np.random.default_rng(seed)
    for number in range(count):
        spread = draw.uniform(0, 20)
        sigma = (
            draw.uniform(0, 20, classes),
            np.sqrt(10 ** draw.uniform(-2.4, 2.6, classes)),
            np.full(classes, spread * spread / 20),
            draw.choice([0.0, 0.063, 0.7, 0.71, 5.0, 20.0], classes),
            np.where(draw.random(classes) < 0.5, spread, spread * spread / 20),
            draw.choice([draw.uniform(0, 8), 20.0], classes),
        )[number % 6]
        mean = draw.normal(0, draw.choice([0.5, 2, 5, 20]), classes)
        if number % 2:
            mean = draw.choice([3.6, 3.2, 2, 1]) * sigma + draw.normal(0, 2, classes)
        yield mean, sigma


def crowded_rows(count, classes, seed):
    """(mean, sigma) of logits: a few narrow classes beside many of standard deviation 20, all as far from their means.

    The largest of many wide ones lies in a small part of what a sweep passes through: between their own standard
    deviations, or, where their means are far below, beyond three of them.
    """
    draw = np.random.default_rng(seed)
    for number in range(count):
        narrow = (0.0, 0.063, 0.3, 0.5, 0.7, 2.0)[number % 6]
        sigma = np.where(draw.random(classes) < draw.choice([0.02, 0.1, 0.5]), narrow, 20.0)
        sigma[0] = narrow
        away = draw.uniform(1.6, 2.9) if number % 2 else draw.uniform(-3.6, -2.0)
        yield away * sigma + draw.normal(0, draw.choice([0.5, 2, 5]), classes), sigma


def outlier_rows(count, classes, seed):
    """(mean, sigma) of logits: one to three classes of standard deviation 20 among others of 0.3 to 4, means in reach.

    A sweep begins where the wide ones do, well behind the others, which fill a small part of it.
    """
    draw = np.random.default_rng(seed)
    for number in range(count):
        wide = min(int(draw.integers(1, 4)), classes - 1)
        sigma = np.full(classes, draw.uniform(0.3, 4)) if number % 2 else draw.uniform(0.3, 4, classes)
        mean = draw.normal(0, draw.choice([0, 0.5, 2, 5]), classes)
        sigma[:wide], mean[:wide] = 20.0, draw.uniform(-40, 40, wide)
        yield mean, sigma


def all_rows(classes, counts):
    """As many hard rows, crowded ones and those with outliers as `counts` says."""
    kinds = zip((hard_rows, crowded_rows, outlier_rows), counts, strict=True)
    return [row for kind, count in kinds for row in kind(count, classes, classes)]
