"""The table that lbnn_tabulated reads, and its calls."""

from __future__ import annotations

import numpy as np

from lbnn.base.arrays import Array
from lbnn.exporters.c.program import Call, Emission, call
from lbnn.graph import Node
from lbnn.ops.stored_function import StoredFunction, stored_function

HEAD, CELL, KNOT = 8, 4, 3
"""Numbers before the cells, of a cell and of a knot: the order of c_runtime/lbnn_tabulated.h."""


def pack_function(function: StoredFunction) -> Array:
    """Start, width, ends, the cubics, and {level, tilt, spread} of each knot."""
    step = function.step
    head = [function.start, step, 1.0 / step, 1.0 / (step * step), *function.ends[0], *function.ends[1]]
    knots = np.stack([np.array(function.level), *function.rows[1:]], axis=1)
    return np.concatenate([head, function.cells.ravel(), knots.ravel()])


def emit_tabulated(node: Node, emission: Emission) -> list[Call]:
    """lbnn_tabulated(arrays, length, table, cells): works in place."""
    function = stored_function(**node.attrs)
    numbers, cells = pack_function(function), CELL * function.count
    lines = ((HEAD, HEAD), (cells, CELL), (numbers.size - HEAD - cells, KNOT))
    table = emission.constant(node, numbers, lines=lines)
    arrays, size = emission.arrays(node.name), emission.size(node.name)
    kernel = call(f"lbnn_{node.op}", *arrays, size, table, function.count)
    return [*emission.copies(node.inputs[0], node.name), kernel]
