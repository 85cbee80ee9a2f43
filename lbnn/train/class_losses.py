"""The expected negative log-likelihood of classes for Gaussian logits, in nats: what the ELBO of a classifier needs.

With z ~ N(m, v) independent and p = softmax(m), the expectation to second order ("delta rule") is

    E[-log p_y(z)] = logsumexp(m) - m_y + (1/2) sum_k p_k (1 - p_k) v_k

and the same by drawn logits has no bias. Both are unreduced with reduction="none", as `lbnn.fit(loss=...)` wants them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lbnn.base.classes import Classes
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.ops.torch import TORCH
from lbnn.train.reduction import Reduction, find_reduction

Logits = Moments[Tensor] | Classes[Tensor]
"""Moments of logits, or what a network with a head gives: then those of its logits."""


def categorical_nll(
    out: Logits,
    target: Tensor,
    reduction: Reduction = "mean",
    *,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The expected NLL of class numbers of shape (N,) for logits of shape (N, K).

    By the delta rule, or by so many `samples` of the logits.
    """
    logits, reduce = logits_of(out), find_reduction(reduction)
    check_labels(logits, target)
    label = target.long()
    if samples is not None:
        drawn = _draws(logits, samples, generator)
        every = F.cross_entropy(drawn.flatten(0, 1), label.repeat(samples), reduction="none")
        return reduce(every.view(samples, -1).mean(0))
    p = torch.softmax(logits.mean, -1)
    spread = 0.5 * ((p - p * p) * logits.var).sum(-1)
    return reduce(F.cross_entropy(logits.mean, label, reduction="none") + spread)


def binary_nll(
    out: Logits,
    target: Tensor,
    reduction: Reduction = "mean",
    *,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The expected NLL of labels, each 0 or 1, one logit each: shape (N, K), or (N,) for a single one."""
    logits, reduce = logits_of(out), find_reduction(reduction)
    label = target.to(logits.mean.dtype)
    if label.ndim == 1 and logits.mean.shape[1:] == (1,):
        label = label[:, None]
    if label.shape != logits.mean.shape:
        shapes = f"{tuple(logits.mean.shape)} but the target {tuple(target.shape)}"
        raise LbnnError(f"the logits have shape {shapes}; give a 0 or 1 for each label")
    if samples is not None:
        drawn = _draws(logits, samples, generator)
        every = F.binary_cross_entropy_with_logits(drawn, label.expand_as(drawn), reduction="none")
        return reduce(every.mean(0))
    p = torch.sigmoid(logits.mean)
    plain = F.binary_cross_entropy_with_logits(logits.mean, label, reduction="none")
    return reduce(plain + 0.5 * (p - p * p) * logits.var)


def logits_of(out: Logits) -> Moments[Tensor]:
    """The moments of the logits."""
    return out.logits if isinstance(out, Classes) else out


def check_labels(logits: Moments[Tensor], target: Tensor) -> None:
    """Refuses what are no class numbers for these logits; values only where looking at them does not wait."""
    if logits.mean.ndim != 2 or target.shape != logits.mean.shape[:1] or target.is_floating_point():
        shapes = f"logits {tuple(logits.mean.shape)}, target {tuple(target.shape)} of {target.dtype}"
        raise LbnnError(f"classes need logits of shape (N, K) and whole numbers of shape (N,), got {shapes}")
    if target.device.type == "cpu" and not torch.compiler.is_compiling() and target.numel():
        low, high, count = int(target.min()), int(target.max()), logits.mean.shape[1]
        if low < 0 or high >= count:
            raise LbnnError(f"classes are numbered from 0 to {count - 1} here, the target has {low} to {high}")


def _draws(logits: Moments[Tensor], samples: int, generator: torch.Generator | None) -> Tensor:
    """Logits drawn from their distribution, along a new first axis."""
    if samples < 1:
        raise LbnnError(f"samples must be at least 1, got {samples}")
    mean = logits.mean
    noise = torch.randn((samples, *mean.shape), generator=generator, dtype=mean.dtype, device=mean.device)
    return mean + TORCH.sqrt(logits.var) * noise
