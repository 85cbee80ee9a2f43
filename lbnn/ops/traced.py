"""Whether torch.jit.trace writes down what is computed, to be converted to what knows fewer operators than torch."""

import torch


def is_traced() -> bool:
    """While it is, formulas keep to plain operators, and shapes to plain numbers."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]
