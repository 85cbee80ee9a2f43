"""How `lbnn train` trains: the network and the training that follow from the number of rows, nothing to set by hand.

A row of features gets hidden layers of 50 units and a Linear whose output variance is the total variance ("embedded").
The rate falls by a cosine to 0, the KL rises to its full weight over the first half, and the last weights are kept:
with the KL at full weight there is nothing to stop early for, so that all rows can be fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lbnn import nn as bnn
from lbnn.base.arrays import Floats
from lbnn.nn.spread import VARIANCES, check_variance
from lbnn.train.fit import fit
from lbnn.train.priors import Gaussian, LinearWarmup, Prior
from lbnn.train.result import FitResult

Scale = tuple[Tensor, Tensor]
"""Centre and spread of inputs or targets."""
SLOPE = 0.01
RATE = 0.02
UNITS, CHANNELS = 50, (16, 16)
ROWS_OF_TWO_LAYERS = 750
"""Fewer rows do not pay for a second hidden layer: on the training rows of yacht it costs 0.4 nats."""
FEWEST_STEPS, MOST_STEPS = 5000, 20_000
"""One for each row, within these: more let small sets be learned by heart."""
SMALLEST_BATCH, LARGEST_BATCH, BATCHES = 32, 1024, 256
"""Above 32 * 256 rows batches grow, so that an epoch never has more than so many."""
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Recipe:
    """Sizes of the hidden layers, epochs, rows in a batch, the learning rate at the start, and what is seldom changed.

    With `patience` a part of the rows decides when to stop; `kl_weight` is relative to the ELBO's; `head` learns the
    variance of the noise in outputs of its own (VarianceHead). `variance` is that of the layers' weights
    (lbnn.nn.Linear).
    """

    hidden: tuple[int, ...]
    epochs: int
    batch: int
    lr: float = RATE
    patience: int | None = None
    prior: str | Prior = "gaussian"
    kl_weight: float = 1.0
    head: bool = False
    variance: str = "full"

    def __post_init__(self) -> None:
        check_variance(self.variance, VARIANCES, "a network")


def recipe_for(rows: int, shape: Sequence[int], **given: Any) -> Recipe:
    """The rule, with those fields of a Recipe that are given and not None."""
    batch = given.get("batch") or min(LARGEST_BATCH, max(SMALLEST_BATCH, math.ceil(rows / BATCHES)))
    steps = min(MOST_STEPS, max(FEWEST_STEPS, rows))
    hidden = CHANNELS if len(shape) > 1 else (UNITS,) * (1 if rows < ROWS_OF_TWO_LAYERS else 2)
    chosen = Recipe(hidden, math.ceil(steps / math.ceil(rows / batch)), batch)
    named = {name: value for name, value in given.items() if value is not None}
    return replace(chosen, **named | {"hidden": tuple(named.get("hidden", chosen.hidden))})


def train_network(
    x: Floats, y: Floats, recipe: Recipe, seed: int = 0, watched: Any = None, progress: bool | None = None
) -> tuple[bnn.Sequential, FitResult]:
    """A network for inputs [n, *shape] and targets [n, outputs], both in raw units.

    The rows `watched` decide when to stop, if the recipe has patience, and are not fitted then. `progress` as in fit.
    """

    def make(x: Floats, y: Floats) -> bnn.Sequential:
        return build(x, y, recipe.hidden, recipe.head, recipe.variance)

    return train_built(make, x, y, recipe, seed, watched, progress)


def train_built(
    make: Callable[[Floats, Any], bnn.Sequential], x: Floats, y: Any, recipe: Recipe, seed: int = 0,
    watched: Any = None, progress: bool | None = None,
) -> tuple[bnn.Sequential, FitResult]:  # fmt: skip
    """The training of a network that `make` builds for the rows to be fitted; y may be numbers of classes, too."""
    fitted = np.setdiff1d(np.arange(len(x)), watched) if recipe.patience else slice(None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make(x[fitted], y[fitted])
    return model, fit(
        model,
        _pair(x, y, fitted),
        epochs=recipe.epochs,
        batch_size=recipe.batch,
        lr=recipe.lr,
        prior=recipe.prior,
        kl_weight=LinearWarmup(recipe.kl_weight / y[fitted].size),
        validation=_pair(x, y, watched) if recipe.patience else None,
        patience=recipe.patience,
        seed=seed,
        progress=progress,
    )


def _pair(x: Floats, y: Any, rows: Any) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(x[rows]), torch.from_numpy(y[rows])


def predict_in_parts(model: nn.Module, x: Tensor) -> Any:
    """The model's moments or classes, in parts so that large data needs little memory."""
    with torch.no_grad():
        return joined_outcomes([model(part) for part in torch.split(x, ROWS_AT_ONCE)])


def joined_outcomes(parts: Sequence[Any]) -> Any:
    """Moments or classes of all rows, of those of some."""
    if isinstance(parts[0], Tensor):
        return torch.cat(tuple(parts))
    return type(parts[0])(*map(joined_outcomes, zip(*parts, strict=True)))


def build(x: Floats, y: Floats, hidden: Sequence[int], head: bool = False, variance: str = "full") -> bnn.Sequential:
    """Raw units in, a small network in standard units, raw units out."""
    return build_scaled(x.shape[1:], _scale(x), _scale(y), hidden, head, variance)


def build_scaled(
    shape: tuple[int, ...], x: Scale, y: Scale, hidden: Sequence[int], head: bool = False, variance: str = "full"
) -> bnn.Sequential:
    """The same from the scales of inputs and targets."""
    (centre, spread), (y_centre, y_spread) = x, y
    trunk, width = _trunk(shape, hidden, variance=variance)
    last = bnn.Linear(width, (1 + head) * len(y_centre), variance=variance)
    heads = (bnn.VarianceHead(),) if head else ()
    return bnn.Sequential(bnn.Standardize(centre, spread), *trunk, last, *heads, bnn.Affine(y_spread, y_centre))


def _scale(values: Any) -> Scale:
    """Mean and standard deviation of each column or channel."""
    axes = (0, *range(2, values.ndim))
    centre, spread = values.mean(axis=axes, dtype=np.float64), values.std(axis=axes, dtype=np.float64)
    shape = (-1,) + (1,) * (values.ndim - 2)
    return as_scale(centre.reshape(shape), spread.reshape(shape))


def as_scale(centre: Any, spread: Any) -> Scale:
    """Means and standard deviations, 1 where nothing varies."""
    spread = np.where(spread > 1e-12 * (1.0 + np.abs(centre)), spread, 1.0)
    return torch.tensor(centre), torch.tensor(spread)


def _trunk(
    shape: tuple[int, ...], hidden: Sequence[int], sigma: float | None = None, variance: str = "full"
) -> tuple[list[nn.Module], int]:
    """Hidden layers: linear for a row of features, convolutions with pooling for windows and images."""
    own: dict[str, Any] = {"sigma": sigma, "variance": variance}
    if len(shape) == 1:
        sizes = [shape[0], *hidden]
        pairs = pairwise(sizes)
        return [layer for a, b in pairs for layer in (bnn.Linear(a, b, **own), bnn.LeakyReLU(SLOPE))], sizes[-1]
    conv, pool = (bnn.Conv1d, bnn.AvgPool1d) if len(shape) == 2 else (bnn.Conv2d, bnn.AvgPool2d)
    layers: list[nn.Module] = []
    channels, extents = shape[0], list(shape[1:])
    for width in hidden:
        layers += [conv(channels, width, 3, padding=1, **own), bnn.LeakyReLU(SLOPE)]
        channels = width
        if min(extents) >= 4:
            layers.append(pool(2))
            extents = [extent // 2 for extent in extents]
    return [*layers, bnn.Flatten()], channels * int(np.prod(extents))


# --- Classes --------------------------------------------------------------------------------------------------

CLASS_RATE, CLASS_KL = 0.01, 0.1
"""The KL at its full weight underfits: a tenth of it is the rule for classes."""
START_SIGMA = 0.02
"""Weights that begin nearly known: with sigma as wide as a regression's the logits drown."""
ROWS_OF_NARROW_PRIOR = 500
"""Fewer rows get N(0, 0.3^2) as their prior, from here on N(0, 0.1^2)."""
FEWEST_CLASS_STEPS = 2000


def class_recipe_for(rows: int, shape: Sequence[int], **given: Any) -> Recipe:
    """The rule for classes, with those fields of a Recipe that are given and not None; sizes as for a regression."""
    prior = Gaussian(0.1 if rows >= ROWS_OF_NARROW_PRIOR else 0.3)
    named: dict[str, Any] = {"lr": CLASS_RATE, "kl_weight": CLASS_KL, "prior": prior}
    named |= {name: value for name, value in given.items() if value is not None}
    chosen = recipe_for(rows, shape, **named)
    steps = min(MOST_STEPS, max(FEWEST_CLASS_STEPS, rows))
    return replace(chosen, epochs=named.get("epochs", math.ceil(steps / math.ceil(rows / chosen.batch))))


def train_classes(
    x: Floats, labels: Any, classes: int, recipe: Recipe, seed: int = 0, watched: Any = None,
    progress: bool | None = None,
) -> tuple[bnn.Sequential, FitResult]:  # fmt: skip
    """A network for inputs [n, *shape] in raw units and numbers of classes [n], as train_network; its loss is the
    expected NLL by the delta rule."""

    def make(x: Floats, _: Any) -> bnn.Sequential:
        return build_classes(x, classes, recipe.hidden, recipe.variance)

    return train_built(make, x, labels, recipe, seed, watched, progress)


def build_classes(x: Floats, classes: int, hidden: Sequence[int], variance: str = "full") -> bnn.Sequential:
    """Raw units in, a small network in standard units, the probability of each class out."""
    return build_scaled_classes(x.shape[1:], _scale(x), classes, hidden, variance)


def build_scaled_classes(
    shape: tuple[int, ...], x: Scale, classes: int, hidden: Sequence[int], variance: str = "full"
) -> bnn.Sequential:
    """The same from the scale of inputs."""
    trunk, width = _trunk(shape, hidden, START_SIGMA, variance)
    last = bnn.Linear(width, classes, sigma=START_SIGMA, variance=variance)
    return bnn.Sequential(bnn.Standardize(*x), *trunk, last, bnn.SoftmaxHead())
