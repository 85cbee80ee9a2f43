"""The heads: what a network that classifies makes of its logits, behind the graph of moments.

A graph gives the moments of its output whether it has a head or not; a head reads them and computes nothing that
another node could use. So it is a fact of the graph and no operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.ops.namespace import Shape
from lbnn.ops.sigmoid import sigmoid_labels
from lbnn.ops.softmax import softmax_exact, softmax_fast


@dataclass(frozen=True)
class Head:
    """`formula(xp, logits)` gives Classes for logits of shape (N, K); K is at least `fewest`."""

    name: str
    formula: Callable[..., Classes[Any]]
    fewest: int
    title: str

    def check(self, shape: Shape) -> None:
        """Refuses logits (a shape without the batch axis) of which it can make no classes."""
        if len(shape) != 1 or shape[0] < self.fewest:
            few = "; use SigmoidHead for a single logit" if self.fewest > 1 else ""
            raise LbnnError(f"the {self.title} needs a vector of {self.fewest} or more logits, got {shape}{few}")


HEADS = {
    head.name: head
    for head in (
        Head("softmax", softmax_exact, 2, "softmax head"),
        Head("softmax_fast", softmax_fast, 2, "softmax head"),
        Head("sigmoid", sigmoid_labels, 1, "sigmoid head"),
    )
}


def find_head(name: str) -> Head:
    """The head called `name`."""
    if name not in HEADS:
        raise LbnnError(f"unknown head {name!r:.50}; this version knows {', '.join(HEADS)}")
    return HEADS[name]
