"""The Gaussian negative log-likelihood of predicted moments, in nats; lbnn.train.class_losses has those of classes.

The predicted variance is the TOTAL variance of the target. Networks whose output variance carries everything
("embedded") and networks that end in a VarianceHead ("learned") are therefore scored by the same function.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.class_losses import binary_nll as binary_nll
from lbnn.train.class_losses import categorical_nll as categorical_nll
from lbnn.train.reduction import Reduction, find_reduction

LOG_2PI = math.log(2.0 * math.pi)


def gaussian_nll(
    moments: Moments[Tensor], target: Tensor, reduction: Reduction = "mean", *, check: bool = True
) -> Tensor:
    """-log N(target; mean, var) = (log(2 pi var) + (target - mean)^2 / var) / 2, per element, then reduced.

    check=False leaves out the checks of values, which wait for the device and cannot run inside torch.func.vmap;
    shapes are always checked.
    """
    return expected_gaussian_nll(moments, target, torch.zeros_like(target), reduction, check=check)


def expected_gaussian_nll(
    moments: Moments[Tensor],
    true_mean: Tensor,
    true_var: Tensor,
    reduction: Reduction = "mean",
    *,
    check: bool = True,
) -> Tensor:
    """The NLL expected for targets drawn from N(true_mean, true_var): scoring without sampling noise.

    (log(2 pi var) + (true_var + (true_mean - mean)^2) / var) / 2, smallest where both moments are the true ones.
    """
    reduce = find_reduction(reduction)
    check_shapes(moments, true_mean)
    if check:
        check_values(moments, true_mean)
    squares = true_var + (true_mean - moments.mean) ** 2
    nll = 0.5 * (torch.log(moments.var) + LOG_2PI + squares / moments.var)
    return reduce(nll)


def gaussian_nll_gradients(moments: Moments[Tensor], target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The sum of the NLL over all elements, and its gradients towards mean and variance, without autograd.

    With r = mean - target: r / var, and (1 - r^2 / var) / (2 var).
    """
    check_shapes(moments, target)
    with torch.no_grad():
        rest, inverse = moments.mean - target, moments.var.reciprocal()
        ratio = rest * inverse
        constant = target.numel() * LOG_2PI
        nll = torch.log(moments.var).sum().add_(rest.mul_(ratio).sum()).add_(constant).mul_(0.5)
        return nll, ratio, inverse.addcmul_(ratio, ratio, value=-1.0).mul_(0.5)


def check_shapes(moments: Moments[Tensor], target: Tensor) -> None:
    """Refuses shapes that differ: (N,) against (N, 1) would broadcast to N x N and train on nonsense."""
    mean, var, given = tuple(moments.mean.shape), tuple(moments.var.shape), tuple(target.shape)
    if mean != var:
        raise LbnnError(f"the mean has shape {mean} but the variance {var}; give both the same shape")
    if mean != given:
        raise LbnnError(f"the prediction has shape {mean} but the target {given}; reshape the target to match")


def check_values(moments: Moments[Tensor], target: Tensor) -> None:
    """Refuses what no Gaussian has: NaN or infinity, and a variance that is not positive."""
    for name, values in (("target", target), ("predicted mean", moments.mean), ("predicted variance", moments.var)):
        if not bool(torch.isfinite(values).all()):
            raise LbnnError(f"the {name} holds NaN or infinity; check the data and lower the learning rate")
    lowest = float(moments.var.detach().min()) if moments.var.numel() else 1.0
    if lowest <= 0.0:
        kind = "negative" if lowest < 0.0 else "zero"
        raise LbnnError(f"the predicted variance is {kind} ({lowest:g}); a Gaussian needs a positive variance")
