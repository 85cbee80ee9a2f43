"""Cycles of a prediction on a Cortex-M4 and M7, estimated from exact counts of instructions by a stated model.

No emulator here knows cycles. The model is a sum over the instructions that ran: what each takes alone, what it takes
more or less behind the one before it, and what taken branches add. docs/performance.md says what it leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lbnn.device import decoding
from lbnn.device.decoding import Instruction

MULTIPLY_ADD_CYCLES = (1, 3)
"""VFMA and its kind. Arm's table for the M4 says 3; measurements of chips that are told of say from 1 on."""


@dataclass(frozen=True)
class Cycles:
    """Of one prediction with multiply-adds of 1 and of 3 cycles; `wait_state` is what each one of the flash adds."""

    low: int
    high: int
    wait_state: int


@dataclass(frozen=True)
class Pipeline:
    """A core. Cycles: of a root or a division, that a taken branch adds, and that one transfer behind another saves.

    `pairs`: two neighbours that do not need each other start together, of which one at most moves memory, one at most
    computes floats, and none is a branch that is followed, a division or a transfer of several words.
    """

    root: int = 14
    divide: int = 12
    refill: int = 2
    transfer: int = 2
    pairs: bool = False

    def alone(self, one: Instruction, multiply_add: int) -> int:
        """Cycles of an instruction that follows none it depends on."""
        return {
            decoding.TRANSFER: self.transfer,
            decoding.MULTIPLE: 1 + one.words,
            decoding.MULTIPLY_ADD: multiply_add,
            decoding.FLOAT_DIVIDE: self.root,
            decoding.DIVIDE: self.divide,
        }.get(one.kind, 1)

    def behind(self, first: Instruction, second: Instruction) -> int:
        """Cycles that the second takes more because of the first."""
        piped = first.kind == second.kind == decoding.TRANSFER
        waits = first.is_float and bool(first.writes & (second.reads - second.addend))
        return int(waits) - (self.transfer - 1 if piped else 0)


PIPELINES: Mapping[str, Pipeline] = {
    "cortex-m4": Pipeline(),
    "cortex-m7": Pipeline(refill=1, transfer=1, pairs=True),  # most branches are foreseen, loads take a cycle
}
"""By core; Arm has no table of cycles for the M7, so that its row is a coarser guess."""

_MEMORY = (decoding.TRANSFER, decoding.MULTIPLE, decoding.STORE)
_UNPAIRED = (decoding.MULTIPLE, decoding.FLOAT_DIVIDE, decoding.DIVIDE, decoding.BRANCH)


def start_together(first: Instruction, second: Instruction) -> bool:
    """Whether a core that starts two instructions at once does so with these."""
    if first.kind in _UNPAIRED or second.kind in _UNPAIRED[:3] or first.writes & second.reads:
        return False
    both_move = first.kind in _MEMORY and second.kind in _MEMORY
    return not both_move and not (first.is_float and second.is_float)


def estimate(
    pipeline: Pipeline,
    code: Mapping[int, Instruction],
    executed: Mapping[int, int],
    taken: Mapping[int, int],
    lines: int,
) -> Cycles:
    """The cycles of all counted instructions; `lines` of 16 bytes were read from flash."""
    branches = sum(taken.values())
    rest = pipeline.refill * branches + _between(pipeline, code, executed)
    low, high = (
        rest + sum(pipeline.alone(code[address], cycles) * count for address, count in executed.items())
        for cycles in MULTIPLY_ADD_CYCLES
    )
    return Cycles(low, high, branches + lines)


def _between(pipeline: Pipeline, code: Mapping[int, Instruction], executed: Mapping[int, int]) -> int:
    """What neighbours add and save; only branches go elsewhere, and they neither add nor save."""
    more, joined = 0, False  # joined: the first has started together with the one before it
    for address in sorted(executed):
        first, after = code[address], code.get(address + code[address].size)
        if after is None:
            joined = False
            continue
        more += pipeline.behind(first, after) * executed[address]
        joined = pipeline.pairs and not joined and start_together(first, after)
        more -= executed[address] if joined else 0
    return more
