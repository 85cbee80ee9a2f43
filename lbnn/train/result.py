"""What a training gives back: its history, epoch by epoch, and which epoch the model now holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Epoch:
    """What one epoch measured: `loss = nll + kl_weight * kl`, means over the epoch; validation may be absent."""

    epoch: int
    loss: float
    nll: float
    kl: float
    kl_weight: float
    validation: float | None = None


@dataclass(frozen=True)
class FitResult:
    """The history of a training and which epoch the model now holds (epochs count from 1).

    `interrupted` says that Ctrl-C ended it: the model holds the best epoch until then.
    """

    epochs: tuple[Epoch, ...]
    best_epoch: int
    best_validation: float | None
    stopped_early: bool
    seconds: float = field(compare=False)
    interrupted: bool = False

    @property
    def loss(self) -> list[float]:
        """The training loss of each epoch."""
        return [e.loss for e in self.epochs]

    @property
    def nll(self) -> list[float]:
        """The training NLL of each epoch."""
        return [e.nll for e in self.epochs]

    @property
    def kl(self) -> list[float]:
        """The KL divergence (nats) of each epoch."""
        return [e.kl for e in self.epochs]

    @property
    def validation(self) -> list[tuple[int, float]]:
        """(epoch, validation NLL) of each epoch that was validated."""
        return [(e.epoch, e.validation) for e in self.epochs if e.validation is not None]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the history; see lbnn.train.plots.history."""
        from lbnn.train.plots import history

        return history(self, ax=ax)
