"""How good predicted classes are against those observed: right, calibrated, and unsure where they are wrong.

Every function takes Classes or probabilities of shape (N, K) and class numbers of shape (N,), and counts in float64.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError

ClassPrediction = Classes[Tensor] | Tensor
LEAST_PROBABILITY = 1e-12
"""A class that was thought impossible costs log(1e12) = 27.6 nats, and not infinitely many."""
BINS = 15


@dataclass(frozen=True)
class ClassSummary:
    """All metrics of one set of predictions; prints as a table."""

    count: int
    accuracy: float
    log_loss: float
    brier: float
    calibration_error: float
    area_under_risk: float

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            ("rows", f"{self.count}"),
            ("accuracy", f"{self.accuracy:.2%}"),
            ("NLL (nats)", f"{self.log_loss:.4f}"),
            ("Brier score", f"{self.brier:.4f}"),
            ("calibration error", f"{self.calibration_error:.4f}"),
            ("area under the risk", f"{self.area_under_risk:.4f}"),
        ]
        return "\n".join(f"{name:<20} {value:>9}" for name, value in rows)


def class_summary(predicted: ClassPrediction, target: Tensor) -> ClassSummary:
    """Every metric at once."""
    return ClassSummary(
        count=len(target),
        accuracy=accuracy(predicted, target),
        log_loss=log_loss(predicted, target),
        brier=brier(predicted, target),
        calibration_error=expected_calibration_error(predicted, target),
        area_under_risk=area_under_risk(predicted, target),
    )


def accuracy(predicted: ClassPrediction, target: Tensor) -> float:
    """The share of rows whose most probable class is the observed one."""
    probability, target = checked_classes(predicted, target)
    return float((probability.argmax(-1) == target).double().mean())


def log_loss(predicted: ClassPrediction, target: Tensor) -> float:
    """Mean negative logarithm of the probability of the observed class, in nats."""
    probability, target = checked_classes(predicted, target)
    observed = probability.gather(1, target[:, None])
    return float(-observed.clamp(min=LEAST_PROBABILITY).log().mean())


def brier(predicted: ClassPrediction, target: Tensor) -> float:
    """Mean squared distance between the probabilities and the observed class, summed over classes: 0 to 2."""
    probability, target = checked_classes(predicted, target)
    observed = torch.nn.functional.one_hot(target, probability.shape[1]).double()
    return float((probability - observed).square().sum(-1).mean())


def reliability(predicted: ClassPrediction, target: Tensor, bins: int = BINS) -> tuple[Tensor, Tensor, Tensor]:
    """(mean confidence, share that was right, rows) of each bin of equal width that has rows."""
    if bins < 1:
        raise LbnnError(f"bins must be at least 1, got {bins}")
    probability, target = checked_classes(predicted, target)
    confidence, label = probability.max(-1)
    right = (label == target).double()
    index = (confidence * bins).long().clamp(0, bins - 1)
    count, sure, hits = (torch.zeros(bins, dtype=torch.float64) for _ in range(3))
    for total, values in ((count, torch.ones_like(right)), (sure, confidence), (hits, right)):
        total.index_add_(0, index, values)
    filled = count > 0
    return sure[filled] / count[filled], hits[filled] / count[filled], count[filled]


def expected_calibration_error(predicted: ClassPrediction, target: Tensor, bins: int = BINS) -> float:
    """Mean |share that was right - confidence| over the bins, each counted by its rows."""
    sure, hits, count = reliability(predicted, target, bins)
    return float(((hits - sure).abs() * count).sum() / count.sum())


def risk_coverage(predicted: ClassPrediction, target: Tensor, score: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(coverage, error rate) if only the surest 1, 2, ... N rows were answered.

    `score` says how unsure each row is: the entropy unless another is given. Rows of one score are answered together.
    """
    probability, target = checked_classes(predicted, target)
    unsure = entropy_rows(probability) if score is None else _scores(score, len(target))
    wrong = (probability.argmax(-1) != target).double()
    order = torch.argsort(unsure, stable=True)
    errors, rows = wrong[order].cumsum(0), torch.arange(1, len(order) + 1, dtype=torch.float64)
    ends = torch.cat([unsure[order].diff() != 0, torch.ones(1, dtype=torch.bool)])
    return rows[ends] / len(order), errors[ends] / rows[ends]


def area_under_risk(predicted: ClassPrediction, target: Tensor, score: Tensor | None = None) -> float:
    """The mean error rate over all coverages: small if wrong rows are the unsure ones."""
    coverage, risk = risk_coverage(predicted, target, score)
    return float((risk * torch.diff(coverage, prepend=coverage.new_zeros(1))).sum())


def auroc(score: Tensor, positive: Tensor) -> float:
    """The chance that a positive row scores higher than another one, ties counted half.

    Entropy against wrong rows, or against rows from elsewhere, says how well it tells them apart.
    """
    values = _scores(score, len(positive))
    chosen = positive.detach().cpu().bool()
    hits, others = int(chosen.sum()), int((~chosen).sum())
    if not hits or not others:
        raise LbnnError("the area under the ROC needs rows of both kinds")
    _, place, sizes = torch.unique(values, return_inverse=True, return_counts=True)
    ends = sizes.cumsum(0).double()
    rank = (ends - (sizes.double() - 1.0) / 2.0)[place]
    return float((rank[chosen].sum() - hits * (hits + 1) / 2.0) / (hits * others))


def unsure_limit(predicted: ClassPrediction, false_alarms: float = 0.05) -> float:
    """The entropy in nats that so large a share of these rows is above: what to save as `unsure_entropy`."""
    if not 0.0 < false_alarms < 1.0:
        raise LbnnError(f"false_alarms must be between 0 and 1, got {false_alarms}")
    given = predicted.entropy if isinstance(predicted, Classes) else entropy_rows(predicted.double())
    return float(torch.quantile(given.detach().cpu().double(), 1.0 - false_alarms))


def confusion(predicted: ClassPrediction, target: Tensor) -> Tensor:
    """Counts of shape (K, K): the observed class by row, the predicted one by column."""
    probability, target = checked_classes(predicted, target)
    count = probability.shape[1]
    cells = torch.bincount(target * count + probability.argmax(-1), minlength=count * count)
    return cells.view(count, count)


def entropy_rows(probability: Tensor) -> Tensor:
    """The entropy of each row, in nats."""
    terms: Tensor = torch.special.entr(probability)
    return terms.sum(-1)


def checked_classes(predicted: ClassPrediction, target: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities in float64 and class numbers on the CPU; a single probability becomes that of two classes."""
    given = predicted.probability if isinstance(predicted, Classes) else predicted
    probability, target = given.detach().cpu().double(), target.detach().cpu()
    if probability.ndim == 2 and probability.shape[1] == 1:
        probability = torch.cat([1.0 - probability, probability], 1)
    if probability.ndim != 2 or target.shape != probability.shape[:1] or target.is_floating_point():
        shapes = f"{tuple(given.shape)} and {tuple(target.shape)} of {target.dtype}"
        raise LbnnError(f"classes need probabilities (N, K) and whole numbers (N,), got {shapes}")
    if not len(target):
        raise LbnnError("there is nothing to score: the target is empty")
    if not bool(torch.isfinite(probability).all()):
        raise LbnnError("the probabilities hold NaN or infinity; check the data and the model")
    if int(target.min()) < 0 or int(target.max()) >= probability.shape[1]:
        raise LbnnError(f"classes are numbered from 0 to {probability.shape[1] - 1}, the target has others")
    return probability, target.long()


def _scores(score: Tensor, rows: int) -> Tensor:
    values = score.detach().cpu().double()
    if values.shape != (rows,) or not bool(torch.isfinite(values).all()):
        raise LbnnError(f"a score must have one finite number for each of {rows} rows, got {tuple(values.shape)}")
    return values
