"""Weights as a file of their own: array after array, little-endian, each at a multiple of four."""

from __future__ import annotations

from lbnn.exporters.c.program import Program, Weights


def binary_weights(program: Program) -> bytes:
    """The contents of the file."""
    arrays = [array.values.astype(array.values.dtype.newbyteorder("<")).tobytes() for array in program.weights]
    padded = [stored + bytes(padding_behind(a)) for stored, a in zip(arrays, program.weights, strict=True)]
    return b"".join(padded)


def binary_len(program: Program) -> int:
    """Bytes of the file."""
    return sum(int(array.values.nbytes) + padding_behind(array) for array in program.weights)


def padding_behind(array: Weights) -> int:
    """Bytes behind an array: the next begins where a word may be read."""
    return -int(array.values.nbytes) % 4
