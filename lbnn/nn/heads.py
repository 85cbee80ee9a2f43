"""Last layers: what turns features into a predictive distribution."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.nn.base import Layer, Recording, Signal
from lbnn.nn.symbolic import fx_call, fx_tracer
from lbnn.ops.heads import find_head
from lbnn.ops.torch import TORCH

SOFTMAX_KINDS = {"exact": "softmax", "fast": "softmax_fast"}


class VarianceHead(Layer):
    """Learned variance: features (mu, s) give mean E[mu] and total variance V[mu] + softplus(E[s])."""

    op = "variance_head"


class ClassHead(nn.Module):
    """Logits become Classes; the last layer of a network that classifies.

    `logits_only` leaves the logits as they are, which is all that a training needs.
    """

    head: str
    logits_only = False

    def forward(self, x: Signal) -> Any:
        """Classes of a tensor, Moments or a trace of shape (N, K)."""
        if isinstance(x, Recording):
            return x.record_head(self.head)
        tracer = fx_tracer((x,))
        if self.logits_only:
            return x
        return class_moments(x, self.head) if tracer is None else _parts(fx_call(tracer, self, (x,)))


class SoftmaxHead(ClassHead):
    """One of K classes: softmax_moments of K logits, `kind` "exact" or "fast"."""

    def __init__(self, kind: str = "exact") -> None:
        super().__init__()
        self.kind, self.head = kind, _softmax_head(kind)

    def extra_repr(self) -> str:
        """As torch prints its own."""
        return f"kind={self.kind!r}"


class SigmoidHead(ClassHead):
    """Labels that may hold or not, one logit each; a single one tells two classes apart."""

    head = "sigmoid"


def softmax_moments(moments: Tensor | Moments[Tensor], kind: str = "exact") -> Classes[Tensor]:
    """Class probabilities, entropies and their parts for independent Gaussian logits of shape (N, K).

    `exact` is within 1.5e-3 of the true mean of the softmax in all rows that the tests draw, standard deviations up to
    20; `fast` is a rule of thumb that costs as much as a softmax. Both are the softmax where the variance is 0.
    docs/classification.md has the errors.
    """
    return class_moments(moments, _softmax_head(kind))


def class_moments(x: Any, head: str) -> Classes[Tensor]:
    """What a head makes of logits; half precision is computed in float32."""
    logits = x if isinstance(x, Moments) else Moments(x, torch.zeros_like(x))
    if not isinstance(logits.mean, Tensor) or logits.mean.ndim != 2 or logits.mean.shape != logits.var.shape:
        raise LbnnError(f"logits must be of shape (N, K), with variances of the same, got {tuple(logits.mean.shape)}")
    found = find_head(head)
    found.check(tuple(logits.mean.shape[1:]))
    wide = logits if logits.mean.dtype in (torch.float32, torch.float64) else Moments(*(p.float() for p in logits))
    return found.formula(TORCH, wide)._replace(logits=logits)


def _parts(classes: Any) -> Classes[Any]:
    """Classes whose fields are nodes of torch.fx's graph."""
    logits = Moments(classes.logits.mean, classes.logits.var)
    return Classes(classes.probability, classes.entropy, classes.aleatoric, classes.epistemic, logits)


def build_head(name: str) -> ClassHead:
    """The last layer of a model whose file names this head."""
    kinds = {head: kind for kind, head in SOFTMAX_KINDS.items()}
    return SoftmaxHead(kinds[name]) if name in kinds else SigmoidHead()


def head_of(model: nn.Module) -> str | None:
    """The name of the head that a model ends in, or None."""
    heads = {module.head for module in model.modules() if isinstance(module, ClassHead)}
    if len(heads) > 1:
        raise LbnnError(f"the model has the heads {', '.join(sorted(heads))}; it can end in one only")
    return next(iter(heads), None)


@contextmanager
def logits_only(model: nn.Module, wanted: bool = True) -> Iterator[None]:
    """While it lasts, the model's heads give logits as they get them, or Classes again."""
    heads = [module for module in model.modules() if isinstance(module, ClassHead)]
    before = [head.logits_only for head in heads]
    try:
        for head in heads:
            head.logits_only = wanted
        yield
    finally:
        for head, kept in zip(heads, before, strict=True):
            head.logits_only = kept


def _softmax_head(kind: str) -> str:
    if kind not in SOFTMAX_KINDS:
        raise LbnnError(f"unknown kind {kind!r} of softmax; choose {' or '.join(SOFTMAX_KINDS)}")
    return SOFTMAX_KINDS[kind]
