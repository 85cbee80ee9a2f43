"""What a training gave: the model, and what it is worth on rows that were not fitted, numbers and classes alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from lbnn import nn as bnn
from lbnn.base.classes import Classes
from lbnn.base.moments import Moments
from lbnn.base.terminal import counted
from lbnn.train import metrics
from lbnn.train.class_metrics import ClassSummary, class_summary
from lbnn.train.result import FitResult

Predictions = Moments[Tensor] | Classes[Tensor]
"""What a network gives: of one with a head, classes."""
REPORTED_LEVELS = (0.68, 0.95)
FEW = 20
"""Scores of fewer rows say little."""


@dataclass(frozen=True)
class Trained:
    """A model, its history, and predictions for rows that were not fitted: none if Ctrl-C came before them."""

    model: bnn.Sequential
    history: FitResult
    test: Predictions | None
    target: Tensor
    how: str
    record: Mapping[str, Any] = field(default_factory=dict)  # what lbnn.train.record says of it

    @property
    def scores(self) -> metrics.Summary | ClassSummary | None:
        """What the predictions are worth."""
        return None if self.test is None else summarised(self.test, self.target)


def summarised(predicted: Predictions, target: Tensor) -> metrics.Summary | ClassSummary:
    """What predictions are worth beside numbers [n, outputs] or class numbers [n]."""
    if isinstance(predicted, Classes):
        return class_summary(predicted, target)
    return metrics.summary(predicted, target, REPORTED_LEVELS)


def plain_scores(trained: Trained) -> dict[str, Any] | None:
    """The scores on rows that were not fitted as plain data."""
    scores = trained.scores
    if scores is None:
        return None
    rows = {"rows": len(trained.target), "how": trained.how}
    if isinstance(scores, ClassSummary):
        return rows | plain_class_scores(scores)
    coverage = {f"{level:.0%}": share for level, share in scores.coverage.items()}
    return {**rows, "nll": scores.nll, "rmse": scores.rmse, "coverage": coverage}


def plain_class_scores(scores: ClassSummary) -> dict[str, float]:
    """As a model file and JSON have them."""
    return {"accuracy": scores.accuracy, "nll": scores.log_loss, "brier": scores.brier, "ece": scores.calibration_error}


def class_score_text(scores: Mapping[str, float]) -> str:
    """The same for people."""
    named = {"accuracy": f"{scores['accuracy']:.1%}"}
    named |= {name: f"{scores[key]:.4g}" for name, key in (("NLL", "nll"), ("Brier", "brier"), ("ECE", "ece"))}
    return ", ".join(f"{name} {text}" for name, text in named.items())


def picture(trained: Trained, names: Sequence[str], path: Path) -> Path:
    """What rows that were not fitted show, `names` those of the targets or of the classes.

    Of numbers predicted against observed with bars of two sigma, and the calibration curve; of classes reliability,
    risk against coverage, and what is taken for what.
    """
    from lbnn.train import class_plots, plots

    assert trained.test is not None
    if isinstance(trained.test, Classes):
        return plots.save_picture(class_plots.classification(trained.test, trained.target, names=names), path)
    return plots.save_picture(plots.regression(trained.test, trained.target, name=names[0]), path)


def summary_lines(trained: Trained, steps: int | None = None) -> str:
    """How long it took and what it is worth, for people; `steps` are an epoch that is no pass over all rows."""
    history, scores = trained.history, trained.scores
    epochs = len(history.epochs)
    length = counted(epochs, "epoch") if steps is None else f"{epochs} x {counted(steps, 'step')}"
    done = f"trained for {length} in {history.seconds:.0f} s"
    if scores is None:
        return f"{done}; not scored"
    few = "; so few rows say little" if len(trained.target) < FEW else ""
    return f"{done}\n{trained.how}: {_score_text(scores)}{few}"


def _score_text(scores: metrics.Summary | ClassSummary) -> str:
    if isinstance(scores, ClassSummary):
        return class_score_text(plain_class_scores(scores))
    covered = ", ".join(f"{level:.0%} interval covers {share:.1%}" for level, share in scores.coverage.items())
    return f"NLL {scores.nll:.4g}, RMSE {scores.rmse:.4g}, {covered}"
