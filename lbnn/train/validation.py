"""Which epoch is best: scores on points that training never sees, and the weights that scored best."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.heads import logits_only
from lbnn.train.batches import Batch, as_pair, check_counts, check_finite, take, to_device
from lbnn.train.result import Epoch

Validation = Batch | Sequence[Any] | DataLoader[Any] | Callable[[nn.Module], Any]
Loss = Callable[[Moments[Tensor], Tensor], Tensor]
Score = Callable[[nn.Module], float]
"""The validation NLL of a model."""

VALIDATION_ROWS = 8192  # rows evaluated at once, so that a large validation set needs little memory


def as_score(validation: Validation | None, loss: Loss, device: torch.device) -> Score | None:
    """The function that scores a model, or None."""
    if validation is None:
        return None
    if isinstance(validation, DataLoader):
        loader = validation
        return lambda model: mean_nll(model, (as_pair(b, "a validation batch") for b in loader), loss, device)
    if callable(validation):
        return partial(_scored, validation)
    x, y = as_pair(validation, "validation")
    check_finite(x, y)
    cuts = torch.split(torch.arange(len(y), device=y.device), VALIDATION_ROWS)
    parts = [(take(x, rows), y[rows]) for rows in cuts]
    return lambda model: mean_nll(model, parts, loss, device)


def _scored(validation: Callable[[nn.Module], Any], model: nn.Module) -> float:
    """What the user's function says of the model, which gives Classes to it even while it trains on logits."""
    with logits_only(model, False):
        return float(validation(model))


def mean_nll(model: nn.Module, batches: Iterable[Batch], loss: Loss, device: torch.device) -> float:
    """The mean NLL of a model over all values of some batches."""
    total, count = 0.0, 0
    for x, y in batches:
        values = loss(model(to_device(x, device)), y.to(device))
        total += float(values.detach().cpu().double().sum())  # not every device has float64
        count += values.numel()
    return total / count


def check_patience(patience: int | None, validation: Validation | None) -> None:
    """Refuses patience that could never end."""
    if patience is not None:
        check_counts(patience=patience)
        if validation is None:
            raise LbnnError("patience needs a validation set; pass validation=(x, y)")


class Best:
    """The lowest validation NLL so far and the weights that gave it."""

    def __init__(self, model: nn.Module, patience: int | None) -> None:
        self.model = model
        self.patience = patience
        self.value: float | None = None
        self.epoch = 0
        self.waited = 0
        self.state: dict[str, Any] | None = None

    def see(self, record: Epoch) -> None:
        """Keeps the weights if none were better."""
        if record.validation is None:
            return
        self.waited += 1
        if self.value is None or record.validation < self.value:
            state = copy.deepcopy(self.model.state_dict())  # first, so that Ctrl-C leaves the old or the new best
            self.state, self.value, self.epoch, self.waited = state, record.validation, record.epoch, 0

    @property
    def exhausted(self) -> bool:
        """No improvement for as long as patience lasts."""
        return self.patience is not None and self.waited >= self.patience

    def restore(self) -> None:
        """Puts the best weights back; without validation the last ones stay."""
        if self.state is not None:
            self.model.load_state_dict(self.state)
