"""What the instructions of an Arm image do, as far as their time depends on it; capstone reads them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lbnn.device.elf import Segment

TRANSFER, MULTIPLE, STORE = "transfer", "multiple", "store"
BRANCH, FLOAT, MULTIPLY_ADD, FLOAT_DIVIDE, DIVIDE, OTHER = "branch", "float", "multiply-add", "root", "divide", "other"

# By the beginning of a mnemonic, the longest that fits; everything else takes a cycle.
_KINDS = {
    **dict.fromkeys(("ldr", "vldr", "vstr"), TRANSFER),
    **dict.fromkeys(("ldm", "stm", "push", "pop", "vldm", "vstm", "vpush", "vpop", "ldrd", "strd"), MULTIPLE),
    "str": STORE,
    **dict.fromkeys(("b", "bl", "bx", "blx", "cb", "tbb", "tbh"), BRANCH),
    **dict.fromkeys(("bic", "bfi", "bfc", "bkpt"), OTHER),
    **dict.fromkeys(("sdiv", "udiv"), DIVIDE),
    "v": FLOAT,
    **dict.fromkeys(("vfm", "vfn", "vmla", "vmls", "vnml"), MULTIPLY_ADD),
    **dict.fromkeys(("vdiv", "vsqrt"), FLOAT_DIVIDE),
}
_LONGEST = max(map(len, _KINDS))


@dataclass(frozen=True)
class Instruction:
    """One instruction: bytes, kind, words moved, registers (`s4` also for its half of `d2`).

    `addend` is what a multiply-add adds to, which it needs later than its factors.
    """

    size: int
    kind: str
    words: int
    reads: frozenset[str]
    writes: frozenset[str]
    addend: frozenset[str]

    @property
    def is_float(self) -> bool:
        """Whether the floating-point unit computes it."""
        return self.kind in (FLOAT, MULTIPLY_ADD, FLOAT_DIVIDE)


def decode(segments: Iterable[Segment], addresses: Iterable[int]) -> Mapping[int, Instruction]:
    """The instructions at these addresses."""
    capstone = importlib.import_module("capstone")
    reader = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8)
    reader.detail = True
    code = [segment for segment in segments if segment.executable]
    return {address: _instruction(reader, _bytes_at(code, address), address) for address in addresses}


def _bytes_at(code: Iterable[Segment], address: int) -> bytes:
    segment = next(one for one in code if one.address <= address < one.address + len(one.data))
    return segment.data[address - segment.address :][:4]


def _instruction(reader: Any, text: bytes, address: int) -> Instruction:
    found = next(reader.disasm(text, address, 1), None)
    if found is None:  # what capstone does not know is no part of kernels
        return Instruction(2, OTHER, 0, frozenset(), frozenset(), frozenset())
    kind = kind_of(found.mnemonic)
    reads, writes = (frozenset(_singles(found.reg_name(number) for number in part)) for part in found.regs_access())
    target = found.operands[0] if found.operands else None
    addend = _singles([found.reg_name(target.reg)]) if kind == MULTIPLY_ADD and target else ()
    return Instruction(found.size, kind, _words(kind, reads, writes), reads, writes, frozenset(addend))


def kind_of(mnemonic: str) -> str:
    """What an instruction does, by its name."""
    name = mnemonic.partition(".")[0]
    if name == "vmrs":  # flags of a comparison
        return OTHER
    beginnings = (name[:length] for length in range(min(_LONGEST, len(name)), 0, -1))
    return next((_KINDS[beginning] for beginning in beginnings if beginning in _KINDS), OTHER)


def _singles(registers: Iterable[str]) -> tuple[str, ...]:
    """Double registers as the two single ones that they are."""
    found: list[str] = []
    for register in registers:
        if register.startswith("d") and register[1:].isdigit():
            number = 2 * int(register[1:])
            found += [f"s{number}", f"s{number + 1}"]
        else:
            found.append(register)
    return tuple(found)


def _words(kind: str, reads: frozenset[str], writes: frozenset[str]) -> int:
    """Registers that a transfer of several moves: those written, or of a store those read; without its address."""
    if kind != MULTIPLE:
        return 1
    return max(len(writes - {"sp"}), len(reads - {"sp"}) - 1, 1)
