"""The standard deviations of a layer's weights as what is trained: one rho a weight, or factors that all share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lbnn.base.errors import LbnnError

VARIANCES = ("full", "rank1", "row")
"""One sigma for each weight; alpha of its output times beta of its input; alpha of its output alone."""


RHOS = ("rho", "row_rho", "column_rho")
"""What files and parameters call the tensors of which standard deviations are made."""


class FactoredRho(NamedTuple):
    """sigma[n, i] = softplus(row[n]) softplus(column[i]); without a column the second factor is 1."""

    row: Tensor
    column: Tensor | None

    @property
    def tensors(self) -> list[Tensor]:
        """What is trained."""
        return [self.row] if self.column is None else [self.row, self.column]


Rho = Tensor | FactoredRho
"""What the standard deviations of a Gaussian parameter are made of."""


def rho_tensors(rho: Rho) -> list[Tensor]:
    """The tensors that are trained."""
    return [rho] if isinstance(rho, Tensor) else rho.tensors


def named_rhos(rho: Rho) -> dict[str, Tensor]:
    """The same by the names that they have in files."""
    tensors = rho_tensors(rho)
    return dict(zip(RHOS[:1] if isinstance(rho, Tensor) else RHOS[1:], tensors, strict=False))


def sigma_of(rho: Rho, mu: Tensor) -> Tensor:
    """The standard deviation of each element."""
    if isinstance(rho, Tensor):
        return F.softplus(rho)
    alpha = F.softplus(rho.row).reshape((-1,) + (1,) * (mu.ndim - 1))
    return (alpha if rho.column is None else alpha * F.softplus(rho.column)).expand(mu.shape)


def variance(rho: Tensor) -> Tensor:
    """softplus(rho)^2."""
    sigma = F.softplus(rho)
    return sigma * sigma


def variance_of_names(names: Iterable[str]) -> str:
    """Which of VARIANCES the tensors of a layer belong to."""
    if "weight_rho" in names:
        return "full"
    return "rank1" if "weight_column_rho" in names else "row"


def check_variance(variance: str, known: tuple[str, ...], layer: str) -> None:
    """Refuses one that the layer does not have."""
    if variance not in VARIANCES:
        raise LbnnError(f"variance must be one of {', '.join(VARIANCES)}, got {variance!r:.50}")
    if variance not in known:
        raise LbnnError(f"{layer} has no variance {variance!r} yet; use variance='full' for it")


def free_rho(sigma: Tensor) -> Tensor:
    """rho such that softplus(rho) = sigma, in double precision on the way; -80 is nearly too small for float32."""
    wide = sigma.detach().double()
    return (wide + torch.log(-torch.expm1(-wide))).clamp_min(-80.0).to(sigma.dtype)
