"""The methods that are compared: each chooses its settings on training rows, then fits all of them and predicts.

What has settings tries them on a fifth of the training rows that it does not fit, keeps the best, and is fitted again
to all. The constant sigma of a method that has no variance of its own is that of its errors on the same fifth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from lbnn.train.fit import fit
from lbnn.train.recipe import SMALLEST_BATCH, build, predict_in_parts, recipe_for, train_network
from lbnn.train.result import Epoch
from uci_nets import Array, Setting, train
from uci_scores import Prediction, log_density
from uci_units import numpy_unit, torch_unit

HELD_OUT = 0.2
STEPS = (0.1, 0.3, 1.0)
PENALTIES = (3.0, 10.0, 30.0, 100.0)
PENALTIES_OF_ERRORS = (0.003, 0.03, 0.1, 0.3, 1.0)
"""Smaller, for errors are not divided by a variance."""
DROPPED = [(share, penalty) for share in (0.002, 0.005, 0.02, 0.05, 0.1) for penalty in (0.001, 0.03)]
MEMBERS, SAMPLES = 5, 500
DEPTHS, TREES, SHRINKAGE = (2, 3, 5), 600, 0.1
ROWS_FOR_A_KERNEL = 300


@dataclass(frozen=True)
class Chosen:
    """The best setting of a method on held-out rows, and the variance of its errors there."""

    setting: Any
    variance: float = 0.0


@dataclass(frozen=True)
class Method:
    """`choose` takes inputs [n, d] and targets [n]; `fit` takes them, what was chosen, and the inputs to predict.

    Its training time is in units of that of a plain network, by the same library where that is one for networks.
    """

    fit: Callable[[Array, Array, Any, Array], Prediction]
    choose: Callable[[Array, Array], Any] = lambda x, y: None
    unit: Callable[[Array, Array], float] = torch_unit


def held_out(rows: int) -> tuple[Array, Array]:
    """Rows to fit and rows to choose by."""
    shuffled = np.random.default_rng(0).permutation(rows)
    return shuffled[round(HELD_OUT * rows) :], shuffled[: round(HELD_OUT * rows)]


def tensor(values: Array) -> Tensor:
    """In float64."""
    return torch.from_numpy(np.asarray(values, np.float64))


# ---- ours -------------------------------------------------------------------------------------------------------


def ours(x: Array, y: Array, chosen: None, new: Array, **given: Any) -> Prediction:
    """What `lbnn train` fits to the rows that it gets, with those fields of its recipe that are given."""
    model, _ = train_network(
        x.astype(np.float32), y[:, None].astype(np.float32), recipe_for(len(x), x.shape[1:], **given)
    )
    out = predict_in_parts(model, torch.from_numpy(new.astype(np.float32)))
    return Prediction(out.mean.double().T, out.var.double().T)


def of_steps(x: Array, y: Array, chosen: None, new: Array, steps: int) -> Prediction:
    """The same with another number of steps."""
    return ours(x, y, chosen, new, epochs=math.ceil(steps / math.ceil(len(x) / SMALLEST_BATCH)))


def with_fit(x: Array, y: Array, chosen: None, new: Array, averaged: float = 0.0, **more: Any) -> Prediction:
    """The same with other arguments of `lbnn.fit`, or with the mean of the weights after the last epochs."""
    recipe = recipe_for(len(x), x.shape[1:])
    x, y = x.astype(np.float32), y[:, None].astype(np.float32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build(x, y, recipe.hidden)
    first, seen = (1.0 - averaged) * recipe.epochs, []

    def keep(record: Epoch) -> None:
        if record.epoch > first:
            seen.append(parameters_to_vector(model.parameters()).detach().clone())

    fixed = {"epochs": recipe.epochs, "batch_size": recipe.batch, "lr": recipe.lr}
    fit(model, (torch.from_numpy(x), torch.from_numpy(y)), **fixed, on_epoch=keep, **more)
    if seen:
        vector_to_parameters(torch.stack(seen).mean(dim=0), model.parameters())
    out = predict_in_parts(model, torch.from_numpy(new.astype(np.float32)))
    return Prediction(out.mean.double().T, out.var.double().T)


# ---- networks ---------------------------------------------------------------------------------------------------


def trials(
    x: Array, y: Array, settings: Sequence[Setting], outputs: int, members: int = 1, passes: int = 1
) -> Iterator[tuple[Setting, Prediction, Tensor]]:
    """Each setting, after each share of steps, with its mixture for the held-out rows and their targets."""
    fitted, held = held_out(len(x))
    for steps in STEPS:
        tried = [replace(setting, steps=steps) for setting in settings]
        stacked = [setting for setting in tried for _ in range(members)]
        mean, var = train(x[fitted], y[fitted], stacked, outputs, len(x)).predict(x[held], passes)
        for i, setting in enumerate(tried):
            part = slice(i * members, (i + 1) * members)
            yield setting, Prediction(mean[:, part].flatten(0, 1), var[:, part].flatten(0, 1)), tensor(y[held])


def choose_plain(x: Array, y: Array) -> Chosen:
    """The setting of the least squared errors, and their mean."""
    settings = [Setting(penalty) for penalty in PENALTIES_OF_ERRORS]
    tried = (
        Chosen(setting, float((mixture.mean[0] - target).square().mean()))
        for setting, mixture, target in trials(x, y, settings, 1)
    )
    return min(tried, key=lambda one: one.variance)


def fit_plain(x: Array, y: Array, chosen: Chosen, new: Array) -> Prediction:
    """The mean by one network, the variance that of its errors on held-out rows."""
    mean = train(x, y, [chosen.setting], 1, len(x)).predict(new)[0][0]
    return Prediction(mean, torch.full_like(mean, chosen.variance))


def choose_mean_variance(x: Array, y: Array, members: int = 1) -> Chosen:
    """The setting of the greatest likelihood, of an ensemble that of its mixture."""
    settings = [Setting(penalty) for penalty in PENALTIES]
    tried = (
        (float(log_density(mixture, target).mean()), setting)
        for setting, mixture, target in trials(x, y, settings, 2, members)
    )
    return Chosen(max(tried, key=lambda one: one[0])[1])


def fit_mean_variance(x: Array, y: Array, chosen: Chosen, new: Array, members: int = 1) -> Prediction:
    """A network with an output for the mean and one for the variance, or a mixture of several."""
    mean, var = train(x, y, [chosen.setting] * members, 2, len(x)).predict(new)
    return Prediction(mean[0], var[0])


def choose_dropout(x: Array, y: Array) -> Chosen:
    """Setting and noise variance of the greatest likelihood of the mixture."""
    settings = [Setting(penalty, share) for share, penalty in DROPPED]
    tried = (
        (*best_noise(mixture.mean, target), setting)
        for setting, mixture, target in trials(x, y, settings, 1, passes=SAMPLES // 5)
    )
    _, noise, setting = max(tried, key=lambda one: one[0])
    return Chosen(setting, noise)


def best_noise(draws: Tensor, target: Tensor) -> tuple[float, float]:
    """The log-likelihood of draws [samples, n] with the best noise variance, and that variance."""
    error = float((draws.mean(dim=0) - target).square().mean())
    variances = [error * 10.0 ** (power / 5.0) for power in range(-8, 2)]
    mixtures = ((Prediction(draws, torch.full_like(draws, variance)), variance) for variance in variances)
    return max((float(log_density(mixture, target).mean()), variance) for mixture, variance in mixtures)


def fit_dropout(x: Array, y: Array, chosen: Chosen, new: Array) -> Prediction:
    """A mixture of passes with units dropped, each with the same noise."""
    mean = train(x, y, [chosen.setting], 1, len(x)).predict(new, SAMPLES)[0][:, 0]
    return Prediction(mean, torch.full_like(mean, chosen.variance))


# ---- scikit-learn -----------------------------------------------------------------------------------------------


def choose_kernel(x: Array, y: Array) -> Any:
    """Squared-exponential or Matérn 5/2 with a length for each input, by the evidence of at most 300 rows."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

    rows = np.random.default_rng(0).permutation(len(x))[:ROWS_FOR_A_KERNEL]
    lengths, bounds = np.ones(x.shape[1]), (1e-2, 1e4)
    shapes = (RBF(lengths, bounds), Matern(lengths, bounds, nu=2.5))
    starts = [ConstantKernel(1.0, (1e-3, 1e4)) * shape + WhiteKernel(0.1, (1e-7, 1e1)) for shape in shapes]
    processes = [gaussian_process(x[rows], y[rows], start) for start in starts]
    return max(processes, key=lambda process: process.log_marginal_likelihood_value_).kernel_


def gaussian_process(x: Array, y: Array, kernel: Any) -> Any:
    """Its hyperparameters by the greatest evidence, from those of the kernel."""
    from sklearn.gaussian_process import GaussianProcessRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a length at its bound is an input that does not matter
        return GaussianProcessRegressor(kernel, normalize_y=True).fit(standard(x, x), y)


def fit_gaussian_process(x: Array, y: Array, kernel: Any, new: Array) -> Prediction:
    """Mean and variance, noise included."""
    mean, sigma = gaussian_process(x, y, kernel).predict(standard(new, x), return_std=True)
    return Prediction(tensor(mean)[None], tensor(sigma)[None] ** 2)


def standard(values: Array, of: Array) -> Array:
    """In units of the columns of `of`."""
    spread = of.std(axis=0)
    return (values - of.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def boosting(depth: int, trees: int) -> Any:
    """scikit-learn's, with what is not chosen."""
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(
        learning_rate=SHRINKAGE, max_depth=depth, n_estimators=trees, subsample=0.7, random_state=0
    )


def choose_boosting(x: Array, y: Array) -> Chosen:
    """Depth and number of trees of the least squared errors."""
    fitted, held = held_out(len(x))
    tried = []
    for depth in DEPTHS:
        stages = boosting(depth, TREES).fit(x[fitted], y[fitted]).staged_predict(x[held])
        errors = [float(np.mean((mean - y[held]) ** 2)) for mean in stages]
        tried.append((min(errors), depth, int(np.argmin(errors)) + 1))
    error, depth, trees = min(tried)
    return Chosen((depth, trees), error)


def fit_boosting(x: Array, y: Array, chosen: Chosen, new: Array) -> Prediction:
    """The mean by trees, the variance that of their errors on held-out rows."""
    mean = tensor(boosting(*chosen.setting).fit(x, y).predict(new))[None]
    return Prediction(mean, torch.full_like(mean, chosen.variance))


# ---- all --------------------------------------------------------------------------------------------------------

OURS = "lbnn"
PLAIN = "plain network, constant sigma"
COMPARED = {
    OURS: Method(ours),
    "lbnn, learned variance": Method(partial(ours, head=True)),
    PLAIN: Method(fit_plain, choose_plain, numpy_unit),
    "mean-variance network": Method(fit_mean_variance, choose_mean_variance, numpy_unit),
    "MC dropout": Method(fit_dropout, choose_dropout, numpy_unit),
    "ensemble of 5": Method(
        partial(fit_mean_variance, members=MEMBERS), partial(choose_mean_variance, members=MEMBERS), numpy_unit
    ),
    "gradient boosting, constant sigma": Method(fit_boosting, choose_boosting),
    "Gaussian process": Method(fit_gaussian_process, choose_kernel),
}
"""In the order in which they are run: what takes longest comes last."""
CHOICES = {
    OURS: Method(ours),
    "one layer": Method(partial(ours, hidden=(50,))),
    "two layers": Method(partial(ours, hidden=(50, 50))),
    "25 units": Method(partial(ours, hidden=(25,))),
    "rate 0.01": Method(partial(ours, lr=0.01)),
    "rate 0.04": Method(partial(ours, lr=0.04)),
    "batches of 64": Method(partial(ours, batch=64)),
    "10,000 steps": Method(partial(of_steps, steps=10_000)),
    "learned variance": Method(partial(ours, head=True)),
    "clipped to 1": Method(partial(with_fit, clip_norm=1.0)),
    "last quarter averaged": Method(partial(with_fit, averaged=0.25)),
    "constant rate, last quarter averaged": Method(partial(with_fit, averaged=0.25, lr_schedule="constant")),
}
"""Of the rule of `lbnn train`."""
METHODS = CHOICES | COMPARED
