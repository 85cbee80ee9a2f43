"""What a machine must have for a model's C: an int that is wide enough, and flash that an AVR can reach."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn.exporters.c.program import Program

SMALLEST_INT_MAX = 32767
"""What C promises of `int`, and all that AVR has."""
AVR_ARRAY, AVR_FLASH = 32767, 65536
"""Bytes that avr-gcc takes in one array, and that a pointer of 16 bits reaches."""
_ADVICE = "use --weights half, factored variances or a smaller model"


@dataclass(frozen=True)
class Limit:
    """A machine that is refused: the condition, the header that this needs, and what is said of the model."""

    condition: str
    header: str
    text: str


def machine_limits(program: Program) -> tuple[Limit, ...]:
    """What the header of a model says of machines that are too small for it; nothing of most models."""
    largest, stored = program.largest_int, program.weight_bytes
    longest = max((int(array.values.nbytes) for array in program.weights), default=0)
    if largest > SMALLEST_INT_MAX:
        counts = f"counts up to {largest}, which is more than an int of this machine holds"
        return (Limit(f"INT_MAX < {largest}", "limits.h", f"{counts}: use a smaller model or an int of 32 bits"),)
    if stored > AVR_FLASH:
        reached = f"has {stored} bytes of weights, and an AVR reads {AVR_FLASH} of its flash"
        return (Limit("defined(__AVR__)", "", f"{reached}: {_ADVICE}"),)
    if longest > AVR_ARRAY:
        taken = f"has a layer of {longest} bytes, and a compiler for AVR takes {AVR_ARRAY}"
        return (Limit("defined(__AVR__)", "", f"{taken}: {_ADVICE}"),)
    return ()
