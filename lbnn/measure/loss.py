"""What an export with fewer bits loses: the predictions of two forms of a model beside each other.

The measure is KL(exact || stored) of each prediction, all its outputs together, and not the change of a score on data:
a score can improve while the variance is badly wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lbnn.base.arrays import AnyArray
from lbnn.base.moments import Moments
from lbnn.base.terminal import print_table
from lbnn.graph import Graph
from lbnn.graph.reference import classify

ALL = "all"
"""What the row over all samples is called."""


@dataclass(frozen=True)
class BitLoss:
    """Over some predictions: KL in nats, largest error of a mean in sigmas, smallest and largest ratio of variances."""

    samples: int
    kl_mean: float
    kl_99: float
    kl_worst: float
    mean_error: float
    least_ratio: float
    largest_ratio: float
    class_kl: float | None = None  # largest KL of the class probabilities, where the model has a head
    class_kl_mean: float | None = None


def element_kl(exact: Moments[Any], stored: Moments[Any]) -> AnyArray:
    """KL(N(m, v) || N(m', v')) of every element; 0 where both are the same number for sure, else infinite there.

    With r = v / v' - 1 it is (r - log(1 + r) + (m - m')^2 / v') / 2, which keeps its digits where the two are close.
    """
    (mean, var), (other_mean, other_var) = _doubles(exact), _doubles(stored)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = (var - other_var) / other_var
        kl = 0.5 * (excess - np.log1p(excess) + (mean - other_mean) ** 2 / other_var)
    known = (var == 0.0) & (other_var == 0.0) & (mean == other_mean)
    return np.where(known, 0.0, np.where(np.isnan(kl), np.inf, np.maximum(kl, 0.0)))


def class_kl(exact: AnyArray, stored: AnyArray) -> AnyArray:
    """KL of the probabilities [..., K] of one class out of K; infinite where one is not a number."""
    p, q = np.asarray(exact, np.float64), np.asarray(stored, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0.0, p * np.log(p / q), 0.0)
    kl = terms.sum(axis=-1)
    return np.where(np.isnan(kl), np.inf, np.maximum(kl, 0.0))


def measure_loss(exact: Moments[Any], stored: Moments[Any], graph: Graph | None = None) -> BitLoss:
    """Of predictions [n, ...]; `graph` is that of the model, whose head makes classes of them."""
    rows = len(np.asarray(exact.mean))
    (mean, var), (other_mean, other_var) = (
        [part.reshape(rows, -1) for part in _doubles(moments)] for moments in (exact, stored)
    )
    kl = element_kl(Moments(mean, var), Moments(other_mean, other_var)).sum(axis=1)
    ratio = _ratio(other_var, var)
    return BitLoss(
        rows,
        float(kl.mean()),
        float(np.quantile(kl, 0.99, method="inverted_cdf")),
        float(kl.max()),
        float(_ratio(np.abs(other_mean - mean), np.sqrt(var), nothing=0.0).max()),
        float(ratio.min()),
        float(ratio.max()),
        *_class_losses(graph, exact, stored),
    )


def losses_by_kind(
    exact: Moments[Any], stored: Moments[Any], kinds: Sequence[str], graph: Graph | None = None
) -> dict[str, BitLoss]:
    """A row for each kind of sample, and one for all of them."""
    named = np.array(kinds)
    chosen = {kind: named == kind for kind in dict.fromkeys(kinds)}
    found = {kind: measure_loss(_rows(exact, rows), _rows(stored, rows), graph) for kind, rows in chosen.items()}
    return {**found, ALL: measure_loss(exact, stored, graph)}


def plain_losses(losses: Mapping[str, BitLoss]) -> dict[str, Any]:
    """Everything as plain data; nothing if nothing was measured."""
    return {"loss": {kind: asdict(loss) for kind, loss in losses.items()}} if losses else {}


def show_losses(losses: Mapping[str, BitLoss], title: str) -> None:
    """A table with a row for each kind of sample; nothing if nothing was measured."""
    if not losses:
        return
    headed = any(loss.class_kl is not None for loss in losses.values())
    columns = ("samples", "number", "KL mean", "KL 99 %", "KL worst", "mean error", "variance ratio")
    rows = [[kind, *_cells(loss, headed)] for kind, loss in losses.items()]
    print_table((*columns, *(("class KL mean", "worst") if headed else ())), rows, title)


def _cells(loss: BitLoss, headed: bool) -> list[str]:
    kl = [f"{number:.1e}" for number in (loss.kl_mean, loss.kl_99, loss.kl_worst)]
    ratios = f"{loss.least_ratio:.4f} to {loss.largest_ratio:.4f}"
    found = (loss.class_kl_mean, loss.class_kl)
    classes = [] if not headed else ["" if number is None else f"{number:.1e}" for number in found]
    return [str(loss.samples), *kl, f"{loss.mean_error:.1e} sd", ratios, *classes]


def _class_losses(graph: Graph | None, exact: Moments[Any], stored: Moments[Any]) -> tuple[float, ...]:
    """The largest KL of the class probabilities and its mean; nothing without a head."""
    if graph is None or graph.head is None:
        return ()
    before, after = (_probabilities(graph, Moments(*_doubles(moments))) for moments in (exact, stored))
    kl = class_kl(before, after).reshape(len(before), -1).sum(axis=1)
    return float(kl.max()), float(kl.mean())


def _probabilities(graph: Graph, logits: Moments[Any]) -> AnyArray:
    """[n, classes], or [n, labels, 2] of labels that hold or do not, each by itself."""
    classes = classify(graph, logits)
    assert classes is not None
    found = np.asarray(classes.probability)
    return np.stack([found, 1.0 - found], axis=-1) if graph.head == "sigmoid" else found


def _doubles(moments: Moments[Any]) -> tuple[AnyArray, AnyArray]:
    return np.asarray(moments.mean, np.float64), np.asarray(moments.var, np.float64)


def _rows(moments: Moments[Any], rows: AnyArray) -> Moments[Any]:
    return Moments(np.asarray(moments.mean)[rows], np.asarray(moments.var)[rows])


def _ratio(above: AnyArray, below: AnyArray, nothing: float = 1.0) -> AnyArray:
    """above / below, and `nothing` where both are 0; NaN counts as infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where((above == 0.0) & (below == 0.0), nothing, above / below)
    return np.where(np.isnan(quotient), np.inf, quotient)
