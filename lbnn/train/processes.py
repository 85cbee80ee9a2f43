"""Training in one process or many: this process among those that train together, and their seeds.

Processes that share gradients by themselves have one rule: each adds up the same tensors at the same step. Whatever
ends one of them therefore travels with those sums: Ctrl-C as a flag, an end without a word as a broken connection.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lbnn.base.errors import LbnnError

LAST_WORDS = "last words"
"""In the store of the processes: why one of them ended."""


class PeerLost(LbnnError):
    """Another process of this training ended."""


@dataclass
class Ending:
    """What may end a training in many processes."""

    waits: bool = False  # signals are noted, and all processes answer them at the same step
    noted: bool = False
    over: bool = False  # what is left is to write the model, which no signal may stop
    reason: str = ""  # of a process that was lost


@dataclass(frozen=True)
class Processes:
    """This process among those that train together; alone unless torch wraps the model, or `together` joined them."""

    rank: int = 0
    world: int = 1
    group: dist.ProcessGroup | None = None
    wrapped: bool = False  # in DistributedDataParallel, which averages the gradients itself
    store: Any = None  # of torch.distributed
    ending: Ending = field(default_factory=Ending)

    @property
    def shares(self) -> bool:
        """Whether gradients are to be added up by whoever computes them."""
        return self.group is not None and not self.wrapped

    def part(self, rows: Tensor) -> Tensor:
        """Every world-th row, from this process' own."""
        return rows[self.rank :: self.world]

    def mean(self, values: list[float], device: torch.device) -> list[float]:
        """The mean of each value over the processes."""
        if self.group is None:
            return values
        sums = torch.tensor(values, dtype=torch.float64, device=device)
        self._reduce(sums)
        return [float(v) / self.world for v in sums]

    def add_up(self, parts: list[Tensor]) -> None:
        """Each tensor becomes its sum over the processes; where one was asked to end, all are interrupted here."""
        if not self.shares:
            return
        asked = parts[0].new_full((1,), float(self.ending.noted))
        vector = torch.cat([*(part.reshape(-1) for part in parts), asked])
        self._reduce(vector)
        sums = torch.split(vector, [*(part.numel() for part in parts), 1])
        for part, summed in zip(parts, sums[:-1], strict=True):
            part.copy_(summed.view_as(part))
        if float(sums[-1]) > 0.0:
            self.ending.over = True
            raise KeyboardInterrupt

    def start_alike(self, model: nn.Module) -> None:
        """Every process begins with the weights of the first."""
        with self.noticing():
            for values in model.state_dict().values() if self.shares else ():
                dist.broadcast(values, 0, group=self.group)

    def tell(self, reason: str) -> None:
        """Leaves last words for the others."""
        if self.store is not None:
            self.store.set(LAST_WORDS, f"process {self.rank}: {reason}")

    def told(self) -> str:
        """To the first process: the last words of another, if it had time for them."""
        if self.rank or self.store is None or not self.store.check([LAST_WORDS]):  # it may be gone with the first one
            return ""
        return str(self.store.get(LAST_WORDS).decode())

    def _reduce(self, values: Tensor) -> None:
        with self.noticing():
            dist.all_reduce(values, group=self.group)

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """A connection that breaks means that a process has ended."""
        try:
            yield
        except RuntimeError:  # gloo has no error of its own
            self.ending.over = True
            self.ending.reason = self.told() or "another process of this training has ended"
            raise PeerLost(self.ending.reason) from None


_JOINED: ContextVar[Processes | None] = ContextVar("joined", default=None)


def joined_processes() -> Processes:
    """Those that `together` joined, or this one alone."""
    return _JOINED.get() or Processes()


@contextmanager
def joined(processes: Processes) -> Iterator[None]:
    """Trainings in this block share their gradients."""
    token = _JOINED.set(processes)
    try:
        yield
    finally:
        _JOINED.reset(token)


def processes_of(model: nn.Module) -> Processes:
    """Those that share the model's gradients."""
    inner = getattr(model, "_orig_mod", model)
    if not isinstance(inner, DistributedDataParallel):
        return joined_processes()
    group = inner.process_group
    return Processes(dist.get_rank(group), dist.get_world_size(group), group, wrapped=True)


@contextmanager
def in_step(model: nn.Module) -> Iterator[Processes]:
    """Those that train the model in this block, all from the same weights.

    Signals wait for the next step, at which all processes answer; also later, if that was the end.
    """
    processes = processes_of(model)
    processes.ending.waits = processes.shares
    try:
        processes.start_alike(model)
        yield processes
    finally:
        processes.ending.waits = processes.ending.over


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters are."""
    for parameter in itertools.chain(model.parameters(), model.buffers()):
        return parameter.device
    raise LbnnError("the model has no parameters to train")


@dataclass(frozen=True)
class Generators:
    """The sources of random numbers of a training, seeded alike in every process."""

    data: torch.Generator  # on the CPU, so that the order of the data does not depend on the device
    kl: torch.Generator


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[Generators]:
    """Seeded generators, and a seeded global state for DataLoaders and dropout that is put back at the end."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield Generators(
            data=torch.Generator().manual_seed(seed),
            kl=torch.Generator(device=device).manual_seed(seed + 1),
        )
