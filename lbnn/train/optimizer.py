"""The optimizer of a training: AdamW that leaves rho alone, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from lbnn.nn.spread import rho_tensors
from lbnn.train.flat import FlatPosterior
from lbnn.train.priors import named_gaussians

OptimizerLike = torch.optim.Optimizer | Callable[[list[dict[str, Any]]], torch.optim.Optimizer]


def parameter_groups(model: nn.Module, weight_decay: float, decay_rho: bool = False) -> list[dict[str, Any]]:
    """The trainable parameters in two groups: those that decay, and rho, which does not unless asked."""
    rhos = set() if decay_rho else {id(part) for _, _, rho in named_gaussians(model) for part in rho_tensors(rho)}
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if id(p) not in rhos], "weight_decay": weight_decay},
        {"params": [p for p in trained if id(p) in rhos], "weight_decay": 0.0},
    ]
    return [g for g in groups if g["params"]]


def flat_groups(flat: FlatPosterior, weight_decay: float, decay_rho: bool = False) -> list[dict[str, Any]]:
    """The same groups with all means in one vector and all rhos in another."""
    return [
        {"params": [flat.mu, *flat.others], "weight_decay": weight_decay},
        {"params": [flat.rho], "weight_decay": weight_decay if decay_rho else 0.0},
    ]


def as_optimizer(
    optimizer: OptimizerLike | None,
    model: nn.Module,
    flat: FlatPosterior | None,
    lr: float,
    weight_decay: float,
    decay_rho: bool,
) -> torch.optim.Optimizer:
    """The optimizer that was given or that the given function makes; AdamW if there is none."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    if optimizer is None and flat is not None:
        return FlatAdamW(flat_groups(flat, weight_decay, decay_rho), lr=lr)
    groups = parameter_groups(model, weight_decay, decay_rho)
    return torch.optim.AdamW(groups, lr=lr, fused=True) if optimizer is None else optimizer(groups)


class FlatAdamW(torch.optim.AdamW):
    """AdamW of a few vectors; `move` is `step` without the bookkeeping, which takes a small network longer."""

    def __init__(self, groups: list[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, lr=lr, fused=True)
        for group in self.param_groups:
            for values in group["params"]:
                zeros = {name: torch.zeros_like(values) for name in ("exp_avg", "exp_avg_sq")}
                self.state[values] = {"step": torch.zeros((), device=values.device), **zeros}

    @torch.no_grad()
    def move(self) -> None:
        """A step, from gradients that are there."""
        for group in self.param_groups:
            moved = [values for values in group["params"] if values.grad is not None]
            state = [self.state[values] for values in moved]
            torch._foreach_add_([s["step"] for s in state], 1.0)
            torch._fused_adamw_(
                moved,
                [values.grad for values in moved],
                [s["exp_avg"] for s in state],
                [s["exp_avg_sq"] for s in state],
                [],
                [s["step"] for s in state],
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )
