"""lbnn.Regressor: what `lbnn train` fits to a table, as a scikit-learn estimator."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, validate_data

from lbnn.base.arrays import Array
from lbnn.base.moments import Moments
from lbnn.train import metrics
from lbnn.train.estimator import (
    BadParameter,
    NetworkEstimator,
    check_recipe,
    one_thread,
    seed_of,
    target_names_of,
    wanted_bar,
)
from lbnn.train.priors import Prior
from lbnn.train.recipe import Recipe, recipe_for, train_network
from lbnn.train.splits import held_out
from lbnn.train.table import Table
from lbnn.train.training import WATCHED


class Regressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """A network that predicts mean and variance, by the rule of `lbnn train`: raw units in, raw units out.

    Inputs are numbers; the network scales them itself. `y` may have several columns. There are no sample weights.

    Parameters that are None follow from the number of rows (docs/training.md). `hidden` are the sizes of the hidden
    layers, `epochs` the passes over the rows, `batch` the rows in a batch, `lr` the learning rate at the start, which
    falls to 0. With `patience` 15 % of the rows decide when to stop. `prior` of the weights is "gaussian",
    "spike_slab" or one of lbnn.priors, `kl_weight` is relative to the ELBO's, `head` learns the noise in outputs of its
    own. `variance` of the weights is "full", "rank1" or "row" (docs/variances.md). `random_state` is the seed: with a
    number the same rows give the same network.

    Fitted: `model_`, a module of lbnn.nn; `history_` of its training; `recipe_`, what the rule chose; `n_features_in_`,
    `feature_names_in_`.

    >>> import numpy as np, lbnn
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> y = 3 * X[:, 0] + 1
    >>> fitted = lbnn.Regressor(hidden=(8,), epochs=100).fit(X, y)
    >>> mean, std = fitted.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - 2.5) < 0.5 and std[0] > 0)
    True
    >>> low, high = fitted.interval([[0.5]], level=0.9)
    >>> bool(low[0] < mean[0] < high[0])
    True
    """

    recipe_: Recipe

    def __init__(
        self,
        hidden: tuple[int, ...] | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        lr: float | None = None,
        patience: int | None = None,
        prior: str | Prior = "gaussian",
        kl_weight: float = 1.0,
        head: bool = False,
        variance: str = "full",
        random_state: Any = 0,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.batch = batch
        self.lr = lr
        self.patience = patience
        self.prior = prior
        self.kl_weight = kl_weight
        self.head = head
        self.variance = variance
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Several targets at once."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Regressor:
        """Fits rows X [n, inputs] to y [n] or [n, outputs]; pandas frames keep the names of their columns."""
        given = self.get_params(deep=False)
        seed = seed_of(given.pop("random_state"))
        check_recipe(given)
        names = target_names_of(y)
        x, y = validate_data(self, X, y, dtype=np.float32, multi_output=True, y_numeric=True, ensure_min_samples=2)
        y = check_array(y, dtype=np.float32, ensure_2d=False, input_name="y")
        self._outputs = y.shape[1:]
        table = Table(np.array(x), np.array(y).reshape(len(y), -1), (), names)  # copies: torch wants to write
        self.recipe_ = recipe_for(len(table), x.shape[1:], **given)
        self._targets = list(names) if len(names) == table.y.shape[1] else []
        watched = held_out(table, WATCHED, seed) if self.recipe_.patience else None
        self._remember(table.x, watched, seed)
        with one_thread():
            model, history = train_network(table.x, table.y, self.recipe_, seed, watched, wanted_bar())
        self._keep(table.x, model, history)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of each row, in the shape of the y that was fitted; with `return_std` also the standard deviation.

        That is of a new observation: what the network does not know and the noise together.
        """
        mean, var = (torch.cat(parts).numpy() for parts in zip(*self._outcomes(X), strict=True))
        mean, std = (part.reshape(len(part), *self._outputs) for part in (mean, np.sqrt(var)))
        return (mean, std) if return_std else mean

    def interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """The ends of the central interval in which the predicted Gaussian puts a new observation at this `level`."""
        if not 0.0 < level < 1.0:
            raise BadParameter(f"the level of an interval is between 0 and 1, got {level}")
        mean, std = self.predict(X, return_std=True)
        half = NormalDist().inv_cdf(0.5 + level / 2) * std
        return mean - half, mean + half

    def log_score(self: Any, X: Any, y: Any) -> float:
        """The mean log-likelihood of the observations y, in nats: greater is better.

        `scoring=lbnn.Regressor.log_score` chooses by it in cross_val_score and searches, for a Pipeline too.
        """
        mean, std = self.predict(X, return_std=True)
        seen = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        parts = [torch.from_numpy(part.reshape(len(part), -1)) for part in (mean, std**2, seen)]
        return -metrics.nll(Moments(*parts[:2]), parts[2])
