"""What one prediction takes on a device."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn.base.terminal import thousands
from lbnn.device.cycles import Cycles


@dataclass(frozen=True)
class Cost:
    """What one prediction takes on a device; None where it can't be told."""

    instructions: int | None = None
    code_bytes: int | None = None
    weight_bytes: int | None = None
    work_bytes: int | None = None
    stack_bytes: int | None = None
    cycles: Cycles | None = None  # estimated
    counted_cycles: int | None = None  # of a device that counts them and not instructions

    @property
    def counted(self) -> str:
        """Instructions for a table, or cycles where those are what is counted."""
        cycles = self.counted_cycles if self.instructions is None else None
        return f"{cycles:,} cycles" if cycles else thousands(self.instructions)
