"""What lbnn.Regressor and lbnn.Classifier share: scikit-learn's conventions around a network and its model file."""

from __future__ import annotations

import copy
import math
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from lbnn import nn as bnn
from lbnn.base.arrays import Floats
from lbnn.base.errors import LbnnError
from lbnn.model.file import save
from lbnn.model.inputs import KEY_OF_RANGE, range_of
from lbnn.nn.spread import VARIANCES, check_variance
from lbnn.train.priors import as_prior
from lbnn.train.recipe import ROWS_AT_ONCE, Recipe
from lbnn.train.record import KEY_OF_TRAINING, training_record
from lbnn.train.result import FitResult
from lbnn.train.training import WIDEST

LARGEST_SEED = 2**32 - 1


class BadParameter(LbnnError, ValueError):
    """A parameter of an estimator that makes no sense: a ValueError too, as scikit-learn's own are."""


class NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """A fitted network `model_`, the `history_` of its training, and its inputs."""

    model_: bnn.Sequential
    history_: FitResult
    recipe_: Recipe
    n_features_in_: int

    def save(self, path: str | Path, name: str | None = None) -> Path:
        """Writes the model file that `lbnn export` and the other commands read; see lbnn.save.

        Steps that stand before this one in a Pipeline are not in it: whoever calls the model has to take them.
        """
        check_is_fitted(self)
        return save(self.model_, path, (self.n_features_in_,), name, self._about())

    def _about(self) -> dict[str, Any]:
        """What the model file says of itself."""
        about: dict[str, Any] = {"rows": self._rows, KEY_OF_RANGE: self._range, KEY_OF_TRAINING: self._record}
        if self._targets:
            about["targets"] = self._targets
        if hasattr(self, "feature_names_in_"):
            names = [str(name) for name in self.feature_names_in_]
            about |= {"inputs": names, "columns": [{"name": name, "categories": []} for name in names]}
        return about

    def _remember(self, x: Floats, watched: Any, seed: int) -> None:
        """How it was trained."""
        aside = 0 if watched is None else len(watched)
        counts = {"fitted": len(x) - aside, "watched to stop": aside, "in all": len(x)}
        self._record = training_record(self.recipe_, counts, seed, f"drawn by seed {seed}" if aside else "")

    def _keep(self, x: Floats, model: bnn.Sequential, history: FitResult) -> None:
        """Ctrl-C leaves the estimator fitted as far as it came, and ends the search that called it, too."""
        self._rows, self._range = len(x), range_of(x)
        self.model_, self.history_ = model, history
        if history.interrupted:
            raise KeyboardInterrupt

    def _outcomes(self, X: Any) -> list[Any]:
        """What the network gives for rows, in parts, in float64: the same for a row whatever stands beside it."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float32, reset=False)
        model, wide = copy.deepcopy(self.model_).double(), torch.from_numpy(np.array(x, np.float64))
        with one_thread(), torch.no_grad():
            return [model(part) for part in torch.split(wide, ROWS_AT_ONCE)]


@contextmanager
def one_thread() -> Iterator[None]:
    """Layers this small only wait for each other on several, and searches run several trainings at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def wanted_bar() -> bool | None:
    """A bar on a terminal, but not from each of several processes that would write over each other's."""
    return None if multiprocessing.parent_process() is None else False


def seed_of(random_state: Any) -> int:
    """The seed itself, or one drawn from a generator or, for None, from numpy's global one."""
    if isinstance(random_state, (int, np.integer)):
        if not 0 <= random_state <= LARGEST_SEED:
            raise BadParameter(f"random_state must be from 0 to {LARGEST_SEED}, got {random_state}")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def check_recipe(given: dict[str, Any]) -> None:
    """Refuses what no Recipe has; None is left to the rule."""
    check_hidden(given.get("hidden"))
    for name in ("epochs", "batch", "patience"):
        _check(name, given.get(name), Integral, lambda value: value >= 1, "a whole number from 1")
    _check("lr", given.get("lr"), Real, lambda value: 0.0 < value <= 10.0, "a number above 0, 10 at most")
    weight = given.get("kl_weight")
    _check("kl_weight", weight, Real, lambda value: value >= 0.0 and math.isfinite(value), "a number from 0")
    try:
        as_prior(given["prior"] or "gaussian")
        check_variance(given["variance"], VARIANCES, "a network")
    except LbnnError as error:
        raise BadParameter(str(error)) from None


def check_hidden(hidden: Any) -> None:
    """Refuses sizes of hidden layers that are none."""
    if hidden is None:
        return
    listed = isinstance(hidden, Sequence) and not isinstance(hidden, str)
    if not listed or not hidden or not all(isinstance(n, (int, np.integer)) and 1 <= n <= WIDEST for n in hidden):
        raise BadParameter(f"hidden must be sizes from 1 to {WIDEST}, such as (50,) or (16, 16), got {hidden!r}")


def _check(name: str, value: Any, kind: Any, fits: Any, wanted: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, kind) or not fits(value):
        raise BadParameter(f"{name} must be {wanted}, got {value!r}")


def target_names_of(y: Any) -> tuple[str, ...]:
    """The names of a frame's columns, or of a series."""
    columns = getattr(y, "columns", None)
    if columns is not None:
        return tuple(map(str, columns))
    name = getattr(y, "name", None)
    return () if name is None else (str(name),)
