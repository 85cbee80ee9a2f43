"""What predicted classes are worth on rows that the model was not trained on, and from when on it should be unsure.

One half of the rows gives the temperature T: logits of mean m and variance v become (m / T, v / T^2), with the T that
has the lowest NLL. The other half is split conformal calibration. With the probabilities p_y of the observed classes
sorted, the threshold of the set

    { k : p_k >= threshold }

is the floor((n + 1)(1 - level))-th smallest: a new row's class is in its set with a probability of at least `level`,
and less than `level` + 1 / (n + 1) where no two are equal, whatever the model is worth. The set may be empty: then no
class is as probable as the right one mostly was. The limit of the entropy is found likewise: a new row like these
exceeds it with a probability of at most `false_alarms`. T is not fitted to the rows of the second
half, so that this holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.model.inputs import KEY_OF_UNSURE
from lbnn.nn.heads import class_moments
from lbnn.train.calibration import FALSE_ALARMS, LEVEL, exceeded_rarely
from lbnn.train.class_metrics import checked_classes, log_loss

CLASS_KEY = "class_calibration"
"""Of a model file's metadata."""
FEWEST_FOR_TEMPERATURE = 20
MOST_FOR_TEMPERATURE = 20_000
"""More rows do not move it."""
COLDEST, HOTTEST = 0.05, 20.0


@dataclass(frozen=True)
class ClassCalibration:
    """The constants; `rows` are those behind threshold and limit, `nll` the NLL there before and after."""

    level: float
    false_alarms: float
    rows: int
    temperature: float
    threshold: float
    unsure_entropy: float
    nll: tuple[float, float]

    def sets(self, probability: Any) -> Any:
        """Which classes belong to the set of each row, [n, K]."""
        return probability >= self.threshold

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for a model file or JSON."""
        return asdict(self) | {"nll": list(self.nll)}

    def as_metadata(self) -> dict[str, Any]:
        """What a model file holds; the limit stands where one may have been set by hand."""
        return {CLASS_KEY: self.as_dict(), KEY_OF_UNSURE: self.unsure_entropy}


def calibrate_classes(
    predicted: Classes[Tensor],
    target: Tensor,
    head: str,
    level: float = LEVEL,
    false_alarms: float = FALSE_ALARMS,
    seed: int = 0,
) -> ClassCalibration:
    """The calibration by predictions and class numbers [n]; `seed` says which rows are for what."""
    checked_classes(predicted, target)
    order = np.random.default_rng(seed).permutation(len(target))
    warm, rest = order[: len(order) // 2], order[len(order) // 2 :]
    if len(warm) < FEWEST_FOR_TEMPERATURE:
        raise LbnnError(f"classes need at least {2 * FEWEST_FOR_TEMPERATURE} calibration rows, got {len(target)}")
    logits = Moments(*(part.double() for part in predicted.logits))
    warm = warm[:MOST_FOR_TEMPERATURE]
    temperature = best_temperature(_rows(logits, warm), target[warm], head)
    before, after = (class_moments(cooled(_rows(logits, rest), t), head) for t in (1.0, temperature))
    probability, seen = checked_classes(after, target[rest])
    (limit,) = exceeded_rarely(after.entropy[:, None], 1.0 - false_alarms, _alarms(false_alarms))
    (least,) = exceeded_rarely(-probability.gather(1, seen[:, None]), level, f"sets of {level:.4g}")
    nll = (log_loss(before, target[rest]), log_loss(after, target[rest]))
    return ClassCalibration(level, false_alarms, len(rest), temperature, -least, limit, nll)


def _alarms(share: float) -> str:
    return f"a limit with {share:.4g} of false alarms"


def _rows(logits: Moments[Tensor], rows: Any) -> Moments[Tensor]:
    return Moments(logits.mean[rows], logits.var[rows])


def cooled(logits: Moments[Tensor], temperature: float) -> Moments[Tensor]:
    """(m / T, v / T^2)."""
    return Moments(logits.mean / temperature, logits.var / temperature**2)


@torch.no_grad()
def best_temperature(logits: Moments[Tensor], target: Tensor, head: str) -> float:
    """The temperature between 1/20 and 20 with the lowest NLL.

    Rows without any mistake would draw it to 0 however few they are: a prior N(0, 1) of log T holds it back, which
    many rows do not feel.
    """

    from scipy.optimize import minimize_scalar  # slow to import, and exports read this module

    def cost(logarithm: float) -> float:
        nll = log_loss(class_moments(cooled(logits, math.exp(logarithm)), head), target)
        return nll + 0.5 * logarithm**2 / len(target)

    ends = (math.log(COLDEST), math.log(HOTTEST))
    return math.exp(float(minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 1e-3}).x))


def read_class_calibration(metadata: Mapping[str, Any]) -> ClassCalibration | None:
    """The calibration of a model file; None if it has none."""
    given = metadata.get(CLASS_KEY)
    if given is None:
        return None
    try:
        names = ("level", "false_alarms", "rows", "temperature", "threshold", "unsure_entropy")
        level, alarms, rows, temperature, threshold, limit = (_number(given[name]) for name in names)
        first, second = map(_number, given["nll"])
    except (KeyError, TypeError, ValueError):
        raise LbnnError("its calibration is not as lbnn calibrate writes it; calibrate it again") from None
    return ClassCalibration(level, alarms, int(rows), temperature, threshold, limit, (first, second))


def _number(value: Any) -> float:
    """A number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1e38:
        raise ValueError(value)
    return float(value)
