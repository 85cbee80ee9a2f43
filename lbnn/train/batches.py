"""What a training learns from: pairs, DataLoaders and samplers as batches of this process.

Under DistributedDataParallel a tensor pair or a sampler is cut by row across the processes. A DataLoader shards itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.train.processes import Processes

Input = Tensor | Moments[Tensor]
Batch = tuple[Input, Tensor]
Sampler = Callable[[torch.Generator], Batch]


@dataclass
class Source(ABC):
    """Batches of this process. `cuts`: each is this process' rows of a batch that all processes know."""

    cuts = True
    checked = False  # whether every value was found finite before the training
    length: int  # batches in an epoch

    @abstractmethod
    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        """(x, y, rows of the whole batch) for epoch `number`."""

    @abstractmethod
    def rows(self, batch: int, epochs: int) -> int:
        """The number of observed rows, given that of the first batch."""


@dataclass
class Pair(Source):
    """Tensors, shuffled anew for each epoch."""

    checked = True
    x: Input
    y: Tensor
    batch_size: int
    generator: torch.Generator
    processes: Processes

    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        """This process' rows of each cut."""
        order = torch.randperm(len(self.y), generator=self.generator)
        for rows in torch.split(order, self.batch_size):
            mine = self.processes.part(rows).to(self.y.device)
            yield take(self.x, mine), self.y[mine], len(rows)

    def rows(self, batch: int, epochs: int) -> int:
        """All of them."""
        return len(self.y)


@dataclass
class Loader(Source):
    """A DataLoader, which gives each process its own batches."""

    loader: DataLoader[Any]
    cuts = False

    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        """As the loader gives them."""
        set_epoch = getattr(self.loader.sampler, "set_epoch", None)
        if set_epoch is not None:  # a DistributedSampler shuffles by epoch
            set_epoch(number)
        for batch in self.loader:
            x, y = as_pair(batch, "a batch of the DataLoader")
            yield x, y, len(y)

    def rows(self, batch: int, epochs: int) -> int:
        """All of the dataset, or less where the loader drops the last batch."""
        drawn = batch * self.length
        return min(drawn, len(self.loader.dataset)) if isinstance(self.loader.dataset, Sized) else drawn


@dataclass
class Fresh(Source):
    """A function that draws a new batch at each step."""

    sampler: Sampler
    generator: torch.Generator
    processes: Processes

    def batches(self, number: int) -> Iterator[tuple[Input, Tensor, int]]:
        """This process' rows of each draw."""
        for _ in range(self.length):
            x, y = as_pair(self.sampler(self.generator), "the result of the sampler")
            mine = self.processes.part(torch.arange(len(y), device=y.device))
            yield take(x, mine), y[mine], len(y)

    def rows(self, batch: int, epochs: int) -> int:
        """No sample comes twice: the data are all that will be drawn."""
        return batch * self.length * epochs


class Streamed(ABC):
    """Data that are not in memory and make their own batches."""

    @abstractmethod
    def source(self, batch_size: int, steps: int, generator: torch.Generator, processes: Processes) -> Source:
        """Batches for a training, `steps` an epoch."""


Data = Batch | Sequence[Any] | DataLoader[Any] | Sampler | Streamed


def as_source(
    data: Data, batch_size: int | None, steps: int, generator: torch.Generator, processes: Processes
) -> Source:
    """The source that `data` is; `steps` an epoch where it has no end of its own."""
    if isinstance(data, DataLoader):
        _refuse_batch_size(batch_size, "the DataLoader")
        return Loader(_length(data), data)
    if isinstance(data, Streamed):
        return data.source(batch_size or 1, steps, generator, processes)
    if callable(data):
        _refuse_batch_size(batch_size, "the sampler")
        return Fresh(steps, data, generator, processes)
    x, y = as_pair(data, "data")
    check_finite(x, y)
    size = len(y) if batch_size is None else batch_size
    check_counts(batch_size=size)
    return Pair(math.ceil(len(y) / size), x, y, size, generator, processes)


def _refuse_batch_size(batch_size: int | None, owner: str) -> None:
    if batch_size is not None:
        raise LbnnError(f"{owner} decides the size of a batch; leave out batch_size")


def _length(loader: DataLoader[Any]) -> int:
    try:
        return len(loader)
    except TypeError:
        raise LbnnError("the DataLoader has no length; pass a function that draws a batch instead") from None


def as_pair(data: Any, what: str) -> Batch:
    """(x, y) with as many rows in both, or an error that says what is wrong."""
    if isinstance(data, Moments) or not isinstance(data, (tuple, list)) or len(data) != 2:
        raise LbnnError(f"{what} must be a pair (x, y), a DataLoader or a function; got {type(data).__name__}")
    x, y = data
    if not isinstance(x, (Tensor, Moments)) or not isinstance(y, Tensor):
        got = f"{type(x).__name__} and {type(y).__name__}"
        raise LbnnError(f"{what} must hold torch tensors (or Moments for x), got {got}; use torch.as_tensor")
    if x.shape[:1] != y.shape[:1] or not len(y.shape) or not len(y):
        shapes = f"x is {tuple(x.shape)}, y {tuple(y.shape)}"
        raise LbnnError(f"{what} needs the same number of rows in both, at least one: {shapes}")
    return x, y


def take(x: Input, rows: Tensor) -> Input:
    """Some rows of a tensor or of Moments."""
    return Moments(x.mean[rows], x.var[rows]) if isinstance(x, Moments) else x[rows]


def to_device(x: Input, device: torch.device) -> Input:
    """A tensor or Moments on another device."""
    return Moments(x.mean.to(device), x.var.to(device)) if isinstance(x, Moments) else x.to(device)


def check_finite(x: Input, y: Tensor) -> None:
    """Refuses NaN and infinity, naming the first row that holds one."""
    parts = {"inputs": x.mean, "input variances": x.var} if isinstance(x, Moments) else {"inputs": x}
    for name, values in {**parts, "targets": y}.items():
        bad = ~torch.isfinite(values)
        if bool(bad.any()):
            row = int(bad.reshape(len(bad), -1).any(1).nonzero()[0])
            raise LbnnError(f"the {name} hold NaN or infinity (first in row {row}); clean the data before training")


def check_counts(**counts: int) -> None:
    """Refuses a number of epochs, steps and the like below one."""
    for name, value in counts.items():
        if value < 1:
            raise LbnnError(f"{name} must be at least 1, got {value}")
