"""Whether torch writes down what is computed, to be converted to what knows fewer operators than torch."""

import torch


def is_traced() -> bool:
    """By torch.jit.trace: formulas keep to plain operators, and shapes to plain numbers."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def is_exported() -> bool:
    """By torch.export, whose core operators ExecuTorch takes: formulas keep to those."""
    return bool(getattr(torch.compiler, "is_exporting", bool)())  # since torch 2.7
