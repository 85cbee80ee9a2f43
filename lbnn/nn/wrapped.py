"""Modules that torch wraps around a model: the model inside is the one that is traced, saved and scored."""

from __future__ import annotations

from torch import nn


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside torch.compile, DataParallel and DistributedDataParallel, however they are nested."""
    wrappers = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    inner = model.module if isinstance(model, wrappers) else getattr(model, "_orig_mod", None)
    return unwrap(inner) if isinstance(inner, nn.Module) else model
