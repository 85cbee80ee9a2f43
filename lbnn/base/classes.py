"""What a network that classifies gives: the probability of each class, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple

from lbnn.base.moments import Moments, Part, as_array


class Classes(NamedTuple, Generic[Part]):
    """Class probabilities with the weights' uncertainty integrated out, entropies in nats, and the logits behind them.

    `entropy` is that of `probability`. `aleatoric` is the part that would stay if the logits were known, their mean
    entropy; `epistemic`, the rest, is the mutual information between class and logits. A named tuple, so that
    `probability, *_ = model(x)` works and torch's wrappers see through it. As in Moments an index takes rows, so that
    `out[0]` is the first prediction and `out[mask]` those that are chosen.
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

    def __getitem__(self, rows: Any) -> Classes[Any]:  # type: ignore[override]
        """The classes of some rows, by whatever indexes a tensor: a number, a slice, a mask."""
        if getattr(self.probability, "ndim", 2) == 1:
            raise IndexError("Classes of one row have no rows; an index of its probability is that of a class")
        return self._each(lambda part: part[rows])

    def _each(self, function: Callable[[Any], Any]) -> Classes[Any]:
        probability, entropy, aleatoric, epistemic = map(function, tuple(self)[:4])
        return Classes(probability, entropy, aleatoric, epistemic, Moments(*map(function, self.logits)))

    def detach(self) -> Classes[Any]:
        """The same numbers, cut from the graph of gradients."""
        return self._each(lambda part: part.detach())

    def to(self, *args: Any, **kwargs: Any) -> Classes[Any]:
        """On another device or in another dtype, as `torch.Tensor.to`."""
        return self._each(lambda part: part.to(*args, **kwargs))

    def numpy(self) -> Classes[Any]:
        """As numpy arrays, wherever the tensors are and whether they have gradients or not."""
        return self._each(as_array)
