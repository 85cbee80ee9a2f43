"""What a loss makes of the values of all elements or rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from lbnn.base.errors import LbnnError

Reduction = Literal["mean", "sum", "none"]

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": torch.mean,
    "sum": torch.sum,
    "none": lambda values: values,
}


def find_reduction(name: str) -> Callable[[Tensor], Tensor]:
    """The reduction called `name`."""
    if name not in REDUCTIONS:
        raise LbnnError(f"unknown reduction '{name}'; known: {', '.join(REDUCTIONS)}")
    return REDUCTIONS[name]
