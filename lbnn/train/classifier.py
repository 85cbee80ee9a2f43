"""lbnn.Classifier: a network that gives the probability of each class, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from lbnn.base.arrays import AnyArray, Array
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
from lbnn.train.recipe import Recipe, class_recipe_for, train_classes
from lbnn.train.splits import held_out
from lbnn.train.table import Table
from lbnn.train.training import WATCHED


class Uncertainty(NamedTuple):
    """Entropies in nats, of each row: `total` is that of the probabilities, and the sum of the two others.

    `aleatoric` would stay if the weights were known, `epistemic` is what knowing them would tell about the class.
    """

    total: Array
    aleatoric: Array
    epistemic: Array


class Classifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """A network that predicts the probability of each class with the uncertainty of its weights integrated out.

    Inputs are numbers; the network scales them itself. Classes may be numbers or text. There are no sample weights.

    Parameters that are None follow from the number of rows (docs/sklearn.md). `hidden` are the sizes of the hidden
    layers, `epochs` the passes over the rows, `batch` the rows in a batch, `lr` the learning rate at the start, which
    falls to 0. With `patience` 15 % of the rows decide when to stop. `prior` of the weights is one of lbnn.priors or
    its name, `kl_weight` is relative to the ELBO's. `variance` of the weights is "full", "rank1" or "row"
    (docs/variances.md). `random_state` is the seed: with a number the same rows give the same network.

    Fitted: `classes_`; `model_`, a module of lbnn.nn; `history_` of its training; `recipe_`, what the rule chose;
    `n_features_in_`, `feature_names_in_`.

    >>> import numpy as np, lbnn
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> y = np.where(X[:, 0] > 0, "warm", "cold")
    >>> fitted = lbnn.Classifier(hidden=(8,), epochs=100).fit(X, y)
    >>> fitted.predict([[0.9], [-0.9]]).tolist()
    ['warm', 'cold']
    >>> fitted.predict_proba([[0.9]]).shape
    (1, 2)
    >>> unsure = fitted.uncertainty([[0.9], [0.01]])
    >>> bool(unsure.total[0] < unsure.total[1])
    True
    """

    classes_: AnyArray
    recipe_: Recipe

    def __init__(
        self,
        hidden: tuple[int, ...] | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        lr: float | None = None,
        patience: int | None = None,
        prior: str | Prior | None = None,
        kl_weight: float | None = None,
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
        self.variance = variance
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Classifier:
        """Fits rows X [n, inputs] to classes y [n]; pandas frames keep the names of their columns."""
        given = self.get_params(deep=False)
        seed = seed_of(given.pop("random_state"))
        check_recipe(given)
        names = target_names_of(y)
        x, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise BadParameter(f"all rows are of one class, {self.classes_[0]!r}; a classifier needs two at least")
        x = np.array(x)  # a copy: torch wants to write
        self.recipe_ = class_recipe_for(len(x), x.shape[1:], **given)
        self._targets = list(names) if len(names) == 1 else []
        rows = Table(x, labels[:, None].astype(np.float32), (), (), classes=tuple(map(str, self.classes_)))
        watched = held_out(rows, WATCHED, seed) if self.recipe_.patience else None
        self._remember(x, watched, seed)
        with one_thread():
            outcome = train_classes(x, labels, len(self.classes_), self.recipe_, seed, watched, wanted_bar())
        self._keep(x, *outcome)
        return self

    def predict_proba(self, X: Any) -> Array:
        """The probability of each of `classes_` in each row."""
        return _joined(self._outcomes(X), "probability")

    def predict_log_proba(self, X: Any) -> Array:
        """Its logarithm."""
        return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> AnyArray:
        """The most probable class of each row."""
        most = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[most])

    def uncertainty(self, X: Any) -> Uncertainty:
        """How unsure the class of each row is, and which part of it more rows to learn from could take away."""
        outcomes = self._outcomes(X)
        return Uncertainty(*(_joined(outcomes, name) for name in ("entropy", "aleatoric", "epistemic")))

    def _about(self) -> dict[str, Any]:
        return super()._about() | {"classes": [str(name) for name in self.classes_]}


def _joined(outcomes: list[Any], name: str) -> Array:
    return np.asarray(torch.cat([getattr(outcome, name) for outcome in outcomes]).numpy())
