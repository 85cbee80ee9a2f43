"""What one prediction takes on a device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """What one prediction takes on a device; None where it can't be told."""

    instructions: int | None = None
    code_bytes: int | None = None
    weight_bytes: int | None = None
    work_bytes: int | None = None
    stack_bytes: int | None = None
