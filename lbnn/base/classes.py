"""What a network that classifies gives: the probability of each class, and how sure that is."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

from lbnn.base.moments import Moments, Part


class Classes(NamedTuple, Generic[Part]):
    """Class probabilities with the weights' uncertainty integrated out, entropies in nats, and the logits behind them.

    `entropy` is that of `probability`. `aleatoric` is the part that would stay if the logits were known, their mean
    entropy; `epistemic`, the rest, is the mutual information between class and logits. A named tuple, so that torch's
    wrappers see through it.
    """

    probability: Part
    entropy: Part
    aleatoric: Part
    epistemic: Part
    logits: Moments[Part]

    @property
    def mutual_information(self) -> Part:
        """Another name of `epistemic`."""
        return self.epistemic

    @property
    def label(self) -> Any:
        """The most probable class of each row."""
        return self.probability.argmax(-1)  # type: ignore[attr-defined]
