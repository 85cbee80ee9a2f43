"""The table that lbnn_piecewise reads, and its calls."""

from __future__ import annotations

import numpy as np

from lbnn.base.arrays import Floats
from lbnn.exporters.c.program import Call, Emission, call
from lbnn.graph import Node
from lbnn.ops.pieces import Pieces, make_pieces

PIECE = 4
"""Numbers of a piece: LBNN_PIECE of c_runtime/lbnn_piecewise.h."""


def pack_pieces(pieces: Pieces) -> Floats:
    """{start, slope, place, value} of each piece from left to right, the end of the last, and the shortest length."""
    most = float(np.finfo(np.float32).max)
    lines = [(slope, *pieces.line(i)) for i, slope in enumerate(pieces.slopes)]
    rows = [(start, *line) for start, line in zip((-most, *pieces.kinks), lines, strict=True)]
    return np.array([*np.ravel(rows), most, min(most, *pieces.gaps)], dtype=np.float32)


def emit_piecewise(node: Node, emission: Emission) -> list[Call]:
    """lbnn_piecewise(arrays, length, table, kinks): works in place."""
    pieces = make_pieces(**node.attrs)
    table = pack_pieces(pieces)
    constant = emission.constant(node, table, lines=((table.size - 2, PIECE), (2, 2)))
    arrays, size = emission.arrays(node.name), emission.size(node.name)
    kernel = call(f"lbnn_{node.op}", *arrays, size, constant, len(pieces.kinks))
    return [*emission.copies(node.inputs[0], node.name), kernel]
