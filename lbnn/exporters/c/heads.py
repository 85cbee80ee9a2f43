"""Which kernel makes classes of the logits for each head, and the memory that NAME_classify needs beside the plan.

NAME_classify predicts into the last 2 K floats of the work memory; the kernel's own memory lies at its start, where the
plan's values are not needed any more. The work memory of integers holds no floats: there both lie on the stack.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD_HEADER = "lbnn_heads.h"
LARGEST_KERNEL = "lbnn_largest"


@dataclass(frozen=True)
class HeadKernel:
    """A kernel, and the floats of memory that it takes for each logit."""

    name: str
    scratch: int


HEAD_KERNELS = {
    "softmax": HeadKernel("lbnn_softmax", 10),
    "softmax_fast": HeadKernel("lbnn_softmax_fast", 1),
    "sigmoid": HeadKernel("lbnn_sigmoid", 2),
}


def head_kernels(head: str | None) -> tuple[str, ...]:
    """The kernels that a head calls."""
    return () if head is None else (HEAD_KERNELS[head].name, LARGEST_KERNEL)


def stack_len(head: str | None, logits: int) -> int:
    """Floats on the stack of NAME_classify where the work memory holds integers."""
    return 0 if head is None else (HEAD_KERNELS[head].scratch + 2) * logits


def classify_len(head: str, planned: int, logits: int) -> int:
    """Elements of work memory that NAME_classify needs for so many logits of a graph with a plan of this size."""
    return max(planned, HEAD_KERNELS[head].scratch * logits) + 2 * logits
