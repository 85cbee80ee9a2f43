"""Rows of float32 in a file, inputs and targets side by side, and batches of them in an order by chance.

Rows are drawn in blocks: some blocks from all over the file are read and their rows shuffled, then the next ones. The
file is read, not mapped, so that what a process holds does not grow with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lbnn.base.arrays import Floats
from lbnn.train.batches import Batch, Input, Source, Streamed
from lbnn.train.processes import Processes

ROWS_OF_A_BLOCK = 1024
BLOCKS_AT_ONCE = 64


@dataclass(frozen=True)
class RowFile(Streamed):
    """So many rows of inputs and outputs; those of `classes` are the number of one."""

    path: Path
    rows: int
    inputs: int
    outputs: int
    classes: bool = False

    def read(self, start: int, count: int) -> Floats:
        """Some rows [n, inputs + outputs]."""
        width = self.inputs + self.outputs
        count = max(0, min(count, self.rows - start))
        values = np.fromfile(self.path, np.float32, count * width, offset=4 * width * start)
        return values.reshape(count, width)

    def pair(self, rows: Floats | Tensor) -> Batch:
        """Inputs and targets."""
        tensor = torch.as_tensor(rows)
        y = tensor[:, self.inputs :]
        return tensor[:, : self.inputs], y[:, 0].long() if self.classes else y

    def in_order(self) -> Iterator[Batch]:
        """All rows in parts."""
        for start in range(0, self.rows, ROWS_OF_A_BLOCK):
            yield self.pair(self.read(start, ROWS_OF_A_BLOCK))

    def source(self, batch_size: int, steps: int, generator: torch.Generator, processes: Processes) -> Source:
        """Batches for a training, `steps` at a time."""
        return Blocks(steps, self, batch_size, generator, processes)


@dataclass
class Blocks(Source):
    """Passes over a file of rows, one after the other; an epoch is so many steps of them."""

    checked = True
    data: RowFile
    batch_size: int
    generator: torch.Generator
    processes: Processes

    def __post_init__(self) -> None:
        self.endless = self._endless()

    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        """This process' rows of the next batches."""
        for _ in range(self.length):
            rows = next(self.endless)
            mine = self.processes.part(torch.arange(len(rows)))
            x, y = self.data.pair(rows[mine])
            yield x, y, len(rows)

    def rows(self, batch: int, epochs: int) -> int:
        """All of them."""
        return self.data.rows

    def _endless(self) -> Iterator[Tensor]:
        while True:
            yield from self.one_pass()

    def one_pass(self) -> Iterator[Tensor]:
        """Every row once, in whole batches but the last."""
        rest = torch.empty(0, self.data.inputs + self.data.outputs)
        order = torch.randperm(-(-self.data.rows // ROWS_OF_A_BLOCK), generator=self.generator)
        windows = torch.split(order, BLOCKS_AT_ONCE)
        for number, window in enumerate(windows, 1):
            read = [self.data.read(int(block) * ROWS_OF_A_BLOCK, ROWS_OF_A_BLOCK) for block in window]
            rows = torch.cat([rest, torch.from_numpy(np.concatenate(read))])
            rows = rows[torch.randperm(len(rows), generator=self.generator)]
            *whole, rest = torch.split(rows, self.batch_size)
            yield from whole
            if len(rest) == self.batch_size or number == len(windows):
                yield rest
                rest = rest[:0]
